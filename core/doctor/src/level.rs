//! How bad a finding is.

/// The levels, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something does not work.
    Problem,
    /// Something works badly.
    Warning,
    /// It could be better.
    Advice,
}

impl Level {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Problem => "problem",
            Level::Warning => "warning",
            Level::Advice => "advice",
        }
    }
}
