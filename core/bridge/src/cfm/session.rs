//! One session: its state and its timers.

use super::event::Event;
use super::fault::Faults;
use super::frame::{Filter, frame};
use super::message::Message;
use super::settings::{Interval, Settings, Vlan, WrongId};
use flow::Mac;
use std::collections::BTreeMap;
use units::Millis;

/// Number of checks between two computations of health.
const HEALTH_CHECKS: u32 = 6;
/// Messages of a remote point that are expected between two computations: a check takes place every 3.5 message intervals.
const HEALTH_MESSAGES: u32 = HEALTH_CHECKS * 7 / 2;
/// In demand mode, a message must arrive within this many intervals, even if there is traffic.
pub(super) const DEMAND_INTERVALS: u64 = 100;

/// A remote maintenance point.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RemotePoint {
    /// A message was received since the last check.
    pub(super) heard: bool,
    /// The remote point is operationally up.
    pub(super) is_up: bool,
    /// Sequence number of the point's last message; 0: no message yet.
    pub(super) sequence: u32,
    /// Number of the point's messages that reported no fault, since health was last computed.
    pub(super) messages: u32,
    /// When the point's last message was received.
    pub(super) last_rx: Millis,
}

/// The health of the session: how many of the expected messages arrive.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Health {
    /// Percentage of the expected messages that arrived. `None`: there is more than one remote point, or health was not computed yet.
    pub(super) percent: Option<u8>,
    /// Checks since health was computed.
    checks: u32,
}

/// State of demand mode, in which traffic is a sign of life.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    /// Packets that the port has received, as last reported.
    pub(super) packets: u64,
    /// Packets that the port had received at the last check.
    pub(super) packets_at_check: u64,
    /// Until this time, traffic is sufficient without another message.
    pub(super) message_until: Millis,
}

/// A CFM session; see the module documentation.
#[derive(Debug)]
pub struct Session {
    pub(super) settings: Settings,
    pub(super) interval: Interval,
    mac: Mac,
    random: fastrand::Rng,
    /// Sequence number of our last message.
    sequence: u32,
    last_tx: Option<Millis>,
    /// When the next message is due; `None`: at once.
    pub(super) next_tx: Option<Millis>,
    /// When remote points are checked next.
    pub(super) next_check: Millis,
    /// Whether there has been a check.
    was_checked: bool,
    pub(super) points: BTreeMap<u64, RemotePoint>,
    /// Identifiers of the points whose messages arrived between the last two checks.
    pub(super) live_ids: Vec<u64>,
    /// Faults found by the last check.
    faults: Faults,
    /// Faults in messages since the last check.
    pub(super) received_faults: Faults,
    /// The state that a command forced: `true` is a fault. `None`: not forced.
    forced: Option<bool>,
    /// No remote point is operationally down.
    pub(super) remote_is_up: bool,
    pub(super) health: Health,
    /// How often the session changed between fault and no fault.
    pub(super) flaps: u64,
    pub(super) demand: Demand,
    status_changed: bool,
    pub(super) events: Vec<Event>,
}

impl Session {
    /// Creates a session for a port with MAC address `mac`, which has received `packets` packets so far. `seed`: for random VLANs.
    ///
    /// # Errors
    ///
    /// The identifier in the settings is invalid.
    pub fn new(
        settings: Settings,
        mac: Mac,
        packets: u64,
        seed: u64,
        now: Millis,
    ) -> Result<Session, WrongId> {
        settings.check()?;
        let interval = settings.sent_interval();
        Ok(Session {
            next_check: now + settings.check_interval(interval),
            interval,
            settings,
            mac,
            random: fastrand::Rng::with_seed(seed),
            sequence: 0,
            last_tx: None,
            next_tx: None,
            was_checked: false,
            points: BTreeMap::new(),
            live_ids: Vec::new(),
            faults: Faults::empty(),
            received_faults: Faults::empty(),
            forced: None,
            remote_is_up: true,
            health: Health::default(),
            flaps: 0,
            demand: Demand { packets, packets_at_check: packets, ..Demand::default() },
            status_changed: true,
            events: Vec::new(),
        })
    }

    /// Applies new settings.
    ///
    /// # Errors
    ///
    /// The identifier in the settings is invalid; the session is unchanged.
    pub fn configure(&mut self, settings: Settings, now: Millis) -> Result<(), WrongId> {
        settings.check()?;
        if settings.has_demand() && !self.settings.has_demand() {
            self.demand.packets_at_check = self.demand.packets;
        }
        let interval = settings.sent_interval();
        if interval != self.interval {
            self.interval = interval;
            self.next_tx = None;
            self.next_check = now + settings.check_interval(interval);
        }
        self.settings = settings;
        Ok(())
    }

    /// Sets the MAC address of the port.
    pub fn set_mac(&mut self, mac: Mac) {
        self.mac = mac;
    }

    /// The filter for frames that belong to the session.
    pub fn filter(&self) -> Filter {
        Filter::new(self.settings.extended, self.settings.check_tnl_key)
    }

    /// Whether the session needs the number of packets that the port has received.
    pub fn counts_traffic(&self) -> bool {
        self.settings.has_demand()
    }

    /// Updates the number of packets that the port has received.
    pub fn count_traffic(&mut self, packets: u64) {
        self.demand.packets = packets;
    }

    /// Forces a fault (`true`) or its absence (`false`). `None`: the session decides again.
    pub fn force_fault(&mut self, forced: Option<bool>) {
        self.forced = forced;
        self.status_changed = true;
    }

    /// The faults, or the state that a command forced.
    pub fn faults(&self) -> Faults {
        match self.forced {
            Some(true) => Faults::OVERRIDE,
            Some(false) => Faults::empty(),
            None => self.faults,
        }
    }

    /// Whether a command has forced the state.
    pub(super) fn is_forced(&self) -> bool {
        self.forced.is_some()
    }

    /// The operational state of the remote points; `None` outside extended mode.
    pub fn remote_is_up(&self) -> Option<bool> {
        self.settings.extended.then_some(self.remote_is_up)
    }

    /// Whether packets may be sent through the port.
    pub fn is_forwarding(&self) -> bool {
        self.faults().is_empty() && self.remote_is_up() != Some(false)
    }

    /// When the session must be called next.
    pub fn deadline(&self) -> Millis {
        self.next_tx.unwrap_or_default().min(self.next_check)
    }

    /// Returns the frame to send now, if one is due.
    pub fn transmit(&mut self, now: Millis) -> Option<Vec<u8>> {
        if self.next_tx.is_some_and(|at| now < at) {
            return None;
        }
        self.next_tx = Some(now + self.interval.time);
        self.sequence = self.sequence.wrapping_add(1);
        let (delay, expected) = (now.since(self.last_tx.unwrap_or(now)), self.interval.time);
        if delay.0 * 2 > expected.0 * 3 {
            self.events.push(Event::Late { delay, expected, sequence: self.sequence });
        }
        self.last_tx = Some(now);
        let vlan = match self.settings.vlan {
            Vlan::Id(id) => id,
            Vlan::Random => self.random.u16(..),
        };
        Some(frame(&self.message(), self.settings.extended, self.mac, vlan, self.settings.priority))
    }

    fn message(&self) -> Message {
        let Settings { id, extended, is_up, .. } = self.settings;
        let Interval { code, time } = self.interval;
        // In extended mode receivers ignore the short identifier.
        let short = if extended {
            [id, id >> 16, id >> 32, id >> 48].iter().fold(0, |all, part| all ^ *part as u16)
        } else {
            id as u16
        };
        Message {
            sequence: self.sequence,
            id: short,
            extended_id: if extended { id } else { 0 },
            rdi: self.was_checked && self.points.is_empty(),
            is_down: extended && !is_up,
            is_of_our_association: true,
            interval_code: code,
            extended_interval: if code == 0 { time } else { Millis(0) },
        }
    }

    /// Checks the remote points, if that is due.
    pub fn run(&mut self, now: Millis) {
        if now < self.next_check {
            return;
        }
        let before = self.status();
        self.next_check = now + self.settings.check_interval(self.interval);
        let mut faults = std::mem::take(&mut self.received_faults);
        self.count_health();
        self.forget_silent(now);
        if self.points.is_empty() {
            faults |= Faults::RECV;
        }
        if faults != self.faults {
            self.events.push(Event::Faults { from: self.faults, to: faults });
            self.flaps += u64::from(self.faults.is_empty() || faults.is_empty());
            self.faults = faults;
        }
        self.was_checked = true;
        self.status_changed |= before != self.status();
    }

    /// Counts a check. After [`HEALTH_CHECKS`] checks it computes health: the percentage of the expected messages of the remote point that
    /// arrived; 0 without a remote point, `None` if there are several.
    fn count_health(&mut self) {
        if self.health.checks == HEALTH_CHECKS {
            let several = self.points.len() > 1;
            let percent = self.points.values_mut().next().map_or(0, |point| {
                if several { 0 } else { std::mem::take(&mut point.messages) * 100 / HEALTH_MESSAGES }
            });
            self.health.percent = (!several).then_some(percent.min(100) as u8);
            self.health.checks = 0;
        }
        self.health.checks += 1;
    }

    /// Forgets the points from which no message arrived since the last check, except in demand mode if traffic counts in place of messages.
    fn forget_silent(&mut self, now: Millis) {
        let demand = &mut self.demand;
        let traffic = self.settings.has_demand()
            && self.points.len() == 1
            && demand.packets > demand.packets_at_check
            && now < demand.message_until;
        demand.packets_at_check = demand.packets;
        let silent = self.points.iter().filter(|(_, point)| !point.heard);
        self.events
            .extend(silent.map(|(id, point)| Event::Silent { id: *id, time: now.since(point.last_rx) }));
        let heard = || self.points.values().filter(|point| point.heard);
        if heard().any(|point| !point.is_up) {
            self.remote_is_up = false;
        } else if heard().next().is_some() {
            self.remote_is_up = true;
        }
        self.live_ids = self.points.iter().filter(|(_, point)| point.heard).map(|(id, _)| *id).collect();
        self.points.retain(|_, point| std::mem::take(&mut point.heard) || traffic);
    }

    /// The events since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Whether the columns of the database have changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.status_changed)
    }
}
