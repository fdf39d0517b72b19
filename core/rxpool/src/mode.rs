//! The ways in which a port gets its receive buffers.

/// How a port's receive queues get their buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// Each queue has a receive ring of its own, which is always full.
    #[default]
    None,
    /// One receive queue that several ports share; the source port of a packet is in its metadata.
    Basic,
    /// Each queue has a receive ring of its own, which is filled to an adjustable level from a pool that several ports share.
    Spp,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 3] = [Mode::None, Mode::Basic, Mode::Spp];

    /// The name of the mode in the database.
    pub fn name(self) -> &'static str {
        match self {
            Mode::None => "none",
            Mode::Basic => "basic",
            Mode::Spp => "spp",
        }
    }

    /// The mode with this name.
    pub fn of_name(name: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.name() == name)
    }
}
