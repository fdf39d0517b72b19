//! Requests of one connection that cross from the thread of the sockets to the main loop together: one wake-up, one lock and one
//! update of the [`Backlog`](crate::backlog::Backlog) for all of them.

use crate::request::Content;
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
    /// The answer to a request that cannot be understood. The session sends it, so that it comes after the replies to earlier
    /// requests.
    Refused(Box<Message>),
}

/// Bytes that a request takes in addition to its own length until it is executed, estimated.
const OVERHEAD: usize = 256;

/// A batch that is being filled.
#[derive(Debug, Default)]
pub(crate) struct Filling {
    incoming: Vec<(Incoming, usize)>,
    /// The bytes of all requests, one after the other.
    raw: Vec<u8>,
}

impl Filling {
    /// Adds a request with its bytes.
    pub(crate) fn push(&mut self, incoming: Incoming, raw: &[u8]) {
        self.raw.extend_from_slice(raw);
        self.incoming.push((incoming, raw.len()));
    }

    /// The number of requests.
    pub(crate) fn len(&self) -> usize {
        self.incoming.len()
    }

    /// Bytes that the requests take, estimated.
    pub(crate) fn memory(&self) -> usize {
        self.raw.len() + self.incoming.len() * OVERHEAD
    }

    /// The batch for the main loop.
    pub(crate) fn finish(self) -> Batch {
        let memory = self.memory();
        Batch { incoming: self.incoming.into_iter(), raw: self.raw, taken: 0, memory }
    }
}

/// A batch that the main loop takes request by request.
#[derive(Debug)]
pub(crate) struct Batch {
    incoming: IntoIter<(Incoming, usize)>,
    raw: Vec<u8>,
    /// Bytes in `raw` of requests that were taken.
    taken: usize,
    /// Bytes that all its requests took, estimated.
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
    pub(crate) fn take(&mut self, raw: &mut Vec<u8>) -> Option<Incoming> {
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
        let mut filling = Filling::default();
        [&b"one"[..], b"", b"three"]
            .iter()
            .zip(0..)
            .for_each(|(raw, xid)| filling.push(Incoming::Refused(message(xid)), raw));
        assert_eq!((filling.len(), filling.memory()), (3, 8 + 3 * OVERHEAD));
        let (mut batch, mut raw, mut taken) = (filling.finish(), b"earlier".to_vec(), Vec::new());
        while let Some(Incoming::Refused(message)) = batch.take(&mut raw) {
            taken.push((message.xid.0, raw.clone()));
        }
        assert_eq!(taken, [(0, b"one".to_vec()), (1, Vec::new()), (2, b"three".to_vec())]);
        assert!(batch.is_empty());
    }
}
