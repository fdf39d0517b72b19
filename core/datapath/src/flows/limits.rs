//! Limits of the megaflows.

/// Number of removed megaflows that may wait until no worker reads them any more: so many indices exist beyond the
/// limit.
pub(crate) const SPARE: usize = 8192;

/// Limits of the megaflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowLimits {
    pub(crate) flows: usize,
    pub(crate) bytes: usize,
}
