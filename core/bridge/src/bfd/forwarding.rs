//! May packets be sent to the other end? A session that is up says so, unless the other end refuses them; with
//! `forwarding_if_rx` traffic from there says so, too, as long as now and then a message comes; and a command can say so.

use super::message::State;
use super::session::Session;
use super::settings::Settings;
use units::Millis;

/// Traffic says something for no less than this.
const SHORTEST_TRUST: Millis = Millis(2000);
/// With traffic, of so many intervals one must have a message.
const INTERVALS_WITHOUT_MESSAGE: u64 = 100;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Forwarding {
    /// The answer when it was last asked for, but for commands.
    last: bool,
    /// What a command said.
    forced: Option<bool>,
    /// Traffic speaks for the other end until then.
    traffic_until: Millis,
    /// And so far only if no message comes.
    message_until: Millis,
    /// How often the answer was another one than before.
    pub(super) flaps: u64,
}

impl Session {
    /// The answer; a change is counted.
    pub fn is_forwarding(&mut self, now: Millis) -> bool {
        if let Some(forced) = self.forwarding.forced {
            return forced;
        }
        let f = &self.forwarding;
        let traffic = self.settings.forwarding_if_rx && f.traffic_until.min(f.message_until) > now;
        let answer = (self.state == State::Up || traffic) && !self.remote.diagnostic.refuses_traffic();
        if answer != self.forwarding.last {
            self.forwarding.last = answer;
            self.forwarding.flaps += 1;
            self.has_news = true;
        }
        answer
    }

    /// A command gives the answer (`bfd/set-forwarding`), or leaves it to the session again.
    pub fn force_forwarding(&mut self, answer: Option<bool>) {
        self.forwarding.forced = answer;
        self.has_news = true;
    }

    /// It depends on how many packets the port has received.
    pub fn counts_traffic(&self) -> bool {
        self.settings.forwarding_if_rx || self.settings.decay_min_rx != Millis(0)
    }

    /// So many packets the port has received.
    pub fn count_traffic(&mut self, rx_packets: u64, now: Millis) {
        let more = rx_packets > self.rx_packets;
        self.rx_packets = rx_packets;
        if more && self.settings.forwarding_if_rx {
            // That it was not forwarding before counts, too.
            self.is_forwarding(now);
            self.trust_traffic(now);
            self.is_forwarding(now);
        }
    }

    pub(super) fn configure_forwarding(&mut self, old: &Settings, now: Millis) {
        let (was, is) = (old.forwarding_if_rx, self.settings.forwarding_if_rx);
        if is && self.state == State::Up && (!was || old.mult != self.settings.mult) {
            self.trust_traffic(now);
        } else if was != is {
            self.forwarding.traffic_until = Millis(0);
        }
    }

    fn trust_traffic(&mut self, now: Millis) {
        let time = Millis(self.rx_interval().0 * u64::from(self.settings.mult));
        self.forwarding.traffic_until = now + time.max(SHORTEST_TRUST);
    }

    /// A message came.
    pub(super) fn trust_message(&mut self, now: Millis) {
        if self.settings.forwarding_if_rx {
            let time = INTERVALS_WITHOUT_MESSAGE * self.settings.min_rx.0;
            self.forwarding.message_until = now + Millis(time);
        }
    }

    pub(super) fn forwarding_deadline(&self, now: Millis) -> Option<Millis> {
        let until = self.forwarding.traffic_until.min(self.forwarding.message_until);
        (self.settings.forwarding_if_rx && until > now).then_some(until)
    }
}
