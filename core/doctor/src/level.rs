//! The severity of a finding.

/// The severities, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something does not work.
    Problem,
    /// Something works, but badly.
    Warning,
    /// Something could be improved.
    Advice,
}

impl Level {
    /// The name of the level.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Problem => "problem",
            Level::Warning => "warning",
            Level::Advice => "advice",
        }
    }
}
