//! Numbers for new rules.

/// Allocates unique numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Supply {
    last: u64,
}

impl Supply {
    /// Returns a new number.
    pub(crate) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The last number allocated.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }
}
