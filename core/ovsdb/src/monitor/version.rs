//! The three request methods that create monitors.

/// The request method that created a monitor. It determines the format of the updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `monitor`; updates are sent as `update`.
    Plain,
    /// `monitor_cond`; updates are sent as `update2`.
    Conditional,
    /// `monitor_cond_since`; updates are sent as `update3`.
    Since,
}

impl Version {
    /// The version for the request method `name`.
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
