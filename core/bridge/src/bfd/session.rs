//! One session: its state and its timers (RFC 5880 §6.8). If a field is a variable of the RFC, its comment names the
//! variable.

use super::event::Event;
use super::frame::{frame, source_port};
use super::message::{Diagnostic, Flags, Message, State};
use super::settings::Settings;
use flow::Mac;
use units::Millis;

/// Minimum transmit interval while the session is not up: 1 s (RFC 5880 §6.8.3).
const SLOW_TX_INTERVAL: Millis = Millis(1000);

/// The values by which a session differs from the other sessions of the switch.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// bfd.LocalDiscr: not 0, unique among the sessions, and preferably hard to guess.
    pub discriminator: u32,
    /// Number of the session, counted from 0.
    pub number: u16,
    /// Seed of the jitter.
    pub seed: u64,
}

/// The message intervals that this end offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Intervals {
    /// bfd.DesiredMinTxInterval
    pub(super) tx: Millis,
    /// bfd.RequiredMinRxInterval
    pub(super) rx: Millis,
}

/// State of the other end, from its last message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remote {
    /// bfd.RemoteSessionState
    pub(super) state: State,
    pub(super) diagnostic: Diagnostic,
    pub(super) flags: Flags,
    /// bfd.RemoteDiscr
    pub(super) discriminator: u32,
    /// bfd.RemoteMinRxInterval; 0: the other end accepts only answers to polls.
    pub(super) min_rx: Millis,
    pub(super) min_tx: Millis,
    pub(super) mult: u8,
}

impl Remote {
    /// The state while no message has been received. `mult`: the multiplier of the last message before the session went down; 0 for a new session.
    fn unknown(mult: u8) -> Remote {
        Remote {
            state: State::Down,
            diagnostic: Diagnostic::NONE,
            flags: Flags::empty(),
            discriminator: 0,
            min_rx: Millis(1),
            min_tx: Millis(0),
            mult,
        }
    }
}

/// The decay state of a session; see `decay.rs`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Decay {
    /// The receive interval while there is no traffic; 0: decay is disabled.
    pub(super) min_rx: Millis,
    /// Whether the slower receive interval is wanted, because there was no traffic in the last interval.
    pub(super) idle: bool,
    /// Messages that were received in the current interval.
    pub(super) messages: u64,
    /// Packets that the port had received when the interval began.
    pub(super) packets: u64,
    /// End of the current interval.
    pub(super) until: Millis,
}

/// The forwarding state of a session; see `forwarding.rs`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Forwarding {
    /// The last decision of the session itself.
    pub(super) last: bool,
    /// The decision that a command forced.
    pub(super) forced: Option<bool>,
    /// The last received traffic counts as a sign of life until this time, or until `message_until` if that
    /// is earlier.
    pub(super) traffic_until: Millis,
    /// Until this time, traffic counts as a sign of life without another message. Each message sets this time
    /// to its arrival plus 100 times `min_rx`.
    pub(super) message_until: Millis,
    /// How often the decision changed.
    pub(super) flaps: u64,
}

/// A BFD session; see the module documentation.
#[derive(Debug)]
pub struct Session {
    pub(super) settings: Settings,
    mac: Mac,
    /// bfd.LocalDiscr
    pub(super) discriminator: u32,
    source_port: u16,
    random: fastrand::Rng,
    /// bfd.SessionState
    pub(super) state: State,
    /// bfd.LocalDiag
    pub(super) diagnostic: Diagnostic,
    /// Flags of the next message: `POLL` until the poll is answered, or `FINAL`; never both (RFC 5880 §6.5).
    pub(super) flags: Flags,
    /// The intervals in force. Messages carry them, unless a poll sequence is in progress; while the session is not up, the transmit
    /// interval is at least 1 s ([`min_tx`](Self::min_tx)).
    pub(super) in_force: Intervals,
    /// The intervals that come into force when the poll sequence ends.
    pub(super) polled: Intervals,
    pub(super) remote: Remote,
    pub(super) last_tx: Millis,
    /// When the next message is due; `None`: at once.
    pub(super) next_tx: Option<Millis>,
    /// When the other end is declared lost, unless a message arrives before.
    pub(super) detection: Millis,
    pub(super) decay: Decay,
    pub(super) forwarding: Forwarding,
    /// Number of packets that the port has received, as reported last.
    pub(super) rx_packets: u64,
    /// Whether `bfd_status` has changed since the last call of [`take_changed`](Session::take_changed).
    pub(super) status_changed: bool,
    pub(super) events: Vec<Event>,
}

impl Session {
    /// Creates a session that has not received a message, for a port with MAC address `mac` that has received
    /// `rx_packets` packets.
    pub fn new(identity: Identity, settings: Settings, mac: Mac, rx_packets: u64, now: Millis) -> Session {
        let wanted = Intervals { tx: settings.min_tx, rx: settings.min_rx };
        let diagnostic = match settings.cpath_down {
            true => Diagnostic::CONCATENATED_PATH_DOWN,
            false => Diagnostic::NONE,
        };
        let mut session = Session {
            settings,
            mac,
            discriminator: identity.discriminator,
            source_port: source_port(identity.number),
            random: fastrand::Rng::with_seed(identity.seed),
            state: State::Down,
            diagnostic,
            flags: Flags::empty(),
            in_force: wanted,
            polled: wanted,
            remote: Remote::unknown(0),
            last_tx: Millis(0),
            next_tx: None,
            detection: Millis(0),
            decay: Decay::default(),
            forwarding: Forwarding::default(),
            rx_packets,
            status_changed: true,
            events: Vec::new(),
        };
        session.configure_decay(now);
        session
    }

    /// Applies new settings (RFC 5880 §6.8.3). A new interval that could make one end declare the other lost comes into force
    /// only after the other end has acknowledged it.
    pub fn configure(&mut self, settings: Settings, now: Millis) {
        if settings == self.settings {
            return;
        }
        let old = std::mem::replace(&mut self.settings, settings);
        let new = &self.settings;
        let is_not_up = self.state != State::Up;
        let may_change = is_not_up || !self.flags.contains(Flags::POLL);
        if old.min_tx != new.min_tx && may_change && (is_not_up || new.min_tx < self.in_force.tx) {
            self.in_force.tx = new.min_tx;
        }
        if old.min_rx != new.min_rx && may_change && (is_not_up || new.min_rx > self.in_force.rx) {
            self.in_force.rx = new.min_rx;
        }
        let mut poll = (old.min_tx, old.min_rx) != (new.min_tx, new.min_rx);
        if (old.decay_min_rx, old.min_rx) != (new.decay_min_rx, new.min_rx) {
            self.configure_decay(now);
            poll = true;
        }
        if old.cpath_down != self.settings.cpath_down {
            self.enter(self.state, Diagnostic::NONE, now);
            poll = true;
        }
        self.configure_forwarding(&old, now);
        if poll {
            self.begin_poll();
        }
    }

    /// Sets the MAC address of the port.
    pub fn set_mac(&mut self, mac: Mac) {
        self.mac = mac;
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// bfd.LocalDiscr
    pub fn discriminator(&self) -> u32 {
        self.discriminator
    }

    /// Handles expired timers.
    pub fn run(&mut self, now: Millis) {
        if self.state > State::Down && now >= self.detection {
            self.enter(State::Down, Diagnostic::EXPIRED, now);
        }
        // Counts a change of the decision, even if no caller asks for the decision now.
        self.decide_forwarding(now);
        self.run_decay(now);
        if self.in_force != self.wanted_intervals() {
            self.begin_poll();
        }
    }

    /// When [`run`](Self::run) or [`transmit`](Self::transmit) must be called next. A time in the past means now.
    pub fn deadline(&self, now: Millis) -> Option<Millis> {
        if self.flags.contains(Flags::FINAL) {
            return Some(now);
        }
        let times = [
            self.remote_accepts_messages().then(|| self.next_tx.unwrap_or_default()),
            (self.state > State::Down).then_some(self.detection),
            self.decay_deadline(),
            self.forwarding_deadline(now),
        ];
        times.into_iter().flatten().min()
    }

    /// Returns the frame to send now, if one is due.
    pub fn transmit(&mut self, now: Millis) -> Option<Vec<u8>> {
        let due = self.remote_accepts_messages() && self.next_tx.is_none_or(|at| now >= at);
        if !due && !self.flags.contains(Flags::FINAL) {
            return None;
        }
        let (delay, expected) = (now.since(self.next_tx.unwrap_or(now)), self.tx_interval());
        if delay.0 * 2 > expected.0 * 3 {
            self.events.push(Event::Late { delay, expected });
        }
        let message = self.message();
        self.flags.remove(Flags::FINAL);
        self.last_tx = now;
        self.schedule();
        self.events.push(Event::Sent(message));
        Some(frame(&message, &self.settings, self.mac, self.source_port))
    }

    /// The events since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Whether `bfd_status` has changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.status_changed)
    }

    /// Whether the other end accepts periodic messages.
    fn remote_accepts_messages(&self) -> bool {
        self.remote.min_rx != Millis(0)
    }

    fn message(&self) -> Message {
        let polls = self.flags.contains(Flags::POLL);
        let intervals = if polls { self.polled } else { Intervals { tx: self.min_tx(), ..self.in_force } };
        let micros = |t: Millis| u32::try_from(t.0.saturating_mul(1000)).unwrap_or(u32::MAX);
        Message {
            diagnostic: self.diagnostic,
            state: self.state,
            flags: self.flags,
            detect_mult: self.settings.mult,
            my_discriminator: self.discriminator,
            your_discriminator: self.remote.discriminator,
            desired_min_tx: micros(intervals.tx),
            required_min_rx: micros(intervals.rx),
            required_min_echo_rx: 0,
        }
    }

    /// The intervals that settings and traffic require.
    fn wanted_intervals(&self) -> Intervals {
        let rx = if self.decay.idle { self.decay.min_rx } else { self.settings.min_rx };
        Intervals { tx: self.settings.min_tx, rx }
    }

    /// Starts a poll sequence to change the intervals (RFC 5880 §6.5), unless the session is down, a poll sequence is in progress, or an
    /// answer to the other end's poll is pending.
    fn begin_poll(&mut self) {
        if self.state > State::Down && !self.flags.intersects(Flags::POLL | Flags::FINAL) {
            self.polled = self.wanted_intervals();
            self.flags |= Flags::POLL;
            self.next_tx = None;
            self.events.push(Event::PollBegun);
        }
    }

    pub(super) fn min_tx(&self) -> Millis {
        if self.state == State::Up { self.in_force.tx } else { self.in_force.tx.max(SLOW_TX_INTERVAL) }
    }

    /// The transmit interval before jitter.
    pub(super) fn tx_interval(&self) -> Millis {
        self.min_tx().max(self.remote.min_rx)
    }

    /// The longest interval between messages that the other end may use.
    pub(super) fn rx_interval(&self) -> Millis {
        self.in_force.rx.max(self.remote.min_tx)
    }

    /// Schedules the next message: jitter shortens the interval by up to a quarter, and with a multiplier of one by
    /// at least a tenth (RFC 5880 §6.8.7).
    pub(super) fn schedule(&mut self) {
        let interval = self.tx_interval();
        let percent = match self.settings.mult {
            1 => 10 + self.random.u64(..16),
            _ => self.random.u64(..26),
        };
        self.next_tx = Some(self.last_tx + interval - Millis(interval.0 * percent / 100));
    }

    /// Enters a state for the given reason.
    pub(super) fn enter(&mut self, state: State, diagnostic: Diagnostic, now: Millis) {
        let diagnostic =
            if self.settings.cpath_down { Diagnostic::CONCATENATED_PATH_DOWN } else { diagnostic };
        let (from, to) = ((self.state, self.diagnostic), (state, diagnostic));
        if from == to {
            return;
        }
        self.events.push(Event::Changed { from, to });
        (self.state, self.diagnostic) = to;
        self.status_changed = true;
        // Send a message at once, so that the other end learns of the change without delay (RFC 5880 §6.8.7).
        self.next_tx = None;
        if state <= State::Down {
            // The other end is lost, so new intervals come into force without its acknowledgement.
            self.remote = Remote::unknown(self.remote.mult);
            self.flags.remove(Flags::POLL);
            self.decay.idle = false;
            self.in_force = self.wanted_intervals();
        } else if state == State::Up {
            self.watch_for_decay(now);
        }
    }
}
