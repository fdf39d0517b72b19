//! The output of a session: `cfm/show` and database columns. Scripts parse both.

use super::session::Session;
use units::Millis;

/// The values of the database columns about a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// `cfm_fault_status`; `cfm_fault` is true if there is any.
    pub faults: Vec<&'static str>,
    /// `cfm_flap_count`
    pub flaps: u64,
    /// `cfm_health` in percent.
    pub health: Option<u8>,
    /// `cfm_remote_mpids`
    pub remote_ids: Vec<u64>,
    /// `cfm_remote_opstate`: whether the remote points are operationally up.
    pub remote_is_up: Option<bool>,
}

impl Session {
    /// The text of `cfm/show`, without its heading.
    pub fn show(&self, now: Millis) -> String {
        let state = |is_up: bool| if is_up { "up" } else { "down" };
        let from_now = |at: Millis| at.0 as i64 - now.0 as i64;
        let faults = self.faults();
        let mut text = format!(
            "MPID {}:{}{}\n",
            self.settings.id,
            if self.settings.extended { " extended" } else { "" },
            if self.is_forced() { " fault_override" } else { "" }
        );
        if !faults.is_empty() {
            text += &format!("  fault: {faults}\n");
        }
        let health =
            self.health.percent.map_or_else(|| "undefined".to_owned(), |percent| percent.to_string());
        text += &format!("  average health: {health}\n");
        text += &format!("  opstate: {}\n", state(self.settings.is_up));
        text += &format!("  remote_opstate: {}\n", state(self.remote_is_up));
        text += &format!("  interval: {}ms\n", self.interval.time.0);
        text += &format!("  next CCM tx: {}ms\n", from_now(self.next_tx.unwrap_or_default()));
        text += &format!("  next fault check: {}ms\n", from_now(self.next_check));
        for (id, point) in &self.points {
            text += &format!("Remote MPID {id}\n");
            text += &format!("  recv since check: {}\n", point.heard);
            text += &format!("  opstate: {}\n", state(point.is_up));
        }
        text
    }

    /// The values of the database columns.
    pub fn status(&self) -> Status {
        Status {
            faults: self.faults().names(),
            flaps: self.flaps,
            health: self.health.percent,
            remote_ids: self.live_ids.clone(),
            remote_is_up: self.remote_is_up(),
        }
    }
}
