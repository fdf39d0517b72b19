//! The active link of a bond. In an active-backup bond it carries all traffic. In a balance-slb bond without LACP,
//! broadcasts and multicasts are accepted on this link only, unless `all_active` is set.

use crate::bond::Bond;
use crate::settings::Mode;
use flow::Mac;
use units::{Millis, OfPort};

impl Bond {
    /// Ensures that the active link is enabled, and that it is the primary link if that link is enabled.
    pub(crate) fn follow_active(&mut self, now: Millis) {
        let in_use = self.active.is_some_and(|a| self.is_enabled(a));
        let primary = self.primary().filter(|_| self.settings.mode == Mode::ActiveBackup);
        if !in_use || primary.is_some_and(|p| self.active != Some(p)) {
            self.choose_active(now);
        }
    }

    /// Selects the active link and logs the result. If no link is enabled, ends the delay of the selected link.
    pub(crate) fn choose_active(&mut self, now: Millis) {
        let old = self.active;
        self.active = self.best_active();
        let name = &self.settings.name;
        match self.active.and_then(|port| Some((port, self.links.get(&port)?))) {
            Some((port, link)) => {
                let to = &link.facts.name;
                if link.enabled {
                    self.lines.push(format!("bond {name}: active member is now {to}"));
                } else {
                    let left = link.delay_until.map_or(0, |at| at.since(now).0);
                    self.lines.push(format!(
                        "bond {name}: active member is now {to}, skipping remaining {left} ms updelay (since no member was enabled)"
                    ));
                    self.enable(port, true);
                }
                self.announce = true;
                if self.active != old {
                    self.active_changed();
                }
            }
            None if old.is_some() => {
                self.lines.push(format!("bond {name}: all members disabled"));
                self.active_changed();
            }
            None => {}
        }
    }

    /// Selects the active link. In order of preference: the primary link, the previous active link, any enabled link,
    /// the link that will be enabled first.
    fn best_active(&self) -> Option<OfPort> {
        let by_mac = self.links.iter().find(|(_, l)| l.enabled && l.facts.mac == self.active_mac);
        let enabled = self.links.iter().find(|(_, l)| l.enabled);
        let soon = self.links.iter().filter(|(_, l)| l.facts.may_enable && l.delay_until.is_some());
        let named = self.primary();
        named.or_else(|| {
            let link = by_mac.or(enabled).or_else(|| soon.min_by_key(|(_, l)| l.delay_until));
            link.map(|(port, _)| *port)
        })
    }

    /// The primary link, if it is enabled.
    fn primary(&self) -> Option<OfPort> {
        let name = self.settings.primary.as_ref()?;
        self.links.iter().find(|(_, l)| l.enabled && l.facts.name == *name).map(|(port, _)| *port)
    }

    /// Stores the MAC address of the new active link.
    pub(crate) fn active_changed(&mut self) {
        let link = self.active.and_then(|port| self.links.get(&port));
        self.active_mac = link.map_or(Mac::default(), |l| l.facts.mac);
        self.changed = true;
    }
}
