//! Decides whether packets may be sent to the other end: yes, if the session is up and the other end does not refuse
//! packets. With `forwarding_if_rx`, received traffic is sufficient as long as a message arrives from time to time. A
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
    /// Decides whether packets may be sent, and counts changes of the decision.
    pub fn decide_forwarding(&mut self, now: Millis) -> bool {
        if let Some(forced) = self.forwarding.forced {
            return forced;
        }
        let f = &self.forwarding;
        let traffic = self.settings.forwarding_if_rx && f.traffic_until.min(f.message_until) > now;
        let answer = (self.state == State::Up || traffic) && !self.remote.diagnostic.refuses_traffic();
        if answer != self.forwarding.last {
            self.forwarding.last = answer;
            self.forwarding.flaps += 1;
            self.status_changed = true;
        }
        answer
    }

    /// Forces the decision (`bfd/set-forwarding`). `None`: the session decides again.
    pub fn force_forwarding(&mut self, answer: Option<bool>) {
        self.forwarding.forced = answer;
        self.status_changed = true;
    }

    /// Whether the decision depends on the number of packets that the port has received.
    pub fn counts_traffic(&self) -> bool {
        self.settings.forwarding_if_rx || self.settings.decay_min_rx != Millis(0)
    }

    /// Records how many packets the port has received.
    pub fn count_traffic(&mut self, rx_packets: u64, now: Millis) {
        let more = rx_packets > self.rx_packets;
        self.rx_packets = rx_packets;
        if more && self.settings.forwarding_if_rx {
            // Evaluate the decision first, so that a change from not forwarding is counted.
            self.decide_forwarding(now);
            self.trust_traffic(now);
            self.decide_forwarding(now);
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

    /// Records that traffic arrived.
    fn trust_traffic(&mut self, now: Millis) {
        let time = Millis(self.rx_interval().0 * u64::from(self.settings.mult));
        self.forwarding.traffic_until = now + time.max(SHORTEST_TRUST);
    }

    /// Records that a message arrived.
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
