//! Messages: DPDK's own, and ours about it.

/// How grave a message is, in DPDK's words; graver is less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// `emergency`
    Emergency,
    /// `alert`
    Alert,
    /// `critical`
    Critical,
    /// `error`
    Error,
    /// `warning`
    Warning,
    /// `notice`
    Notice,
    /// `info`
    Info,
    /// `debug`
    Debug,
}

/// Something to tell the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// How grave it is.
    pub level: Level,
    /// One line.
    pub text: String,
}
