//! Data sources of sFlow.

/// The object that is sampled or whose counters are reported (sFlow: data source).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The interface with this index.
    Interface(u32),
    /// The bridge whose agent has this number.
    Bridge(u32),
}

impl Source {
    /// Class and index in one word.
    pub(super) fn word(self) -> u32 {
        // Class 2: a physical entity. Numbers up to 999 are reserved for entities of the host.
        match self {
            Source::Interface(index) => index & 0x00ff_ffff,
            Source::Bridge(agent) => 2 << 24 | (1000 + agent) & 0x00ff_ffff,
        }
    }
}
