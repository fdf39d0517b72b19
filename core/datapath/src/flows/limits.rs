//! Limits of the megaflows.

/// Removed megaflows that may wait until no reader uses them: this many indices exist beyond the limit.
pub(crate) const SPARE: usize = 8192;

/// Limits of the megaflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowLimits {
    pub(crate) flows: usize,
    pub(crate) bytes: usize,
}
