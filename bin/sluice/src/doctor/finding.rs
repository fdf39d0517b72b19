//! A finding of a check: a problem of the host, of the configuration or of the running switch.

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

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The severity.
    pub level: Level,
    /// The subject, a stable word for scripts.
    pub subject: &'static str,
    /// The problem.
    pub text: String,
    /// The command that fixes the problem; if there is none, a command that shows more about it.
    pub fix: String,
}

impl Finding {
    /// A finding with its text and the command that fixes the problem.
    pub fn new(
        level: Level,
        subject: &'static str,
        text: impl Into<String>,
        fix: impl Into<String>,
    ) -> Finding {
        Finding { level, subject, text: text.into(), fix: fix.into() }
    }
}
