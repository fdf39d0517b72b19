//! How many megaflows there may be.

/// Removed megaflows that may wait until no reader holds them: there are as many indices beyond the limit.
pub(crate) const SPARE: usize = 8192;

/// How many megaflows there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowLimits {
    pub(crate) flows: usize,
    pub(crate) bytes: usize,
}
