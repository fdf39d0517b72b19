//! Decides whether packets may be sent to the other end. They may if the session is up and the other end does not
//! refuse them. With `forwarding_if_rx`, received traffic is sufficient as long as a message arrives now and then. A
//! command can override the decision.

use super::message::State;
use super::session::Session;
use super::settings::Settings;
use units::Millis;

/// Received traffic counts as a sign of life for at least this long.
const SHORTEST_TRUST: Millis = Millis(2000);
/// With traffic, at least one message must arrive in this many intervals.
const INTERVALS_WITHOUT_MESSAGE: u64 = 100;

impl Session {
    /// Returns the decision; a change is counted.
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

    /// Forces the decision (`bfd/set-forwarding`), or returns it to the session.
    pub fn force_forwarding(&mut self, answer: Option<bool>) {
        self.forwarding.forced = answer;
        self.has_news = true;
    }

    /// Whether the decision depends on the number of packets that the port has received.
    pub fn counts_traffic(&self) -> bool {
        self.settings.forwarding_if_rx || self.settings.decay_min_rx != Millis(0)
    }

    /// Reports how many packets the port has received.
    pub fn count_traffic(&mut self, rx_packets: u64, now: Millis) {
        let more = rx_packets > self.rx_packets;
        self.rx_packets = rx_packets;
        if more && self.settings.forwarding_if_rx {
            // Evaluate the decision first, so that a change from not forwarding is counted.
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

    /// A message arrived.
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
