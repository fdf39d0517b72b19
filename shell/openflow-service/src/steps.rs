//! The messages of a bundle while it waits for its commit.
//!
//! A bundle may have millions. They lie side by side in pieces, each larger than the one before, which are freed one by
//! one as the commit goes through them. The larger pieces the allocator has from the kernel, and gives back at once whichever
//! thread frees them.

use ofproto::FlowRequest;
use openflow::group::GroupMod;
use openflow::meter::MeterMod;
use openflow::packet_io::PacketOut;
use openflow::port::PortMod;

/// Messages of the first piece and of the largest, and how many times more the next one has.
const PIECE: usize = 64;
const PIECE_MAX: usize = 1 << 17;
const GROWTH: usize = 4;
/// Bytes of a request that changes a flow, mostly.
const REQUEST: usize = 128;

/// What a message of a bundle asks.
pub(crate) enum Work {
    Flow(FlowRequest),
    Group(Box<GroupMod>),
    Meter(Box<MeterMod>),
    Port(Box<PortMod>),
    Packet(Box<PacketOut>),
}

/// The messages of a bundle, in order.
#[derive(Default)]
pub(crate) struct Steps {
    pieces: Vec<Piece>,
    len: usize,
    fields: u64,
}

/// So many messages, and the requests that added them: errors are about those.
pub(crate) struct Piece {
    works: Vec<Work>,
    /// The requests, one behind the other, and where each ends.
    requests: Vec<u8>,
    ends: Vec<usize>,
}

impl Steps {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The fields of tunnel options that what it adds or modifies will use, a bit for each.
    pub(crate) fn fields(&self) -> u64 {
        self.fields
    }

    /// Adds a message, which uses these fields.
    pub(crate) fn push(&mut self, work: Work, fields: u64, request: &[u8]) {
        if self.pieces.last().is_none_or(|last| last.works.len() == last.works.capacity()) {
            let room = self.pieces.last().map_or(PIECE, |last| (last.works.len() * GROWTH).min(PIECE_MAX));
            self.pieces.push(Piece::new(room));
        }
        let Some(piece) = self.pieces.last_mut() else { return };
        piece.works.push(work);
        piece.requests.extend_from_slice(request);
        piece.ends.push(piece.requests.len());
        self.len += 1;
        self.fields |= fields;
    }

    /// All of them, in order.
    pub(crate) fn works(&self) -> impl Iterator<Item = &Work> {
        self.pieces.iter().flat_map(|piece| &piece.works)
    }

    /// Piece by piece: what is taken is given back when it is dropped.
    pub(crate) fn into_pieces(self) -> impl Iterator<Item = Piece> {
        self.pieces.into_iter()
    }
}

impl Piece {
    fn new(room: usize) -> Piece {
        let requests = Vec::with_capacity(room * REQUEST);
        Piece { works: Vec::with_capacity(room), requests, ends: Vec::with_capacity(room) }
    }

    /// Its messages.
    pub(crate) fn take(&mut self) -> Vec<Work> {
        std::mem::take(&mut self.works)
    }

    /// The request that added one of them.
    pub(crate) fn request(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(at).copied().unwrap_or(start);
        self.requests.get(start..end).unwrap_or_default()
    }
}
