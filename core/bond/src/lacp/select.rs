//! Selects the links to attach: those whose other ends belong to the same system and have the same key (IEEE
//! 802.1AX-2014 §6.4.14).
//!
//! The system is that of an attached link with current information. If there is no such link, it is that of another
//! link with current information, or else that of an attached link with expired information. Of several such links, the
//! one with the lowest priority value decides. So the links of the first system stay attached if a second system is
//! connected, or if the other end of a link becomes another system.

use super::aggregation::Aggregation;
use super::info::Priority;
use super::member::{Member, Status};
use units::OfPort;

impl Aggregation {
    /// Selects the links to attach.
    pub(super) fn select(&mut self) {
        let own = self.settings.system;
        let working = self.first(|m| m.status == Status::Current && m.attached);
        let fallback = self.settings.fallback;
        let system = working.and_then(|port| self.members.get(&port)).map(|m| m.partner.system);
        for (port, member) in &mut self.members {
            let looped = member.partner.system == own;
            if looped {
                self.lines.push(format!(
                    "member {}: Loopback detected. Interface is connected to its own bond",
                    member.settings.name
                ));
            }
            member.attached = !looped
                && match member.status {
                    Status::Defaulted => fallback,
                    _ => Some(*port) == working || system.is_none_or(|s| s == member.partner.system),
                };
        }
        let heard = || self.first(|m| m.attached && m.status == Status::Current);
        let lead =
            working.or_else(heard).or_else(|| self.first(|m| m.attached && m.status == Status::Expired));
        let lead = lead.and_then(|port| self.members.get(&port)).map(|m| m.partner);
        self.negotiated = lead.is_some();
        let Some(lead) = lead else { return };
        for member in self.members.values_mut() {
            let fits = (member.partner.key, member.partner.system) == (lead.key, lead.system);
            member.attached &= fits && !(fallback && member.status == Status::Defaulted);
        }
    }

    /// The link with the lowest priority value among those that `among` accepts.
    fn first(&self, among: impl Fn(&Member) -> bool) -> Option<OfPort> {
        let some = self.members.iter().filter(|(_, m)| among(m));
        some.min_by_key(|(port, m)| (self.priority(m), **port)).map(|(port, _)| *port)
    }

    /// A link's priority at the end that decides, which is the system with the lower priority value.
    fn priority(&self, member: &Member) -> Priority {
        let (own, other) = (self.actor(member), member.partner);
        let decides = (own.system_priority, own.system) < (other.system_priority, other.system);
        if decides { own.priority() } else { other.priority() }
    }
}
