//! Texts of `lacp/show` and `lacp/show-stats`.

use super::aggregation::Aggregation;
use super::info::{Info, State};
use super::member::Member;
use units::OfPort;

/// State and counters of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkReport {
    /// The configured state of this end.
    pub actor_admin: State,
    /// The information that this end announces.
    pub actor: Info,
    /// The information that the other end announced.
    pub partner: Info,
    /// Received messages.
    pub received: u64,
    /// Received messages that could not be parsed.
    pub bad: u64,
    /// Sent messages.
    pub sent: u64,
}

impl Aggregation {
    /// The port's name.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// State and counters of a link.
    pub fn link_report(&self, port: OfPort) -> Option<LinkReport> {
        let member = self.members.get(&port)?;
        let s = &self.settings;
        let set = [State::ACTIVITY.when(s.active), State::TIMEOUT.when(s.fast)];
        Some(LinkReport {
            actor_admin: set.into_iter().fold(State::AGGREGATION, State::union),
            actor: self.actor(member),
            partner: member.partner,
            received: member.counters.received,
            bad: member.counters.bad,
            sent: member.counters.sent,
        })
    }

    /// The text of `lacp/show`.
    pub fn show(&self) -> String {
        let s = &self.settings;
        let key = self.key().map_or_else(|| "none".to_owned(), |key| key.to_string());
        let mut out = format!(
            "---- {} ----\n  status: {}{}\n  sys_id: {}\n  sys_priority: {}\n  aggregation key: {key}\n  lacp_time: {}\n",
            s.name,
            if s.active { "active" } else { "passive" },
            if self.negotiated { " negotiated" } else { "" },
            s.system,
            s.priority,
            if s.fast { "fast" } else { "slow" },
        );
        self.by_name().into_iter().for_each(|member| out += &self.show_member(member));
        out
    }

    fn show_member(&self, member: &Member) -> String {
        let s = &member.settings;
        format!(
            "\nmember: {}: {} {}\n  port_id: {}\n  port_priority: {}\n  may_enable: {}\n{}{}",
            s.name,
            member.status.text(),
            if member.attached { "attached" } else { "detached" },
            s.port,
            s.priority,
            member.may_enable(self.settings.fallback),
            end("actor", &self.actor(member)),
            end("partner", &member.partner),
        )
    }

    /// The text of `lacp/show-stats`.
    pub fn show_stats(&self) -> String {
        let mut out = format!("---- {} statistics ----\n", self.settings.name);
        for member in self.by_name() {
            let c = &member.counters;
            let lines = [
                ("TX PDUs", c.sent),
                ("RX PDUs", c.received),
                ("RX Bad PDUs", c.bad),
                ("RX Marker Request PDUs", c.markers),
                ("Link Expired", c.expired),
                ("Link Defaulted", c.defaulted),
                ("Carrier Status Changed", c.carrier_changed),
            ];
            out += &format!("\nmember: {}:\n", member.settings.name);
            lines.iter().for_each(|(name, n)| out += &format!("  {name}: {n}\n"));
        }
        out
    }

    fn by_name(&self) -> Vec<&Member> {
        let mut all: Vec<&Member> = self.members.values().collect();
        all.sort_by(|a, b| a.settings.name.cmp(&b.settings.name));
        all
    }
}

fn end(who: &str, info: &Info) -> String {
    format!(
        "\n  {who} sys_id: {}\n  {who} sys_priority: {}\n  {who} port_id: {}\n  {who} port_priority: {}\n  {who} key: {}\n  {who} state:{}\n",
        info.system,
        info.system_priority,
        info.port,
        info.port_priority,
        info.key,
        info.state.text(),
    )
}
