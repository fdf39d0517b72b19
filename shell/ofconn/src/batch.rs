//! Batch of requests of one connection, which the thread of the sockets hands to the main loop. A batch needs one wake-up, one lock and
//! one update of the [`WaitingBytes`](crate::waiting_bytes::WaitingBytes).

use crate::request_content::Content;
use openflow::{Message, Version, Xid};
use std::vec::IntoIter;

/// An item that a session receives from its peer.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all are requests, and a box for each would cost an allocation"
)]
pub(crate) enum Incoming {
    /// A request.
    Request(Version, Xid, Content),
    /// The error reply to a request that cannot be decoded or has a wrong OpenFlow version. The session sends
    /// it, so that it follows the replies to earlier requests.
    Refused(Box<Message>),
}

/// Estimated memory of a waiting request in addition to the bytes of its message.
const OVERHEAD: usize = 256;

/// A batch to which the thread of the sockets adds requests.
#[derive(Debug, Default)]
pub(crate) struct BatchBuilder {
    incoming: Vec<(Incoming, usize)>,
    /// The concatenated bytes of all requests.
    raw: Vec<u8>,
}

impl BatchBuilder {
    /// Adds a request with its bytes.
    pub(crate) fn push(&mut self, incoming: Incoming, raw: &[u8]) {
        self.raw.extend_from_slice(raw);
        self.incoming.push((incoming, raw.len()));
    }

    /// The number of requests.
    pub(crate) fn len(&self) -> usize {
        self.incoming.len()
    }

    /// Estimated memory of the requests, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.raw.len() + self.incoming.len() * OVERHEAD
    }

    /// The batch for the main loop.
    pub(crate) fn finish(self) -> Batch {
        let memory = self.memory();
        Batch { incoming: self.incoming.into_iter(), raw: self.raw, taken: 0, memory }
    }
}

/// A complete batch, from which the main loop takes one request at a time.
#[derive(Debug)]
pub(crate) struct Batch {
    incoming: IntoIter<(Incoming, usize)>,
    raw: Vec<u8>,
    /// Offset in `raw` of the next request.
    taken: usize,
    /// Estimated memory of all requests of the batch, taken or not, in bytes.
    pub(crate) memory: usize,
}

impl Batch {
    /// The number of requests that were not taken.
    pub(crate) fn len(&self) -> usize {
        self.incoming.len()
    }

    /// Whether all requests were taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the next request, and writes its bytes into `raw`.
    pub(crate) fn take_next(&mut self, raw: &mut Vec<u8>) -> Option<Incoming> {
        let (incoming, len) = self.incoming.next()?;
        let end = self.taken + len;
        raw.clear();
        raw.extend_from_slice(self.raw.get(self.taken..end).unwrap_or_default());
        self.taken = end;
        Some(incoming)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow::Body;

    #[test]
    fn requests_are_taken_in_order_with_their_bytes() {
        let message = |xid| Box::new(Message::new(Version::V13, Xid(xid), Body::BarrierReply));
        let mut filling = BatchBuilder::default();
        [&b"one"[..], b"", b"three"]
            .iter()
            .zip(0..)
            .for_each(|(raw, xid)| filling.push(Incoming::Refused(message(xid)), raw));
        assert_eq!((filling.len(), filling.memory()), (3, 8 + 3 * OVERHEAD));
        let (mut batch, mut raw, mut taken) = (filling.finish(), b"earlier".to_vec(), Vec::new());
        while let Some(Incoming::Refused(message)) = batch.take_next(&mut raw) {
            taken.push((message.xid.0, raw.clone()));
        }
        assert_eq!(taken, [(0, b"one".to_vec()), (1, Vec::new()), (2, b"three".to_vec())]);
        assert!(batch.is_empty());
    }
}
