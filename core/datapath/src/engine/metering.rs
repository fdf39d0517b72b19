//! State of a worker for meters: tokens that it has taken in advance, and buffers.

use crate::meter::Meter;
use std::sync::Arc;

/// Tokens that a worker has taken of a meter for the rest of its iteration.
pub(crate) struct Lease {
    pub(crate) id: u32,
    pub(crate) meter: Arc<Meter>,
    /// Packets and bytes that are left.
    pub(crate) left: (u64, u64),
    pub(crate) spent: (u64, u64),
}

impl Lease {
    /// Takes tokens; `false` if there are too few.
    #[inline]
    pub(crate) fn spend(&mut self, packets: u64, bytes: u64) -> bool {
        let left = self.left.0.checked_sub(packets).zip(self.left.1.checked_sub(bytes));
        if let Some(left) = left {
            self.left = left;
            self.spent = (self.spent.0 + packets, self.spent.1 + bytes);
        }
        left.is_some()
    }

    pub(crate) fn settle(self) {
        self.meter.give_all(self.left);
        self.meter.count(self.spent);
    }
}

/// Lengths and verdicts of a group, kept for their memory.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) lens: Vec<u32>,
    pub(crate) verdicts: Vec<u8>,
    pub(crate) lease: Option<Lease>,
    /// The meter of the last group.
    pub(crate) last: Option<u32>,
}
