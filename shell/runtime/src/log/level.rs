//! Levels and destinations of messages.

/// The severity of a message; smaller is more severe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Nothing is logged.
    Off,
    /// The process is about to die.
    Emer,
    /// Something is broken.
    Err,
    /// Something is unusual.
    Warn,
    /// An event of normal operation.
    Info,
    /// Details for debugging.
    Dbg,
}

impl Level {
    pub(super) const ALL: [Level; 6] =
        [Level::Off, Level::Emer, Level::Err, Level::Warn, Level::Info, Level::Dbg];

    pub(super) fn name(self) -> &'static str {
        ["OFF", "EMER", "ERR", "WARN", "INFO", "DBG"][self as usize]
    }

    pub(super) fn from_name(s: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|l| l.name().eq_ignore_ascii_case(s))
    }

    pub(super) fn from_u8(v: u8) -> Level {
        Level::ALL.get(usize::from(v)).copied().unwrap_or(Level::Dbg)
    }

    pub(super) fn syslog(self) -> u32 {
        [7, 1, 3, 4, 6, 7][self as usize]
    }
}

/// A destination of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dest {
    /// Standard error.
    Console,
    /// The system's log.
    Syslog,
    /// The file of `--log-file`.
    File,
}

impl Dest {
    pub(super) const ALL: [Dest; 3] = [Dest::Console, Dest::Syslog, Dest::File];

    pub(super) fn name(self) -> &'static str {
        ["CONSOLE", "SYSLOG", "FILE"][self as usize]
    }

    pub(super) fn from_name(s: &str) -> Option<Dest> {
        Dest::ALL.into_iter().find(|d| d.name().eq_ignore_ascii_case(s))
    }
}
