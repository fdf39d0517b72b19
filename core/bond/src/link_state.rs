//! Enables and disables links. A change of a link's state takes effect after the configured delay.

use crate::bond::Bond;
use units::{Millis, OfPort};

impl Bond {
    /// Updates the state of a link from its facts.
    pub(crate) fn follow_link(&mut self, port: OfPort, now: Millis) {
        let (up_delay, down_delay) = (self.settings.up_delay, self.settings.down_delay);
        let Some(link) = self.links.get_mut(&port) else { return };
        let (up, name) = (link.is_up(), link.facts.name.clone());
        if (up == link.enabled) == link.delay_until.is_some() {
            let state = if up { "up" } else { "down" };
            self.lines.push(format!("member {name}: link state {state}"));
            let what = if up { "enabled" } else { "disabled" };
            if up == link.enabled {
                link.delay_until = None;
                let not = if up { "disabled" } else { "enabled" };
                self.lines.push(format!("member {name}: will not be {not}"));
            } else {
                let delay = if up { up_delay } else { down_delay };
                link.delay_until = Some(now + delay);
                if delay.0 > 0 {
                    let line =
                        format!("member {name}: will be {what} if it stays {state} for {} ms", delay.0);
                    self.lines.push(line);
                }
            }
        }
        if link.delay_until.is_some_and(|at| now >= at) {
            self.enable(port, up);
        }
    }

    /// Enables or disables a link.
    pub(crate) fn enable(&mut self, port: OfPort, enable: bool) {
        let Some(link) = self.links.get_mut(&port) else { return };
        link.delay_until = None;
        if link.enabled == enable {
            return;
        }
        link.enabled = enable;
        self.changed = true;
        self.must_distribute = true;
        self.announce |= !enable;
        let what = if enable { "enabled" } else { "disabled" };
        self.lines.push(format!("member {}: {what}", link.facts.name));
    }
}
