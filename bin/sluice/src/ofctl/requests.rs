//! Requests that change a switch. They are stored in encoded form, which is small, because a file may have a million flows.

use super::context::Context;
use super::fail::Fail;
use openflow::message::{Body, Message, Xid};
use openflow::message_len;
use openflow::session::BundleAdd;
use openflow::text::Protocols;
use openflow::wire::set_len_and_xid;
use openflow::{Dialect, OfError, Version, encode};

/// The encoding of requests on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// The negotiated version.
    pub version: Version,
    /// The flow format in which the switch expects flow mods.
    pub protocol: Protocols,
}

impl Format {
    /// The format at the start of a connection of this version.
    pub fn initial(version: Version) -> Format {
        Format { version, protocol: Protocols::initial(version) }
    }

    /// The encoder's settings for this format.
    pub fn dialect(self) -> Dialect {
        Dialect { flow_mod_table_id: self.protocol.has_table_id(), debug_actions: true }
    }

    /// A message in this format.
    pub fn message(self, xid: Xid, body: Body) -> Message {
        let extended = self.protocol.is_nxm();
        Message { extended, ..Message::new(self.version, xid, body) }
    }
}

/// Encoded requests of one format, in order. [`Requests::assign_xids`] assigns their transaction IDs before they are sent.
#[derive(Debug)]
pub struct Requests {
    format: Format,
    /// The encoded messages, in pieces of arbitrary size; no message is split.
    pieces: Vec<Vec<u8>>,
    len: u32,
    first: Xid,
    encode_error: Option<OfError>,
}

impl Requests {
    /// An empty list.
    pub fn new(format: Format) -> Requests {
        Requests { format, pieces: vec![Vec::new()], len: 0, first: Xid(0), encode_error: None }
    }

    /// Encodes requests with these bodies.
    pub fn from_bodies(format: Format, bodies: impl IntoIterator<Item = Body>) -> Requests {
        let mut requests = Requests::new(format);
        bodies.into_iter().for_each(|body| requests.push(body));
        requests
    }

    /// The common format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Appends a request. If the format cannot express the request, [`Requests::assign_xids`] reports the error.
    pub fn push(&mut self, body: Body) {
        match encode(&self.format.message(Xid(0), body), self.format.dialect()) {
            Ok(frames) => {
                self.len += 1;
                let Some(piece) = self.pieces.last_mut() else { return };
                frames.iter().for_each(|frame| piece.extend_from_slice(frame));
            }
            Err(e) => self.encode_error = self.encode_error.or(Some(e)),
        }
    }

    /// Appends another list of the same format.
    pub fn append(&mut self, mut other: Requests) {
        self.pieces.append(&mut other.pieces);
        self.len += other.len;
        self.encode_error = self.encode_error.or(other.encode_error);
    }

    /// Assigns consecutive transaction IDs of the context to the requests.
    pub fn assign_xids(&mut self, cx: &mut Context) -> Result<(), Fail> {
        if let Some(e) = self.encode_error {
            return Err(Fail::Message(e.name().to_owned()));
        }
        self.first = cx.xids(self.len);
        let mut xid = self.first.0;
        for piece in &mut self.pieces {
            let mut rest = &mut piece[..];
            while let Some(len) = frame_len(rest) {
                let (frame, behind) = rest.split_at_mut(len);
                set_len_and_xid(frame, Xid(xid)).map_err(|e| Fail::Message(e.name().to_owned()))?;
                (rest, xid) = (behind, xid.wrapping_add(1));
            }
        }
        Ok(())
    }

    /// Each encoded request.
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

    /// The request with a transaction ID.
    pub fn find(&self, xid: Xid) -> Option<&[u8]> {
        let at = xid.0.wrapping_sub(self.first.0);
        if at < self.len { self.frames().nth(at as usize) } else { None }
    }

    /// The bytes that precede each request in the message that adds it to a bundle. The caller must set length and transaction
    /// ID.
    pub fn bundle_header(&self, bundle: u32, flags: u16) -> Result<Vec<u8>, Fail> {
        let add = Body::BundleAdd(BundleAdd { bundle, flags, message: Vec::new() });
        let frames = encode(&self.format.message(Xid(0), add), self.format.dialect());
        frames.map(|frames| frames.concat()).map_err(|e| Fail::Message(e.name().to_owned()))
    }
}

/// The length of the first frame. The buffer contains only complete messages.
fn frame_len(bytes: &[u8]) -> Option<usize> {
    message_len(bytes).ok().flatten().filter(|len| *len <= bytes.len())
}
