//! The output of a session: `bfd/show` and the column `bfd_status`. Scripts parse both.

use super::session::Session;
use units::Millis;

impl Session {
    /// The text of `bfd/show`.
    pub fn show(&mut self, now: Millis) -> String {
        let from_now = |at: Millis| format!("now {:+}ms", at.0 as i64 - now.0 as i64);
        let millis = |t: Millis| format!("{}ms", t.0);
        let forwarding = self.decide_forwarding(now);
        let remote = &self.remote;
        let lines = [
            ("Forwarding", forwarding.to_string()),
            ("Detect Multiplier", self.settings.mult.to_string()),
            ("Concatenated Path Down", self.settings.cpath_down.to_string()),
            ("TX Interval", format!("Approx {}", millis(self.tx_interval()))),
            ("RX Interval", format!("Approx {}", millis(self.rx_interval()))),
            ("Detect Time", from_now(self.detection)),
            ("Next TX Time", from_now(self.next_tx.unwrap_or_default())),
            ("Last TX Time", from_now(self.last_tx)),
            ("", String::new()),
            ("Local Flags", self.flags.to_string()),
            ("Local Session State", self.state.name().to_owned()),
            ("Local Diagnostic", self.diagnostic.name().to_owned()),
            ("Local Discriminator", format!("{:#x}", self.discriminator)),
            ("Local Minimum TX Interval", millis(self.min_tx())),
            ("Local Minimum RX Interval", millis(self.in_force.rx)),
            ("", String::new()),
            ("Remote Flags", remote.flags.to_string()),
            ("Remote Session State", remote.state.name().to_owned()),
            ("Remote Diagnostic", remote.diagnostic.name().to_owned()),
            ("Remote Discriminator", format!("{:#x}", remote.discriminator)),
            ("Remote Minimum TX Interval", millis(remote.min_tx)),
            ("Remote Minimum RX Interval", millis(remote.min_rx)),
            ("Remote Detect Multiplier", remote.mult.to_string()),
        ];
        let line = |(title, value): &(&str, String)| match *title {
            "" => "\n".to_owned(),
            title => format!("  {title}: {value}\n"),
        };
        lines.iter().map(line).collect()
    }

    /// The key-value pairs of `bfd_status`.
    pub fn status(&mut self, now: Millis) -> [(&'static str, String); 6] {
        let forwarding = self.decide_forwarding(now);
        [
            ("diagnostic", self.diagnostic.name().to_owned()),
            ("flap_count", self.forwarding.flaps.to_string()),
            ("forwarding", forwarding.to_string()),
            ("remote_diagnostic", self.remote.diagnostic.name().to_owned()),
            ("remote_state", self.remote.state.name().to_owned()),
            ("state", self.state.name().to_owned()),
        ]
    }
}
