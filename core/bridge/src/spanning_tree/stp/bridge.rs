//! State of a bridge and its ports (§8.5); configuration (§8.8).

use super::settings::Settings;
use super::timer::{Timer, Times};
use crate::spanning_tree::event::Event;
use crate::spanning_tree::identifier::BridgeIdentifier;
use crate::spanning_tree::numbers::Numbers;
use crate::spanning_tree::output::Output;
use crate::spanning_tree::port_setup::{Link, PortSetup};
use crate::spanning_tree::port_state::PortState;
use std::collections::BTreeMap;
use units::{Millis, OfPort};

/// What a port knows about the designated port of its LAN (§8.5.5.4 to §8.5.5.7). The fields are in the order of
/// comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Designated {
    pub(super) root: BridgeIdentifier,
    pub(super) cost: u32,
    pub(super) bridge: BridgeIdentifier,
    pub(super) port: u16,
}

/// A port.
#[derive(Debug)]
pub(super) struct Port {
    /// The OpenFlow port number. The key in `Bridge::ports` is another number: that of the port identifier.
    pub(super) ofport: OfPort,
    pub(super) name: String,
    pub(super) link: Link,
    /// Port identifier: priority, and port number in BPDUs (§8.5.5.1).
    pub(super) id: u16,
    pub(super) path_cost: u32,
    pub(super) state: PortState,
    /// When the port entered the state.
    pub(super) since: Millis,
    pub(super) designated: Designated,
    pub(super) topology_change_ack: bool,
    pub(super) config_pending: bool,
    pub(super) message_age: Timer,
    pub(super) forward_delay: Timer,
    pub(super) hold: Timer,
    /// BPDUs sent, received, and discarded.
    pub(super) counts: [i64; 3],
}

/// Position of the number of sent BPDUs in `Port::counts`.
pub(super) const SENT: usize = 0;
/// Position of the number of received BPDUs in `Port::counts`.
pub(super) const RECEIVED: usize = 1;
/// Position of the number of discarded BPDUs in `Port::counts`.
pub(super) const ERRORS: usize = 2;

/// The number of a port in its identifier.
pub(super) fn number_of(id: u16) -> u16 {
    id & 0xff
}

/// The protocol entity of a bridge.
#[derive(Debug)]
pub struct Bridge {
    pub(super) name: String,
    pub(super) identifier: BridgeIdentifier,
    /// The times that apply if this bridge is the root.
    pub(super) own_times: Times,
    /// The times in force: those of the root.
    pub(super) times: Times,
    pub(super) root: BridgeIdentifier,
    pub(super) root_path_cost: u32,
    /// The number of the root port.
    pub(super) root_port: Option<u16>,
    pub(super) topology_change_detected: bool,
    pub(super) topology_change: bool,
    pub(super) hello: Timer,
    pub(super) tcn: Timer,
    pub(super) topology_change_timer: Timer,
    /// Ports by the number in their identifier.
    pub(super) ports: BTreeMap<u16, Port>,
    pub(super) output: Output,
}

impl Bridge {
    /// A bridge without ports (§8.8.1).
    pub fn new(name: &str, settings: &Settings, now: Millis) -> Bridge {
        let times = settings.times();
        let mut hello = Timer::default();
        hello.start(super::timer::millis(times.hello_time), now);
        Bridge {
            name: name.to_owned(),
            identifier: settings.identifier,
            own_times: times,
            times,
            root: settings.identifier,
            root_path_cost: 0,
            root_port: None,
            topology_change_detected: false,
            topology_change: false,
            hello,
            tcn: Timer::default(),
            topology_change_timer: Timer::default(),
            ports: BTreeMap::new(),
            output: Output::default(),
        }
    }

    /// The bridge's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The outputs since the last call.
    pub fn take_output(&mut self) -> Output {
        std::mem::take(&mut self.output)
    }

    /// Applies settings.
    pub fn configure(&mut self, settings: &Settings, now: Millis) {
        self.set_identifier(settings.identifier, now);
        self.own_times = settings.times();
        if self.is_root() {
            self.times = self.own_times;
        }
    }

    /// Set bridge priority (§8.8.4), applied to the complete identifier.
    fn set_identifier(&mut self, identifier: BridgeIdentifier, now: Millis) {
        if identifier == self.identifier {
            return;
        }
        let was_root = self.is_root();
        let own = self.identifier;
        for port in self.ports.values_mut().filter(|p| p.is_enabled() && p.is_designated(own)) {
            port.designated.bridge = identifier;
        }
        self.identifier = identifier;
        self.configuration_update();
        self.port_state_selection(now);
        if self.is_root() && !was_root {
            self.become_root(now);
        }
    }

    /// Sets the ports; ports that are not in `setups` are removed. A port without a configured number keeps its number,
    /// or gets a free one.
    pub fn set_ports(&mut self, setups: &[PortSetup], now: Millis) {
        let known = self.ports.iter().map(|(number, port)| (*number, port.ofport)).collect();
        let numbers = Numbers::new(&known, setups, super::PORTS_MAX);
        for number in numbers.gone {
            self.disable(number, now);
            if let Some(gone) = self.ports.remove(&number) {
                self.output.note_state(gone.ofport);
            }
        }
        for setup in setups {
            if let Some(number) = numbers.by_port.get(&setup.port) {
                self.set_port(*number, setup, now);
            }
        }
    }

    fn set_port(&mut self, number: u16, setup: &PortSetup, now: Millis) {
        let is_new = !self.ports.contains_key(&number);
        if is_new {
            self.ports.insert(number, Port::new(number, setup, now));
        }
        let Some(port) = self.ports.get_mut(&number) else { return };
        port.name.clone_from(&setup.name);
        if is_new {
            self.output.note_state(setup.port);
        }
        self.set_link(setup.port, setup.link, now);
        self.set_priority(number, setup.priority, now);
        self.set_path_cost(number, setup.path_cost, now);
    }

    /// Sets the state of a port's device.
    pub fn set_link(&mut self, port: OfPort, link: Link, now: Millis) {
        let found = self.ports.iter_mut().find(|(_, p)| p.ofport == port);
        let Some((&number, port)) = found else { return };
        port.link = link;
        match (link.up, port.is_enabled()) {
            (true, false) => self.enable(number, now),
            (false, true) => self.disable(number, now),
            _ => {}
        }
    }

    /// Enable port (§8.8.2).
    fn enable(&mut self, number: u16, now: Millis) {
        self.become_designated(number);
        self.set_state(number, PortState::Blocking, now);
        if let Some(port) = self.ports.get_mut(&number) {
            port.stop_timers();
            port.hold.stop();
            port.counts = [0; 3];
        }
        self.port_state_selection(now);
    }

    /// Disable port (§8.8.3).
    fn disable(&mut self, number: u16, now: Millis) {
        if self.ports.get(&number).is_none_or(|p| !p.is_enabled()) {
            return;
        }
        let was_root = self.is_root();
        self.become_designated(number);
        self.set_state(number, PortState::Disabled, now);
        if let Some(port) = self.ports.get_mut(&number) {
            port.stop_timers();
        }
        self.configuration_update();
        self.port_state_selection(now);
        if self.is_root() && !was_root {
            self.become_root(now);
        }
    }

    /// Set port priority (§8.8.5).
    fn set_priority(&mut self, number: u16, priority: u8, now: Millis) {
        let own = self.identifier;
        let Some(port) = self.ports.get_mut(&number) else { return };
        let id = u16::from(priority) << 8 | number_of(port.id);
        if id == port.id {
            return;
        }
        if port.is_designated(own) {
            port.designated.port = id;
        }
        port.id = id;
        if port.designated.bridge == own && id < port.designated.port {
            self.become_designated(number);
            self.port_state_selection(now);
        }
    }

    /// Set path cost (§8.8.6).
    fn set_path_cost(&mut self, number: u16, cost: u32, now: Millis) {
        let Some(port) = self.ports.get_mut(&number).filter(|p| p.path_cost != cost) else { return };
        port.path_cost = cost;
        self.configuration_update();
        self.port_state_selection(now);
    }

    /// The state of a port.
    pub fn state(&self, port: OfPort) -> Option<PortState> {
        self.ports.values().find(|p| p.ofport == port).map(|p| p.state)
    }

    /// Whether the bridge is the root.
    pub fn is_root(&self) -> bool {
        self.root == self.identifier
    }

    /// The actions when the bridge becomes the root.
    pub(super) fn become_root(&mut self, now: Millis) {
        self.times = self.own_times;
        self.change_topology(now);
        self.tcn.stop();
        self.config_bpdu_generation(now);
        self.hello.start(Millis(0), now);
    }

    /// Topology change detection (§8.6.14).
    pub fn change_topology(&mut self, now: Millis) {
        if self.is_root() {
            self.topology_change = true;
            self.topology_change_timer.start(Millis(0), now);
        } else if !self.topology_change_detected {
            self.transmit_tcn();
            self.tcn.start(Millis(0), now);
        }
        self.topology_change_detected = true;
        self.output.flush.all = true;
        self.output.events.push(Event::TopologyChange);
    }

    pub(super) fn set_state(&mut self, number: u16, state: PortState, now: Millis) {
        let Some(port) = self.ports.get_mut(&number).filter(|p| p.state != state) else { return };
        // All learned addresses are removed, because stations may be behind other ports now.
        self.output.flush.all |= port.state.learns() != state.learns();
        (port.state, port.since) = (state, now);
        self.output.note_state(port.ofport);
    }
}

impl Port {
    fn new(number: u16, setup: &PortSetup, now: Millis) -> Port {
        Port {
            ofport: setup.port,
            name: setup.name.clone(),
            link: Link::default(),
            id: u16::from(setup.priority) << 8 | number,
            path_cost: setup.path_cost,
            state: PortState::Disabled,
            since: now,
            designated: Designated::default(),
            topology_change_ack: false,
            config_pending: false,
            message_age: Timer::default(),
            forward_delay: Timer::default(),
            hold: Timer::default(),
            counts: [0; 3],
        }
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.state != PortState::Disabled
    }

    /// Whether the port is the designated port of its LAN. `own`: the identifier of its bridge (§8.6.4.2).
    pub(super) fn is_designated(&self, own: BridgeIdentifier) -> bool {
        (self.designated.bridge, self.designated.port) == (own, self.id)
    }

    /// Stops the timers of a port and clears its pending messages.
    fn stop_timers(&mut self) {
        self.topology_change_ack = false;
        self.config_pending = false;
        self.message_age.stop();
        self.forward_delay.stop();
    }
}
