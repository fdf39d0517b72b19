//! Processing of a received message: RFC 5880 §6.8.6, step by step.

use super::event::Event;
use super::frame::{TTL, payload};
use super::message::{Diagnostic, Flags, Message, Refusal, State};
use super::session::Session;
use units::Millis;

impl Session {
    /// Processes a frame for the session. `ttl`: the TTL with which the packet arrived.
    pub fn receive(&mut self, frame: &[u8], ttl: u8, now: Millis) {
        let Some(payload) = payload(frame) else { return };
        self.decay.messages += 1;
        // Evaluate the forwarding decision before and after the message changes the state, so that each change is
        // counted.
        self.decide_forwarding(now);
        // A TTL below 255 means that the sender is not a direct neighbour (RFC 5881 §5).
        if ttl != TTL {
            return;
        }
        match Message::decode(payload).and_then(|m| self.check_discriminator(m)) {
            Ok(message) => self.process(&message, now),
            Err(why) => self.events.push(Event::Refused(why)),
        }
        self.decide_forwarding(now);
    }

    fn check_discriminator(&self, message: Message) -> Result<Message, Refusal> {
        match message.your_discriminator {
            0 => Ok(message),
            yours if yours == self.discriminator => Ok(message),
            _ => Err(Refusal::YourDiscriminator),
        }
    }

    fn process(&mut self, message: &Message, now: Millis) {
        self.events.push(Event::Received(*message));
        let (old_state, old_diagnostic) = (self.remote.state, self.remote.diagnostic);
        self.status_changed |= (old_state, old_diagnostic) != (message.state, message.diagnostic);
        self.remote.state = message.state;
        self.remote.diagnostic = message.diagnostic;
        self.remote.flags = message.flags;
        self.remote.discriminator = message.my_discriminator;
        self.end_polls(message.flags);
        self.update_intervals(message, now);
        self.update_state(message.state, now);
        self.trust_message(now);
    }

    /// Ends our poll sequence if the message is the answer to it. A poll of the other end is answered at once: our own poll
    /// is interrupted and begins again after the answer (RFC 5880 §6.5).
    fn end_polls(&mut self, flags: Flags) {
        if flags.contains(Flags::FINAL) && self.flags.contains(Flags::POLL) {
            self.in_force = self.polled;
            self.flags.remove(Flags::POLL);
            self.events.push(Event::PollEnded);
        }
        if flags.contains(Flags::POLL) {
            self.flags.remove(Flags::POLL);
            self.flags |= Flags::FINAL;
        }
    }

    /// Records the intervals in the message, and computes the detection time.
    fn update_intervals(&mut self, message: &Message, now: Millis) {
        let millis = |micros: u32| Millis(u64::from(micros / 1000).max(1));
        let mult = message.detect_mult;
        if mult != self.remote.mult {
            self.events.push(Event::RemoteMult(self.remote.mult, mult));
            self.remote.mult = mult;
        }
        let min_rx = match message.required_min_rx {
            0 => Millis(0),
            micros => millis(micros),
        };
        if min_rx != self.remote.min_rx {
            self.remote.min_rx = min_rx;
            if self.next_tx.is_some() {
                self.schedule();
            }
            self.events.push(Event::RemoteMinRx(min_rx));
        }
        self.remote.min_tx = millis(message.desired_min_tx);
        // RFC 5880 §6.8.4
        self.detection = now + Millis(self.rx_interval().0 * u64::from(mult));
    }

    /// The state machine (RFC 5880 §6.2). `theirs`: the state in the message.
    fn update_state(&mut self, theirs: State, now: Millis) {
        let next = match (self.state, theirs) {
            (State::AdminDown, _) => return,
            (State::Down, State::Down) => State::Init,
            (State::Down, State::Init) => State::Up,
            (State::Init, State::Init | State::Up) => State::Up,
            (State::Up, State::Down) | (State::Init | State::Up, State::AdminDown) => {
                self.enter(State::Down, Diagnostic::NEIGHBOR_DOWN, now);
                self.events.push(Event::RemoteDown);
                return;
            }
            _ => return,
        };
        self.enter(next, self.diagnostic, now);
    }
}
