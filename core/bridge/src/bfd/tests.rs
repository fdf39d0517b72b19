//! Two sessions on a link that loses frames, in virtual time.

use super::event::Event;
use super::message::{Diagnostic, Flags, Message, State};
use super::session::{Identity, Session};
use super::settings::Settings;
use super::{TTL, payload};
use flow::Mac;
use proptest::prelude::*;
use units::Millis;

/// Step of the virtual time.
const STEP: Millis = Millis(10);

fn settings(min_tx: u64, min_rx: u64) -> Settings {
    Settings { min_tx: Millis(min_tx), min_rx: Millis(min_rx), ..Settings::default() }
}

/// One end of the link: the session, and the data of an observer that does not know the session's internals.
struct End {
    session: Session,
    /// When the end last sent a message that was not an answer, and whether that message was a poll.
    sent: Option<(Millis, bool)>,
    /// The shortest interval in force since that message.
    shortest: Millis,
    /// When the end last received a message, and the detection time after that message.
    heard: Option<(Millis, Millis)>,
    forwarding: bool,
    flaps: u64,
    /// Number of packets that the end's port has received.
    rx_packets: u64,
}

impl End {
    fn new(number: u16, settings: Settings) -> End {
        let identity = Identity { discriminator: 100 + u32::from(number), number, seed: number.into() };
        let session = Session::new(identity, settings, Mac::default(), 0, Millis(0));
        End {
            session,
            sent: None,
            shortest: Millis(0),
            heard: None,
            forwarding: false,
            flaps: 0,
            rx_packets: 0,
        }
    }

    fn message(frame: &[u8]) -> Message {
        Message::decode(payload(frame).unwrap()).unwrap()
    }

    fn observe(&mut self, now: Millis) {
        let forwarding = self.session.decide_forwarding(now);
        self.flaps += u64::from(forwarding != self.forwarding);
        self.forwarding = forwarding;
        self.shortest = self.shortest.min(self.session.tx_interval());
    }

    /// Processes the events of the session. After some events a message must be sent at once.
    fn take_events(&mut self) {
        let at_once = |e: &Event| matches!(e, Event::PollBegun | Event::Changed { .. });
        if self.session.take_events().iter().any(at_once) {
            self.sent = None;
        }
    }

    fn send(&mut self, now: Millis) -> Option<Vec<u8>> {
        self.take_events();
        let frame = self.session.transmit(now)?;
        let flags = Self::message(&frame).flags;
        assert!(!flags.contains(Flags::POLL | Flags::FINAL));
        let polls = flags.contains(Flags::POLL);
        if !flags.contains(Flags::FINAL) {
            if let Some((before, _)) = self.sent.filter(|(_, polled)| *polled == polls) {
                let (gap, least) = (now.since(before).0, self.shortest.0 * 3 / 4);
                assert!(gap >= least, "{gap} ms between messages, {least} at least");
            }
            self.sent = Some((now, polls));
            self.shortest = self.session.tx_interval();
        }
        Some(frame)
    }

    /// Counts a packet received by the port.
    fn count(&mut self, now: Millis) {
        self.observe(now);
        self.rx_packets += 1;
        self.session.count_traffic(self.rx_packets, now);
        self.observe(now);
    }

    fn get(&mut self, frame: &[u8], now: Millis) {
        self.count(now);
        self.session.receive(frame, TTL, now);
        self.observe(now);
        let message = Self::message(frame);
        let theirs = u64::from(message.desired_min_tx) / 1000;
        let detection_time = self.session.in_force.rx.0.max(theirs) * u64::from(message.detect_mult);
        self.heard = Some((now, Millis(detection_time)));
    }

    fn run(&mut self, now: Millis) {
        self.session.run(now);
        self.observe(now);
        self.take_events();
        if self.session.state > State::Down {
            let (at, detection_time) = self.heard.expect("a session is not beyond Down without a message");
            assert!(now.since(at) < detection_time, "{:?} {at:?} {detection_time:?}", now);
        }
        assert_eq!(self.flaps, self.session.forwarding.flaps);
        let polls = self.session.flags.contains(Flags::POLL);
        assert!(!polls || self.session.state > State::Down);
    }
}

/// Both ends, and a link that loses a percentage of the frames in each direction.
struct Link {
    ends: [End; 2],
    now: Millis,
    loss: [u64; 2],
    dice: fastrand::Rng,
}

impl Link {
    fn new(a: Settings, b: Settings, seed: u64) -> Link {
        let ends = [End::new(0, a), End::new(1, b)];
        Link { ends, now: Millis(1_000_000), loss: [0; 2], dice: fastrand::Rng::with_seed(seed) }
    }

    fn run(&mut self, time: u64) {
        let end = self.now + Millis(time);
        while self.now < end {
            self.now = self.now + STEP;
            // The number of rounds is limited: an answer to an answer would loop forever.
            for _ in 0..4 {
                for from in 0..2 {
                    let Some(frame) = self.ends[from].send(self.now) else { continue };
                    if self.dice.u64(..100) >= self.loss[from] {
                        self.ends[1 - from].get(&frame, self.now);
                    }
                }
            }
            self.ends.iter_mut().for_each(|e| e.run(self.now));
            assert!(self.ends.iter().all(|e| !e.session.flags.contains(Flags::FINAL)));
            let later = |e: &End| e.session.deadline(self.now).is_none_or(|at| at > self.now);
            assert!(self.ends.iter().all(|e| later(e) || e.session.next_tx.is_none()));
        }
    }

    fn states(&self) -> [(State, Diagnostic); 2] {
        [0, 1].map(|i| (self.ends[i].session.state, self.ends[i].session.diagnostic))
    }

    fn configure(&mut self, end: usize, settings: Settings) {
        self.ends[end].session.configure(settings, self.now);
        // The observer does not know which interval was in force when the last message was sent.
        self.ends[end].sent = None;
        let now = self.now;
        self.ends[end].observe(now);
    }

    /// Delivers other packets to an end, one every `every` ms.
    fn traffic(&mut self, end: usize, time: u64, every: u64) {
        for _ in 0..time / every {
            self.ends[end].count(self.now);
            self.run(every);
        }
    }
}

const UP: (State, Diagnostic) = (State::Up, Diagnostic::NONE);

#[test]
fn sessions_are_up_if_both_ends_receive_messages() {
    let mut link = Link::new(settings(100, 1000), settings(100, 1000), 1);
    link.run(4100);
    assert_eq!(link.states(), [UP; 2]);
    assert_eq!(link.ends[0].session.tx_interval(), Millis(1000));
    link.loss = [100, 100];
    link.run(4100);
    assert_eq!(link.states(), [(State::Down, Diagnostic::EXPIRED); 2]);
    link.loss = [100, 0];
    link.run(8200);
    // End 0 receives messages in which end 1 reports that it receives nothing.
    assert_eq!(link.states().map(|(state, _)| state), [State::Init, State::Down]);
    link.loss = [0, 0];
    link.run(4100);
    assert_eq!(link.states().map(|(state, _)| state), [State::Up; 2]);
    assert!(link.ends.iter().all(|e| e.flaps == 3 && e.forwarding));
}

#[test]
fn an_end_that_receives_nothing_signals_it() {
    let mut link = Link::new(settings(100, 1000), settings(100, 1000), 2);
    link.run(4100);
    link.loss = [100, 0];
    link.run(8200);
    assert_eq!(link.states(), [(State::Init, Diagnostic::NEIGHBOR_DOWN), (State::Down, Diagnostic::EXPIRED)]);
}

#[test]
fn new_intervals_take_effect_when_both_ends_know_them() {
    let mut link = Link::new(settings(300, 300), settings(500, 500), 3);
    link.run(10_000);
    let paces = |link: &Link| {
        [0, 1].map(|i| (link.ends[i].session.tx_interval().0, link.ends[i].session.rx_interval().0))
    };
    assert_eq!(paces(&link), [(500, 500); 2]);
    link.configure(1, settings(5000, 200));
    // Messages would be missed if the longer interval took effect at once.
    assert_eq!((link.ends[1].session.min_tx(), link.ends[1].session.in_force.rx), (Millis(500), Millis(500)));
    link.run(200);
    assert_eq!(paces(&link), [(300, 5000), (5000, 300)]);
    assert_eq!(link.states(), [UP; 2]);
    link.configure(1, settings(50, 50));
    assert_eq!(link.ends[1].session.min_tx(), Millis(50));
}

#[test]
fn a_concatenated_path_that_is_down_keeps_packets_away() {
    let mut link = Link::new(settings(100, 100), settings(100, 100), 4);
    link.run(4000);
    link.configure(0, Settings { cpath_down: true, ..settings(100, 100) });
    link.run(100);
    assert_eq!(link.states(), [(State::Up, Diagnostic::CONCATENATED_PATH_DOWN), UP]);
    assert_eq!([link.ends[0].forwarding, link.ends[1].forwarding], [true, false]);
    link.configure(0, settings(100, 100));
    link.run(100);
    assert_eq!((link.states(), link.ends[1].forwarding), ([UP; 2], true));
}

#[test]
fn without_traffic_the_interval_is_longer() {
    let slow = Settings { decay_min_rx: Millis(3000), ..settings(300, 300) };
    let mut link = Link::new(slow.clone(), settings(500, 500), 5);
    link.run(10_000);
    assert_eq!(link.ends[0].session.in_force.rx, Millis(3000));
    link.traffic(0, 7000, 100);
    assert_eq!(link.ends[0].session.in_force.rx, Millis(300));
    link.run(7000);
    assert_eq!(link.ends[0].session.in_force.rx, Millis(3000));
    link.configure(0, Settings { decay_min_rx: Millis(200), ..slow });
    let events = link.ends[0].session.take_events();
    assert!(events.contains(&Event::DecayTooFast(Millis(300))));
    link.run(5000);
    assert_eq!((link.ends[0].session.in_force.rx, link.states()), (Millis(300), [UP; 2]));
}

#[test]
fn traffic_is_a_sign_of_life_while_messages_arrive_now_and_then() {
    let trusting = Settings { forwarding_if_rx: true, ..settings(100, 100) };
    let mut link = Link::new(trusting, settings(100, 100), 6);
    link.run(4000);
    link.loss = [0, 100];
    link.traffic(0, 4000, 100);
    assert_eq!((link.ends[0].session.state, link.ends[0].forwarding), (State::Down, true));
    // More than 100 intervals pass without a message, so traffic is no longer sufficient.
    link.traffic(0, 8000, 100);
    assert!(!link.ends[0].forwarding);
    assert_eq!(link.ends[0].flaps, 2);
}

#[test]
fn a_command_overrides_forwarding_and_is_not_counted_as_flap() {
    let mut link = Link::new(settings(100, 100), settings(100, 100), 7);
    link.run(4000);
    let session = &mut link.ends[0].session;
    session.force_forwarding(Some(false));
    assert!(!session.decide_forwarding(link.now) && session.take_changed());
    session.force_forwarding(None);
    assert!(session.decide_forwarding(link.now));
    assert_eq!(session.forwarding.flaps, 1);
}

#[test]
fn messages_of_other_sessions_are_ignored() {
    let mut link = Link::new(settings(100, 100), settings(100, 100), 8);
    link.run(4000);
    let frame = loop {
        link.now = link.now + STEP;
        if let Some(frame) = link.ends[1].session.transmit(link.now) {
            break frame;
        }
    };
    let session = &mut link.ends[0].session;
    session.take_events();
    let before = session.detection;
    session.receive(&frame, TTL - 1, link.now);
    assert_eq!((session.detection, session.take_events()), (before, Vec::new()));
    session.discriminator += 1;
    session.receive(&frame, TTL, link.now);
    let refused = Event::Refused(super::Refusal::YourDiscriminator);
    assert_eq!((session.detection, session.take_events()), (before, vec![refused]));
}

#[test]
fn a_required_rx_interval_of_zero_stops_periodic_messages() {
    let mut link = Link::new(settings(100, 100), settings(100, 100), 9);
    link.run(4000);
    let session = &mut link.ends[0].session;
    let message = Message {
        state: State::Up,
        flags: Flags::POLL,
        detect_mult: 255,
        my_discriminator: 101,
        your_discriminator: 100,
        desired_min_tx: 100_000,
        required_min_rx: 0,
        ..Message::default()
    };
    let frame = super::frame::frame(&message, &Settings::default(), Mac::default(), 50_000);
    session.receive(&frame, TTL, link.now);
    let answer = session.transmit(link.now).expect("a poll is answered");
    assert!(End::message(&answer).flags.contains(Flags::FINAL));
    assert!((1..200).all(|t| session.transmit(link.now + Millis(t * 100)).is_none()));
}

#[test]
fn output_has_the_format_that_scripts_parse() {
    let mut link = Link::new(settings(100, 1000), settings(100, 1000), 10);
    let session = &mut link.ends[0].session;
    let expected = "  Forwarding: false\n  Detect Multiplier: 3\n  Concatenated Path Down: false\n  \
        TX Interval: Approx 1000ms\n  RX Interval: Approx 1000ms\n  Detect Time: now -5ms\n  Next TX Time: now -5ms\n  \
        Last TX Time: now -5ms\n\n  Local Flags: none\n  Local Session State: down\n  Local Diagnostic: No Diagnostic\n  \
        Local Discriminator: 0x64\n  Local Minimum TX Interval: 1000ms\n  Local Minimum RX Interval: 1000ms\n\n  \
        Remote Flags: none\n  Remote Session State: down\n  Remote Diagnostic: No Diagnostic\n  \
        Remote Discriminator: 0x0\n  Remote Minimum TX Interval: 0ms\n  Remote Minimum RX Interval: 1ms\n  \
        Remote Detect Multiplier: 0\n";
    assert_eq!(session.show(Millis(5)), expected);
    let keys = session.status(Millis(5)).map(|(key, _)| key);
    assert_eq!(
        keys,
        ["diagnostic", "flap_count", "forwarding", "remote_diagnostic", "remote_state", "state"]
    );
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let numbers = (1..2000u64, 1..2000u64, 0..4000u64, 1..=5u8);
    (numbers, any::<[bool; 2]>()).prop_map(|((tx, rx, decay, mult), [cpath_down, forwarding_if_rx])| {
        Settings { decay_min_rx: Millis(decay), mult, cpath_down, forwarding_if_rx, ..settings(tx, rx) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For all losses of frames and changes of settings, the assertions of the observer hold at every step. On a link
    /// without loss, both ends then come up with the intervals that both requested.
    #[test]
    fn sessions_recover_after_loss_and_changes(
        seed in any::<u64>(),
        first in [any_settings(), any_settings()],
        changes in proptest::collection::vec((0..2usize, any_settings(), [0..=100u64, 0..=100u64], 10..5000u64), 0..8),
    ) {
        let [a, b] = first;
        let mut link = Link::new(a, b, seed);
        link.run(3000);
        for (end, settings, loss, time) in changes {
            link.configure(end, settings);
            link.loss = loss;
            link.run(time);
        }
        link.loss = [0, 0];
        link.run(40_000);
        for (one, other) in [(0, 1), (1, 0)] {
            let (s, o) = (&link.ends[one].session, &link.ends[other].session);
            prop_assert_eq!(s.state, State::Up);
            prop_assert_eq!(s.in_force.tx, s.settings.min_tx);
            prop_assert_eq!(s.tx_interval(), s.in_force.tx.max(o.in_force.rx));
            prop_assert_eq!(s.rx_interval(), s.in_force.rx.max(o.in_force.tx));
            prop_assert_eq!(link.ends[one].forwarding, !o.settings.cpath_down);
        }
    }
}
