//! The three methods that make monitors.

/// Which of the three methods made a monitor: they differ in the form of updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `monitor`, with updates by `update`.
    Plain,
    /// `monitor_cond`, with updates by `update2`.
    Conditional,
    /// `monitor_cond_since`, with updates by `update3`.
    Since,
}

impl Version {
    /// The version that the request method `name` asks for.
    pub fn from_method(name: &str) -> Option<Version> {
        match name {
            "monitor" => Some(Version::Plain),
            "monitor_cond" => Some(Version::Conditional),
            "monitor_cond_since" => Some(Version::Since),
            _ => None,
        }
    }

    pub(super) fn notification(self) -> &'static str {
        match self {
            Version::Plain => "update",
            Version::Conditional => "update2",
            Version::Since => "update3",
        }
    }
}
