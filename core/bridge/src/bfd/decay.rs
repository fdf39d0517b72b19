//! Without traffic a port need not be watched closely: messages may then come more rarely (`decay_min_rx`).
//!
//! Every `decay_min_rx`, and no sooner than two seconds, the packets that the port has received are compared with the
//! messages among them.

use super::event::Event;
use super::message::State;
use super::session::Session;
use units::Millis;

/// Traffic is watched for no less than this.
const SHORTEST_WATCH: Millis = Millis(2000);
/// So many times as many packets as messages are no traffic: counts of packets come late.
const SLACK: u64 = 2;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Decay {
    /// The pace without traffic; 0: there is none.
    pub(super) min_rx: Millis,
    /// There was no traffic.
    pub(super) active: bool,
    /// Messages since the watch began.
    pub(super) messages: u64,
    /// The packets that the port had received by then.
    packets: u64,
    /// When it ends.
    until: Millis,
}

impl Session {
    /// `decay_min_rx`, or what it is compared with, is another one.
    pub(super) fn configure_decay(&mut self, now: Millis) {
        let (slow, usual) = (self.settings.decay_min_rx, self.settings.min_rx);
        self.decay.min_rx = if slow < usual { Millis(0) } else { slow };
        if slow != Millis(0) && slow < usual {
            self.events.push(Event::DecayTooFast(usual));
        }
        self.decay.active = false;
        self.watch_for_decay(now);
    }

    /// Begins to count anew.
    pub(super) fn watch_for_decay(&mut self, now: Millis) {
        self.decay.packets = self.rx_packets;
        self.decay.messages = 0;
        self.decay.until = now + self.decay.min_rx.max(SHORTEST_WATCH);
    }

    pub(super) fn run_decay(&mut self, now: Millis) {
        if self.decay_deadline().is_some_and(|at| now >= at) {
            // A device that was replaced counts from 0.
            let packets = self.rx_packets.checked_sub(self.decay.packets).unwrap_or(self.rx_packets);
            self.decay.active = packets <= SLACK * self.decay.messages.max(1);
            self.watch_for_decay(now);
        }
    }

    pub(super) fn decay_deadline(&self) -> Option<Millis> {
        (self.state == State::Up && self.decay.min_rx != Millis(0)).then_some(self.decay.until)
    }
}
