//! The three request methods that create monitors.

/// The request method that created a monitor. It determines the format of the updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonitorMethod {
    /// `monitor`; updates are sent as `update`.
    Plain,
    /// `monitor_cond`; updates are sent as `update2`.
    Conditional,
    /// `monitor_cond_since`; updates are sent as `update3`.
    Since,
}

impl MonitorMethod {
    /// The request method `name`; `None`: it creates no monitor.
    pub fn from_name(name: &str) -> Option<MonitorMethod> {
        match name {
            "monitor" => Some(MonitorMethod::Plain),
            "monitor_cond" => Some(MonitorMethod::Conditional),
            "monitor_cond_since" => Some(MonitorMethod::Since),
            _ => None,
        }
    }

    pub(super) fn notification(self) -> &'static str {
        match self {
            MonitorMethod::Plain => "update",
            MonitorMethod::Conditional => "update2",
            MonitorMethod::Since => "update3",
        }
    }
}
