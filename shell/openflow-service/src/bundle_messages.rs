//! The messages of a bundle while it waits for its commit.
//!
//! A bundle may have millions. They are stored in consecutive pieces, each larger than the previous one, which are
//! freed one by one as the commit progresses. The allocator gets larger pieces directly from the kernel, and returns
//! them at once regardless of the thread that frees them.

use ofproto::FlowRequest;
use openflow::group::GroupMod;
use openflow::meter::MeterMod;
use openflow::packet_io::PacketOut;
use openflow::port::PortMod;

/// Messages of the first piece and of the largest, and the growth factor.
const PIECE: usize = 64;
const PIECE_MAX: usize = 1 << 17;
const GROWTH: usize = 4;
/// Typical bytes of a request that changes a flow.
const REQUEST: usize = 128;

/// The content of a message in a bundle.
pub(crate) enum Work {
    Flow(FlowRequest),
    Group(Box<GroupMod>),
    Meter(Box<MeterMod>),
    Port(Box<PortMod>),
    Packet(Box<PacketOut>),
}

/// The messages of a bundle, in order.
#[derive(Default)]
pub(crate) struct BundleMessages {
    pieces: Vec<Piece>,
    len: usize,
    fields: u64,
}

/// Consecutive messages with the requests that added them, to which errors refer.
pub(crate) struct Piece {
    works: Vec<Work>,
    /// The requests' bytes in sequence, and where each ends.
    requests: Vec<u8>,
    ends: Vec<usize>,
}

impl BundleMessages {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The fields of tunnel options that its flows will use, one bit each.
    pub(crate) fn fields(&self) -> u64 {
        self.fields
    }

    /// Adds a message that uses these fields.
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

    /// All messages in order.
    pub(crate) fn works(&self) -> impl Iterator<Item = &Work> {
        self.pieces.iter().flat_map(|piece| &piece.works)
    }

    /// The pieces in order; each is freed when it is dropped.
    pub(crate) fn into_pieces(self) -> impl Iterator<Item = Piece> {
        self.pieces.into_iter()
    }
}

impl Piece {
    fn new(room: usize) -> Piece {
        let requests = Vec::with_capacity(room * REQUEST);
        Piece { works: Vec::with_capacity(room), requests, ends: Vec::with_capacity(room) }
    }

    /// Takes the messages.
    pub(crate) fn take(&mut self) -> Vec<Work> {
        std::mem::take(&mut self.works)
    }

    /// The request that added message `at`.
    pub(crate) fn request(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(at).copied().unwrap_or(start);
        self.requests.get(start..end).unwrap_or_default()
    }
}
