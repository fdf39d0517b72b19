//! Texts of `bond/list` and `bond/show`.

use crate::bond::Bond;
use crate::link::Link;
use crate::settings::Mode;
use units::{Millis, OfPort};

impl Bond {
    /// The line of `bond/list`. `recirc`: the recirculation id of hashed packets, or 0.
    pub fn list(&self, recirc: u32) -> String {
        let names: Vec<&str> = self.links.values().map(|l| l.facts.name.as_str()).collect();
        let mode = self.settings.mode.text();
        format!("{}\t{mode}\t{recirc}\t{}\n", self.settings.name, names.join(", "))
    }

    /// The text of `bond/show`. `recirc`: as in [`list`](Bond::list).
    pub fn show(&self, recirc: u32, now: Millis) -> String {
        let s = &self.settings;
        let by_hash = recirc != 0 && s.mode == Mode::BalanceTcp && !self.falls_back();
        let yes = |b: bool, yes: &'static str, no: &'static str| if b { yes } else { no };
        let id = |shown: bool| if shown { i64::from(recirc) } else { -1 };
        let mut out = format!(
            "---- {} ----\nbond_mode: {}\nbond may use recirculation: {}, Recirc-ID : {}\nbond-hash-basis: {}\n",
            s.name,
            s.mode.text(),
            yes(by_hash, "yes", "no"),
            id(by_hash),
            s.basis
        );
        let direct = by_hash && s.lb_output;
        out +=
            &format!("lb_output action: {}, bond-id: {}\n", yes(direct, "enabled", "disabled"), id(direct));
        if s.mode == Mode::BalanceSlb {
            out += &format!("all members active: {}\n", s.all_active);
        }
        out += &format!("updelay: {} ms\ndowndelay: {} ms\n", s.up_delay.0, s.down_delay.0);
        if self.is_rebalanced() {
            out += &format!("next rebalance: {} ms\n", self.next_rebalance.0 as i64 - now.0 as i64);
        }
        out += &format!("lacp_status: {}\nlacp_fallback_ab: {}\n", self.negotiation.text(), s.fallback);
        out += &self.show_primary();
        let active = self.links.values().find(|l| l.facts.mac == self.active_mac);
        let active = active.map_or("none", |l| &l.facts.name);
        out += &format!("active member mac: {}({active})\n", self.active_mac);
        let mut links: Vec<(OfPort, &Link)> = self.links().collect();
        links.sort_by(|a, b| a.1.facts.name.cmp(&b.1.facts.name));
        links.into_iter().for_each(|(port, link)| out += &self.show_link(port, link, now));
        out + "\n"
    }

    fn show_primary(&self) -> String {
        let name = self.settings.primary.as_deref();
        let missing = name.is_some_and(|name| self.links.values().all(|l| l.facts.name != name));
        let note = if missing { " (no such member)" } else { "" };
        format!("active-backup primary: {}{note}\n", name.unwrap_or("<none>"))
    }

    fn show_link(&self, port: OfPort, link: &Link, now: Millis) -> String {
        let state = if link.enabled { "enabled" } else { "disabled" };
        let mut out = format!("\nmember {}: {state}\n", link.facts.name);
        if self.active == Some(port) {
            out += "  active member\n";
        }
        if let Some(at) = link.delay_until {
            let which = if link.enabled { "downdelay" } else { "updelay" };
            out += &format!("  {which} expires in {} ms\n", at.0 as i64 - now.0 as i64);
        }
        out += &format!("  may_enable: {}\n", link.facts.may_enable);
        let Some(buckets) = self.buckets.as_ref().filter(|_| self.is_rebalanced()) else { return out };
        for (hash, bytes) in buckets.bytes.iter().enumerate() {
            if buckets.owners[hash] == port && bytes / 1024 > 0 {
                out += &format!("  hash {hash}: {} kB load\n", bytes / 1024);
            }
        }
        out
    }
}
