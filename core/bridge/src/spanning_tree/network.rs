//! A simulated network of bridges for tests: LANs that connect ports, with delays of frames and of datapaths.

use super::identifier::BridgeIdentifier;
use super::port_setup::{Link, PortSetup};
use super::port_state::{PortState, Protocol};
use super::settings::Settings;
use super::tree::Tree;
use super::{payload, rstp, stp};
use fastrand::Rng;
use flow::Mac;
use std::collections::{BTreeMap, BTreeSet};
use units::{Millis, OfPort};

/// A port of the network: index of the bridge, port number.
pub(super) type At = (usize, u16);

/// A port with default settings.
pub(super) fn setup(port: u16) -> PortSetup {
    PortSetup {
        port: OfPort(port),
        name: format!("p{port}"),
        number: None,
        priority: 128,
        path_cost: 1,
        rapid: rstp::PortSettings::default(),
        link: Link { mac: Mac([2, 0, 0, 0, 1, port as u8]), up: true },
    }
}

/// An event in the future.
enum Due {
    Frame {
        from: At,
        to: At,
        bytes: Vec<u8>,
    },
    /// The datapath has stopped forwarding through a port.
    Stopped {
        at: At,
    },
}

/// A bridge with its ports.
pub(super) struct Node {
    pub(super) tree: Tree,
    settings: Settings,
    setups: BTreeMap<u16, PortSetup>,
    /// Ports through which the datapath forwards. The datapath stops later than the tree's port state says.
    forwarding: BTreeSet<u16>,
}

/// The network.
pub(super) struct Network {
    pub(super) now: Millis,
    pub(super) nodes: Vec<Node>,
    /// The LAN of each port.
    pub(super) lans: BTreeMap<At, u32>,
    due: BTreeMap<(Millis, u64), Due>,
    sequence: u64,
    random: Rng,
    /// Delay of a frame, and the longest delay of a datapath that stops forwarding, in milliseconds.
    pub(super) delays: (u64, u64),
    /// LANs that lose all frames.
    pub(super) dead: BTreeSet<u32>,
    /// LANs that may connect more than two ports.
    pub(super) shared: BTreeSet<u32>,
    /// Whether a forwarding loop is an error.
    pub(super) checks_loops: bool,
}

impl Network {
    pub(super) fn new(seed: u64) -> Network {
        Network {
            now: Millis(1000),
            nodes: Vec::new(),
            lans: BTreeMap::new(),
            due: BTreeMap::new(),
            sequence: 0,
            random: Rng::with_seed(seed),
            delays: (1, 0),
            dead: BTreeSet::new(),
            shared: BTreeSet::new(),
            checks_loops: true,
        }
    }

    /// Adds a bridge.
    pub(super) fn add(&mut self, protocol: Protocol, priority: u16, mac: u64) -> usize {
        let identifier = BridgeIdentifier::new(priority, Mac::from_u64(mac));
        let settings = match protocol {
            Protocol::Stp => Settings::Stp(stp::Settings { identifier, ..Default::default() }),
            Protocol::Rstp => Settings::Rstp(rstp::Settings { identifier, ..Default::default() }),
        };
        let tree = Tree::new(&format!("br{mac:x}"), &settings, self.now);
        let (setups, forwarding) = (BTreeMap::new(), BTreeSet::new());
        self.nodes.push(Node { tree, settings, setups, forwarding });
        self.nodes.len() - 1
    }

    /// Connects a port to a LAN.
    pub(super) fn connect(&mut self, at: At, lan: u32, cost: u32, priority: u8) {
        self.lans.insert(at, lan);
        let mut setup = PortSetup { path_cost: cost, priority, ..setup(at.1) };
        if self.shared.contains(&lan) {
            setup.rapid.point_to_point = rstp::PointToPoint::No;
        }
        self.nodes[at.0].setups.insert(at.1, setup);
        self.configure(at.0);
    }

    /// Changes the settings of a bridge.
    pub(super) fn change(&mut self, bridge: usize, change: impl FnOnce(&mut Settings)) {
        change(&mut self.nodes[bridge].settings);
        self.configure(bridge);
    }

    fn configure(&mut self, bridge: usize) {
        let node = &mut self.nodes[bridge];
        let setups: Vec<PortSetup> = node.setups.values().cloned().collect();
        node.tree.configure(&node.settings, &setups, self.now);
        self.follow(bridge);
    }

    /// Takes the link of a port down, or up.
    pub(super) fn set_up(&mut self, at: At, up: bool) {
        let node = &mut self.nodes[at.0];
        let Some(setup) = node.setups.get_mut(&at.1) else { return };
        setup.link.up = up;
        node.tree.set_link(OfPort(at.1), setup.link, self.now);
        self.follow(at.0);
    }

    fn is_up(&self, at: At) -> bool {
        self.nodes[at.0].setups.get(&at.1).is_some_and(|s| s.link.up)
    }

    fn schedule(&mut self, delay: u64, due: Due) {
        self.sequence += 1;
        self.due.insert((self.now + Millis(delay), self.sequence), due);
    }

    /// Carries out the outputs of a bridge.
    fn follow(&mut self, bridge: usize) {
        let node = &mut self.nodes[bridge];
        let output = node.tree.take_output();
        assert!(!output.events.contains(&super::Event::NotSettled), "the state machines do not settle");
        for port in output.changed {
            let node = &mut self.nodes[bridge];
            let state = node.tree.state(port).map(|p| p.state);
            if state.is_some_and(PortState::forwards) {
                node.forwarding.insert(port.0);
            } else {
                let delay = self.random.u64(0..=self.delays.1);
                self.schedule(delay, Due::Stopped { at: (bridge, port.0) });
            }
        }
        self.follow_frames(bridge, output.frames);
    }

    fn follow_frames(&mut self, bridge: usize, frames: Vec<(OfPort, Vec<u8>)>) {
        for (port, bytes) in frames {
            let from = (bridge, port.0);
            let Some(lan) = self.lans.get(&from).copied() else { continue };
            // All frames of a LAN have the same delay, so that they stay in order.
            let delay = self.delays.0;
            let others: Vec<At> =
                self.lans.iter().filter(|(at, l)| **l == lan && **at != from).map(|(at, _)| *at).collect();
            for to in others {
                self.schedule(delay, Due::Frame { from, to, bytes: bytes.clone() });
            }
        }
        self.check();
    }

    /// Lets time pass.
    pub(super) fn run(&mut self, time: Millis) {
        let until = self.now + time;
        loop {
            let timers =
                self.nodes.iter().enumerate().filter_map(|(n, node)| Some((node.tree.deadline()?, n)));
            let timer = timers.min();
            let next = self.due.keys().next().map(|(at, _)| *at);
            let at = timer.map(|(at, _)| at).into_iter().chain(next).min().filter(|at| *at <= until);
            let Some(at) = at else { break };
            self.now = self.now.max(at);
            if let Some(entry) = self.due.first_entry().filter(|e| e.key().0 <= self.now) {
                let due = entry.remove();
                self.process_event(due);
            } else if let Some((_, bridge)) = timer {
                self.nodes[bridge].tree.run(self.now);
                self.follow(bridge);
            }
        }
        self.now = until;
    }

    fn process_event(&mut self, due: Due) {
        match due {
            Due::Frame { from, to, bytes } => {
                let lost = self.lans.get(&to).is_none_or(|lan| self.dead.contains(lan))
                    || !self.is_up(to)
                    || !self.is_up(from);
                if !lost {
                    assert!(payload(&bytes).is_some());
                    self.nodes[to.0].tree.receive(OfPort(to.1), &bytes, self.now);
                    self.follow(to.0);
                }
            }
            Due::Stopped { at: (bridge, port) } => {
                let node = &mut self.nodes[bridge];
                let state = node.tree.state(OfPort(port)).map(|p| p.state);
                if !state.is_some_and(PortState::forwards) {
                    node.forwarding.remove(&port);
                    node.tree.confirm(OfPort(port), self.now);
                    self.follow(bridge);
                }
            }
        }
    }

    /// The groups of LANs and bridges that forwarding ports connect, and whether there is a loop.
    fn groups(&self) -> (Groups, bool) {
        let mut groups = Groups::default();
        let mut has_loop = false;
        for (at, lan) in &self.lans {
            let passes = self.nodes[at.0].forwarding.contains(&at.1);
            if passes && self.is_up(*at) && !self.dead.contains(lan) {
                has_loop |= !groups.join((true, at.0 as u32), (false, *lan));
            }
        }
        (groups, has_loop)
    }

    fn check(&self) {
        if self.checks_loops {
            assert!(!self.groups().1, "a loop at {} ms: {}", self.now.0, self.show());
        }
    }

    /// Checks that forwarding ports connect all bridges that have a physical connection, without a loop.
    pub(super) fn check_tree(&self) {
        let (mut found, has_loop) = self.groups();
        assert!(!has_loop, "a loop: {}", self.show());
        let mut wires = Groups::default();
        for (at, lan) in &self.lans {
            if self.is_up(*at) && !self.dead.contains(lan) {
                wires.join((true, at.0 as u32), (false, *lan));
            }
        }
        for a in 0..self.nodes.len() as u32 {
            for b in 0..a {
                let (a, b) = ((true, a), (true, b));
                let same = [wires.of(a) == wires.of(b), found.of(a) == found.of(b)];
                assert_eq!(same[0], same[1], "{a:?} and {b:?}: {}", self.show());
            }
        }
    }

    /// The states of a bridge's ports, by port number, one letter each: forwarding (F), learning (L), listening (l),
    /// blocking or discarding (B), disabled (D).
    pub(super) fn states(&self, bridge: usize) -> String {
        let node = &self.nodes[bridge];
        let letter = |port: &u16| match node.tree.state(OfPort(*port)).map(|p| p.state) {
            Some(PortState::Forwarding) => 'F',
            Some(PortState::Learning) => 'L',
            Some(PortState::Listening) => 'l',
            Some(PortState::Blocking | PortState::Discarding) => 'B',
            Some(PortState::Disabled) => 'D',
            None => '-',
        };
        node.setups.keys().map(letter).collect()
    }

    pub(super) fn show(&self) -> String {
        let lans = |bridge: usize| {
            let of = self.lans.iter().filter(move |(at, _)| at.0 == bridge);
            of.map(|(_, lan)| format!(" {lan}")).collect::<String>()
        };
        let node = |(n, node): (usize, &Node)| format!("LANs{}\n{}", lans(n), node.tree.show());
        self.nodes.iter().enumerate().map(node).collect()
    }
}

/// Connected components of a graph (union-find).
#[derive(Default)]
struct Groups(BTreeMap<(bool, u32), (bool, u32)>);

impl Groups {
    fn of(&mut self, node: (bool, u32)) -> (bool, u32) {
        match self.0.get(&node).copied() {
            Some(parent) if parent != node => self.of(parent),
            _ => node,
        }
    }

    /// Joins two components. Returns whether they were different.
    fn join(&mut self, a: (bool, u32), b: (bool, u32)) -> bool {
        let (a, b) = (self.of(a), self.of(b));
        self.0.insert(a, b);
        a != b
    }
}
