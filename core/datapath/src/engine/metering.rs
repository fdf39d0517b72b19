//! State of a worker for meters: tokens taken in advance, and buffers.

use crate::meter::Meter;
use std::sync::Arc;

/// Tokens of a meter that a worker has taken for the rest of its iteration.
pub(crate) struct AdvanceTokens {
    pub(crate) id: u32,
    pub(crate) meter: Arc<Meter>,
    /// Packets and bytes that may still be spent.
    pub(crate) left: (u64, u64),
    /// Packets and bytes that were spent.
    pub(crate) spent: (u64, u64),
}

impl AdvanceTokens {
    /// Spends tokens. Returns `false` and spends none if there are too few.
    #[inline]
    pub(crate) fn spend(&mut self, packets: u64, bytes: u64) -> bool {
        let left = self.left.0.checked_sub(packets).zip(self.left.1.checked_sub(bytes));
        if let Some(left) = left {
            self.left = left;
            self.spent = (self.spent.0 + packets, self.spent.1 + bytes);
        }
        left.is_some()
    }

    /// Returns the unspent tokens to the meter, and counts the packets and bytes for which tokens were spent.
    pub(crate) fn settle(self) {
        self.meter.return_all(self.left);
        self.meter.count(self.spent);
    }
}

/// The tokens taken in advance, and buffers for lengths and verdicts of a group, kept to avoid allocations.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) lens: Vec<u32>,
    pub(crate) verdicts: Vec<u8>,
    pub(crate) advance: Option<AdvanceTokens>,
    /// The meter of the previous group.
    pub(crate) last: Option<u32>,
}
