//! BFD decay (`decay_min_rx`): while a port receives no traffic, the other end may send messages less often.
//!
//! At intervals of `decay_min_rx`, but at least 2 s, the number of received packets is compared with the number of BFD
//! messages among them.

use super::event::Event;
use super::message::State;
use super::session::Session;
use units::Millis;

/// Shortest interval over which traffic is measured.
const SHORTEST_WATCH: Millis = Millis(2000);
/// If the port received at most this many packets per BFD message, there was no traffic. The factor is more than 1
/// because packet counters are updated late.
const SLACK: u64 = 2;

impl Session {
    /// Applies changes of `decay_min_rx` or `min_rx`.
    pub(super) fn configure_decay(&mut self, now: Millis) {
        let (slow, usual) = (self.settings.decay_min_rx, self.settings.min_rx);
        self.decay.min_rx = if slow < usual { Millis(0) } else { slow };
        if slow != Millis(0) && slow < usual {
            self.events.push(Event::DecayTooFast(usual));
        }
        self.decay.idle = false;
        self.watch_for_decay(now);
    }

    /// Starts a new interval of measurement.
    pub(super) fn watch_for_decay(&mut self, now: Millis) {
        self.decay.packets = self.rx_packets;
        self.decay.messages = 0;
        self.decay.until = now + self.decay.min_rx.max(SHORTEST_WATCH);
    }

    pub(super) fn run_decay(&mut self, now: Millis) {
        if self.decay_deadline().is_some_and(|at| now >= at) {
            // The counter of a device that was replaced restarts at 0.
            let packets = self.rx_packets.checked_sub(self.decay.packets).unwrap_or(self.rx_packets);
            self.decay.idle = packets <= SLACK * self.decay.messages.max(1);
            self.watch_for_decay(now);
        }
    }

    pub(super) fn decay_deadline(&self) -> Option<Millis> {
        (self.state == State::Up && self.decay.min_rx != Millis(0)).then_some(self.decay.until)
    }
}
