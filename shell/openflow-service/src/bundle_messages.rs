//! The messages of a bundle while it waits for its commit.
//!
//! A bundle may have millions of messages. They are stored in consecutive pieces, which grow up to a limit and are freed one by one as the
//! commit progresses. The allocator does not mix large pieces with small objects, so the memory of a freed piece can be returned to the
//! kernel as a whole, whichever thread frees it.

use crate::bundle_totals::BundleShare;
use ofproto::FlowRequest;
use openflow::group::GroupMod;
use openflow::meter::MeterMod;
use openflow::packet_io::PacketOut;
use openflow::port::PortMod;

/// Number of messages in the first piece.
const PIECE_MIN: usize = 64;
/// Number of messages in the largest piece.
const PIECE_MAX: usize = 1 << 17;
/// Factor by which each piece is larger than the previous one.
const GROWTH: usize = 4;
/// Typical length of a request that changes a flow, in bytes.
const REQUEST_LEN: usize = 128;

/// The content of a message in a bundle.
pub(crate) enum MessageContent {
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
    /// `None`: these messages do not count, because a commit has taken them out of their bundle.
    share: Option<BundleShare>,
}

/// Consecutive messages, with the bytes of the requests that added them, which error replies quote.
pub(crate) struct Piece {
    contents: Vec<MessageContent>,
    /// The concatenated bytes of the requests.
    requests: Vec<u8>,
    /// The offset in `requests` where each request ends.
    ends: Vec<usize>,
}

impl BundleMessages {
    /// The messages of a new bundle.
    pub(crate) fn new(share: BundleShare) -> BundleMessages {
        BundleMessages { share: Some(share), ..BundleMessages::default() }
    }

    /// Counts the memory of a message. Returns false if the limit of all open bundles would be exceeded.
    pub(crate) fn grow(&mut self, memory: usize) -> bool {
        self.share.as_mut().is_some_and(|share| share.grow(memory))
    }

    /// Estimated memory of the messages in bytes, as it was counted.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.share.as_ref().map_or(0, BundleShare::memory)
    }

    /// Removes the messages from the totals of the open bundles.
    pub(crate) fn leave_totals(&mut self) {
        self.share = None;
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bit mask of the tunnel option fields that flows of the bundle use.
    pub(crate) fn fields(&self) -> u64 {
        self.fields
    }

    /// Adds a message; `fields` is the bit mask of the tunnel option fields that it uses.
    pub(crate) fn push(&mut self, content: MessageContent, fields: u64, request: &[u8]) {
        if self.pieces.last().is_none_or(|last| last.contents.len() == last.contents.capacity()) {
            let capacity =
                self.pieces.last().map_or(PIECE_MIN, |last| (last.contents.len() * GROWTH).min(PIECE_MAX));
            self.pieces.push(Piece::new(capacity));
        }
        let Some(piece) = self.pieces.last_mut() else { return };
        piece.contents.push(content);
        piece.requests.extend_from_slice(request);
        piece.ends.push(piece.requests.len());
        self.len += 1;
        self.fields |= fields;
    }

    /// All messages in order.
    pub(crate) fn contents(&self) -> impl Iterator<Item = &MessageContent> {
        self.pieces.iter().flat_map(|piece| &piece.contents)
    }

    /// The pieces in order. The caller can drop each piece before it takes the next piece.
    pub(crate) fn into_pieces(self) -> impl Iterator<Item = Piece> {
        self.pieces.into_iter()
    }
}

impl Piece {
    fn new(capacity: usize) -> Piece {
        let requests = Vec::with_capacity(capacity * REQUEST_LEN);
        Piece { contents: Vec::with_capacity(capacity), requests, ends: Vec::with_capacity(capacity) }
    }

    /// Takes the messages out of the piece; the requests stay.
    pub(crate) fn take_messages(&mut self) -> Vec<MessageContent> {
        std::mem::take(&mut self.contents)
    }

    /// The bytes of the request that added the message with index `at`.
    pub(crate) fn request(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(at).copied().unwrap_or(start);
        self.requests.get(start..end).unwrap_or_default()
    }
}
