//! Requests that change a switch, kept as the bytes that they are on the wire: a file may hold a million flows.

use super::context::{Context, Fail};
use openflow::message::{Body, Message, Xid};
use openflow::next_frame;
use openflow::session::BundleAdd;
use openflow::text::Protocols;
use openflow::wire::set_len_and_xid;
use openflow::{Dialect, OfError, Version, encode};

/// How a connection writes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// The version agreed on.
    pub version: Version,
    /// The one format in which the switch expects flow mods.
    pub protocol: Protocols,
}

impl Format {
    /// In which a connection of this version starts.
    pub fn initial(version: Version) -> Format {
        Format { version, protocol: Protocols::initial(version) }
    }

    /// The form of details.
    pub fn dialect(self) -> Dialect {
        Dialect { flow_mod_table_id: self.protocol.has_table_id(), debug_actions: true }
    }

    /// A message with the flows in this format.
    pub fn message(self, xid: Xid, body: Body) -> Message {
        let extended = self.protocol.is_nxm();
        Message { extended, ..Message::new(self.version, xid, body) }
    }
}

/// Requests of one format, in order. They have no transactions until they are sent.
#[derive(Debug)]
pub struct Requests {
    format: Format,
    /// One behind the other, in pieces as they were written.
    pieces: Vec<Vec<u8>>,
    len: u32,
    first: Xid,
    refused: Option<OfError>,
}

impl Requests {
    /// None yet.
    pub fn new(format: Format) -> Requests {
        Requests { format, pieces: vec![Vec::new()], len: 0, first: Xid(0), refused: None }
    }

    /// Of these bodies.
    pub fn of(format: Format, bodies: impl IntoIterator<Item = Body>) -> Requests {
        let mut requests = Requests::new(format);
        bodies.into_iter().for_each(|body| requests.push(body));
        requests
    }

    /// The format of all of them.
    pub fn format(&self) -> Format {
        self.format
    }

    /// One more. What the format cannot carry is said when they are numbered.
    pub fn push(&mut self, body: Body) {
        match encode(&self.format.message(Xid(0), body), self.format.dialect()) {
            Ok(frames) => {
                self.len += 1;
                let Some(piece) = self.pieces.last_mut() else { return };
                frames.iter().for_each(|frame| piece.extend_from_slice(frame));
            }
            Err(e) => self.refused = self.refused.or(Some(e)),
        }
    }

    /// Those of another, of the same format, behind these.
    pub fn append(&mut self, mut other: Requests) {
        self.pieces.append(&mut other.pieces);
        self.len += other.len;
        self.refused = self.refused.or(other.refused);
    }

    /// Gives each its transaction, the next after those of the context.
    pub fn number(&mut self, cx: &mut Context) -> Result<(), Fail> {
        if let Some(e) = self.refused {
            return Err(Fail::Says(e.name().to_owned()));
        }
        self.first = cx.xids(self.len);
        let mut xid = self.first.0;
        for piece in &mut self.pieces {
            let mut rest = &mut piece[..];
            while let Some(len) = frame_len(rest) {
                let (frame, behind) = rest.split_at_mut(len);
                set_len_and_xid(frame, Xid(xid)).map_err(|e| Fail::Says(e.name().to_owned()))?;
                (rest, xid) = (behind, xid.wrapping_add(1));
            }
        }
        Ok(())
    }

    /// Each of them.
    pub fn frames(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().flat_map(|piece| {
            let mut rest = &piece[..];
            std::iter::from_fn(move || {
                let (frame, behind) = rest.split_at(frame_len(rest)?);
                rest = behind;
                Some(frame)
            })
        })
    }

    /// The one of a transaction.
    pub fn find(&self, xid: Xid) -> Option<&[u8]> {
        let at = xid.0.wrapping_sub(self.first.0);
        if at < self.len { self.frames().nth(at as usize) } else { None }
    }

    /// What comes before the bytes of each of them in the message that adds it to a bundle. Its length and its transaction
    /// are still to be set.
    pub fn bundle_header(&self, bundle: u32, flags: u16) -> Result<Vec<u8>, Fail> {
        let add = Body::BundleAdd(BundleAdd { bundle, flags, message: Vec::new() });
        let frames = encode(&self.format.message(Xid(0), add), self.format.dialect());
        frames.map(|frames| frames.concat()).map_err(|e| Fail::Says(e.name().to_owned()))
    }
}

/// The length of the first frame. Each is one message of our own: none is cut off.
fn frame_len(bytes: &[u8]) -> Option<usize> {
    next_frame(bytes).ok().flatten().filter(|len| *len <= bytes.len())
}
