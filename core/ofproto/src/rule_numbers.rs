//! Rule numbers: each new rule gets the next number.

/// Allocates the numbers of rules.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleNumbers {
    last: u64,
}

impl RuleNumbers {
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
