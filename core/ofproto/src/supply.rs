//! Numbers for new rules.

/// Gives numbers, none of them twice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Supply {
    last: u64,
}

impl Supply {
    /// A new number.
    pub(crate) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The one given last.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }
}
