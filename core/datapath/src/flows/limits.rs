//! Limits of the megaflows.

/// Number of megaflow indices beyond the limit. A removed megaflow keeps its index until no worker can read it any more;
/// meanwhile a new megaflow needs another index.
pub(crate) const SPARE: usize = 8192;

/// Limits of the megaflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowLimits {
    pub(crate) flows: usize,
    pub(crate) bytes: usize,
}
