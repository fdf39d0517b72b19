//! The `bond/*` commands that change a bond.

use crate::bond::Bond;
use crate::buckets::BUCKETS;
use crate::settings::Mode;
use units::OfPort;

impl Bond {
    fn named(&self, name: &str) -> Result<OfPort, &'static str> {
        let link = self.links().find(|(_, l)| l.facts.name == name);
        link.map(|(port, _)| port).ok_or("no such member")
    }

    /// Moves a bucket to a link.
    pub fn migrate(&mut self, hash: &str, link: &str) -> Result<&'static str, &'static str> {
        if self.settings.mode != Mode::BalanceSlb {
            return Err("not an SLB bond");
        }
        if hash.is_empty() || !hash.bytes().all(|b| b.is_ascii_digit()) {
            return Err("bad hash");
        }
        let bucket = hash.bytes().fold(0, |n: usize, b| (n * 10 + usize::from(b - b'0')) % BUCKETS);
        let port = self.named(link)?;
        if !self.is_enabled(port) {
            return Err("cannot migrate to disabled member");
        }
        if let Some(buckets) = &mut self.buckets {
            buckets.owners[bucket] = port;
            self.changed = true;
        }
        Ok("migrated")
    }

    /// Makes a link the active one.
    pub fn set_active(&mut self, link: &str) -> Result<&'static str, &'static str> {
        let port = self.named(link)?;
        if !self.is_enabled(port) {
            return Err("cannot make disabled member active");
        }
        if self.active == Some(port) {
            return Ok("no change");
        }
        self.active = Some(port);
        self.lines.push(format!("bond {}: active member is now {link}", self.settings.name));
        self.announce = true;
        self.active_changed();
        Ok("done")
    }

    /// Enables or disables a link, until its state changes.
    pub fn set_enabled(&mut self, link: &str, enable: bool) -> Result<&'static str, &'static str> {
        let port = self.named(link)?;
        self.enable(port, enable);
        Ok(if enable { "enabled" } else { "disabled" })
    }
}
