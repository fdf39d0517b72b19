//! Variables of a bridge (§17.18), configuration, and the order in which state machines run.

use super::port::{Port, PortRole, Variables, port_id};
use super::settings::{PORTS_MAX, Settings};
use super::vector::{Times, Vector};
use crate::spanning_tree::bpdu::{Bpdu, Message, Refusal, Role};
use crate::spanning_tree::event::Event;
use crate::spanning_tree::identifier::BridgeIdentifier;
use crate::spanning_tree::numbers::Numbers;
use crate::spanning_tree::output::Output;
use crate::spanning_tree::port_setup::{Link, PortSetup};
use crate::spanning_tree::port_state::PortState;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use units::{Millis, OfPort};

/// Seconds between two periodic BPDUs (table 17-1).
pub(super) const HELLO_TIME: u16 = 2;
/// Seconds for which a port keeps its decision about the neighbour's protocol (table 17-1, "Migrate Time").
pub(super) const MIGRATE_TIME: u16 = 3;

/// The unit of timers.
const SECOND: Millis = Millis(1000);

/// Maximum number of runs of all state machines until none of them changes state. If they need more, they change state endlessly.
const RUNS_MAX: usize = 1000;

/// Minimum and maximum of maximum age (s), forward delay (s), and transmit hold count (table 17-1).
const LIMITS: [(u16, u16); 3] = [(6, 40), (4, 30), (1, 10)];
/// Minimum and maximum of a path cost (table 17-3).
const COSTS: (u32, u32) = (1, 200_000_000);

/// The protocol entity of a bridge.
#[derive(Debug)]
pub struct Bridge {
    pub(super) name: String,
    pub(super) settings: Settings,
    /// The priority vector of the root (rootPriority).
    pub(super) root: Vector,
    /// The times that the root distributes (rootTimes).
    pub(super) root_times: Times,
    /// The number of the root port (rootPortId).
    pub(super) root_port: Option<u16>,
    /// Ports by number.
    pub(super) ports: BTreeMap<u16, Port>,
    /// When the timers were decremented last.
    last_tick: Millis,
    pub(super) output: Output,
}

impl Bridge {
    /// A bridge without ports.
    pub fn new(name: &str, settings: &Settings, now: Millis) -> Bridge {
        let mut bridge = Bridge {
            name: name.to_owned(),
            settings: clamped(settings, &Settings::default()),
            root: Vector::default(),
            root_times: Times::default(),
            root_port: None,
            ports: BTreeMap::new(),
            last_tick: now,
            output: Output::default(),
        };
        bridge.updt_roles_tree();
        bridge
    }

    /// The bridge's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The outputs since the last call.
    pub fn take_output(&mut self) -> Output {
        std::mem::take(&mut self.output)
    }

    /// The bridge's identifier (BridgeIdentifier).
    pub(super) fn identifier(&self) -> BridgeIdentifier {
        self.settings.identifier
    }

    /// The bridge's own times (BridgeTimes).
    pub(super) fn own_times(&self) -> Times {
        let Settings { max_age, forward_delay, .. } = self.settings;
        Times { message_age: 0, max_age, hello_time: HELLO_TIME, forward_delay }
    }

    /// Whether the bridge is the root.
    pub fn is_root(&self) -> bool {
        self.root_port.is_none()
    }

    /// rstpVersion (§17.20.11)
    pub(super) fn is_rapid(&self) -> bool {
        !self.settings.stp_compatible
    }

    /// Applies settings. If maximum age and forward delay contradict each other, the old values are kept.
    pub fn configure(&mut self, settings: &Settings, _now: Millis) {
        let wanted = clamped(settings, &self.settings);
        let old = std::mem::replace(&mut self.settings, wanted);
        let new = &self.settings;
        if *new == old {
            return;
        }
        if new.transmit_hold_count != old.transmit_hold_count {
            self.ports.values_mut().for_each(|port| port.tx_count = 0);
        }
        if new.stp_compatible != old.stp_compatible {
            // A change of the protocol version initialises the state machines again (§17.13.4).
            let numbers: Vec<u16> = self.ports.keys().copied().collect();
            numbers.into_iter().for_each(|number| self.begin(number));
        }
        self.updt_roles_tree();
        self.ports.values_mut().for_each(Port::reselect);
        self.settle();
    }

    /// Sets the ports; ports that are not in `setups` are removed. A port without a configured number keeps its number, or gets a free one.
    pub fn set_ports(&mut self, setups: &[PortSetup], _now: Millis) {
        let known = self.ports.iter().map(|(number, port)| (*number, port.ofport)).collect();
        let numbers = Numbers::new(&known, setups, PORTS_MAX);
        for number in numbers.gone {
            if let Some(gone) = self.ports.remove(&number) {
                self.output.note_state(gone.ofport);
                self.output.flush.ports.insert(gone.ofport);
                self.ports.values_mut().for_each(Port::reselect);
            }
        }
        for setup in setups {
            if let Some(number) = numbers.by_port.get(&setup.port) {
                self.set_port(*number, setup);
            }
        }
        self.settle();
    }

    fn set_port(&mut self, number: u16, setup: &PortSetup) {
        if let Entry::Vacant(entry) = self.ports.entry(number) {
            entry.insert(Port::new(number, setup));
            self.begin(number);
            self.output.note_state(setup.port);
        }
        let Some(port) = self.ports.get_mut(&number) else { return };
        port.name.clone_from(&setup.name);
        port.settings.clone_from(&setup.rapid);
        port.link = setup.link;
        let id = port_id(setup.priority, number);
        let path_cost = setup.path_cost.clamp(COSTS.0, COSTS.1);
        if (port.id, port.path_cost) != (id, path_cost) {
            (port.id, port.path_cost) = (id, path_cost);
            port.reselect();
        }
        if setup.rapid.mcheck && !self.settings.stp_compatible {
            port.variables |= Variables::MCHECK;
        }
    }

    /// Sets the state of a port's device.
    pub fn set_link(&mut self, port: OfPort, link: Link, _now: Millis) {
        if let Some(port) = self.ports.values_mut().find(|p| p.ofport == port) {
            port.link = link;
            self.settle();
        }
    }

    /// The state of a port.
    pub fn state(&self, port: OfPort) -> Option<PortState> {
        self.ports.values().find(|p| p.ofport == port).map(|p| p.state)
    }

    /// Processes a BPDU that a port received.
    pub fn receive(&mut self, port: OfPort, bytes: &[u8], _now: Millis) {
        let own = self.identifier();
        let found = self.ports.iter_mut().find(|(_, p)| p.ofport == port && p.is_enabled());
        let Some((&number, port)) = found else { return };
        match Bpdu::decode(bytes).and_then(|bpdu| validate(bpdu, own, port.id)) {
            Ok(bpdu) => {
                port.counts.rx += 1;
                port.received = Some(bpdu);
                self.settle();
            }
            Err(why) => {
                port.counts.errors += 1;
                self.output.events.push(Event::Bad { number, why });
            }
        }
    }

    /// Confirms that a port neither learns nor forwards.
    pub fn confirm(&mut self, port: OfPort, _now: Millis) {
        let found = self.ports.values_mut().find(|p| p.ofport == port && !p.state.learns());
        if let Some(port) = found
            && port.has_any(Variables::LEARNING | Variables::FORWARDING)
        {
            port.variables -= Variables::LEARNING | Variables::FORWARDING;
            self.settle();
        }
    }

    /// Decrements the timers by one if a second has passed. If two seconds or more have passed, the missed seconds are not made up for: received
    /// BPDUs may be waiting, and information must not expire before these BPDUs are processed.
    pub fn run(&mut self, now: Millis) {
        let passed = now.since(self.last_tick);
        if passed < SECOND {
            return;
        }
        self.last_tick = if passed < Millis(2 * SECOND.0) { self.last_tick + SECOND } else { now };
        for port in self.ports.values_mut() {
            port.timers.tick();
            port.tx_count = port.tx_count.saturating_sub(1);
            port.counts.uptime += 1;
        }
        self.settle();
    }

    /// When the timers are decremented next.
    pub fn deadline(&self) -> Option<Millis> {
        (!self.ports.is_empty()).then(|| self.last_tick + SECOND)
    }

    /// Starts the state machines of a port (BEGIN, §17.18.1).
    fn begin(&mut self, number: u16) {
        let own_times = self.own_times();
        let rapid = self.is_rapid();
        let Some(port) = self.ports.get_mut(&number) else { return };
        let kept = port.variables & (Variables::LEARNING | Variables::FORWARDING);
        port.variables =
            kept | Variables::SYNC | Variables::RE_ROOT | Variables::RESELECT | Variables::NEW_INFO;
        port.variables.set(Variables::SEND_RSTP, rapid);
        port.variables.set(Variables::OPER_EDGE, port.settings.admin_edge);
        (port.role, port.selected_role) = (PortRole::Disabled, PortRole::Disabled);
        port.info = Default::default();
        port.machines = Default::default();
        port.received = None;
        port.tx_count = 0;
        port.timers = super::port::Timers {
            edge_delay: MIGRATE_TIME,
            migration_delay: MIGRATE_TIME,
            recent_root: own_times.forward_delay,
            forward_delay: own_times.max_age,
            hello: HELLO_TIME,
            ..Default::default()
        };
    }

    /// Runs all state machines until none changes state.
    pub(super) fn settle(&mut self) {
        let numbers: Vec<u16> = self.ports.keys().copied().collect();
        for _ in 0..RUNS_MAX {
            let mut moved = self.role_selection();
            for number in &numbers {
                moved |= self.run_machines(*number);
            }
            if !moved {
                return;
            }
        }
        self.output.events.push(Event::NotSettled);
    }

    fn run_machines(&mut self, number: u16) -> bool {
        self.port_receive(number)
            | self.bridge_detection(number)
            | self.port_information(number)
            | self.role_transitions(number)
            | self.state_transition(number)
            | self.topology_change(number)
            | self.port_transmit(number)
            | self.protocol_migration(number)
    }

    /// Whether `which` is true for all ports except one.
    pub(super) fn all_others(&self, number: u16, which: impl Fn(&Port) -> bool) -> bool {
        self.ports.iter().all(|(n, port)| *n == number || which(port))
    }
}

/// The settings, clamped to their limits. If maximum age and forward delay contradict each other (§17.14), those in force are used.
fn clamped(settings: &Settings, in_force: &Settings) -> Settings {
    let [age, delay, count] = LIMITS;
    let mut wanted = Settings {
        max_age: settings.max_age.clamp(age.0, age.1),
        forward_delay: settings.forward_delay.clamp(delay.0, delay.1),
        transmit_hold_count: settings.transmit_hold_count.clamp(count.0, count.1),
        ..settings.clone()
    };
    if 2 * (wanted.forward_delay - 1) < wanted.max_age {
        (wanted.max_age, wanted.forward_delay) = (in_force.max_age, in_force.forward_delay);
    }
    wanted
}

/// Validation of a received BPDU (§9.3.4).
fn validate(bpdu: Bpdu, own: BridgeIdentifier, id: u16) -> Result<Bpdu, Refusal> {
    let config = match bpdu {
        Bpdu::Config(message) => message,
        // The sending port does not know its role: the BPDU is treated like a configuration BPDU (§9.2.9).
        Bpdu::Rst(message) if message.role == Role::Unknown => Message { role: Role::Designated, ..message },
        other => return Ok(other),
    };
    let times = Times::of(&config);
    if times.message_age >= times.max_age {
        return Err(Refusal::TooOld { age: config.message_age, max: config.max_age });
    }
    if (config.bridge, config.port) == (own, id) {
        return Err(Refusal::Own);
    }
    Ok(Bpdu::Config(config))
}
