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

/// The place of a port in the network: index of the bridge, port number.
pub(super) type At = (usize, u16);

/// A port with default settings.
pub(super) fn default_setup(port: u16) -> PortSetup {
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
    /// Ports through which the datapath forwards. As in the switch, the datapath stops later than the tree's port state says.
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
    /// Delay of a frame in milliseconds.
    pub(super) frame_delay: u64,
    /// The longest delay of a datapath that stops forwarding, in milliseconds.
    pub(super) stop_delay_max: u64,
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
            frame_delay: 1,
            stop_delay_max: 0,
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
        let mut setup = PortSetup { path_cost: cost, priority, ..default_setup(at.1) };
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
        self.carry_out_output(bridge);
    }

    /// Takes the link of a port down, or up.
    pub(super) fn set_link(&mut self, at: At, up: bool) {
        let node = &mut self.nodes[at.0];
        let Some(setup) = node.setups.get_mut(&at.1) else { return };
        setup.link.up = up;
        node.tree.set_link(OfPort(at.1), setup.link, self.now);
        self.carry_out_output(at.0);
    }

    fn is_up(&self, at: At) -> bool {
        self.nodes[at.0].setups.get(&at.1).is_some_and(|s| s.link.up)
    }

    fn schedule(&mut self, delay: u64, due: Due) {
        self.sequence += 1;
        self.due.insert((self.now + Millis(delay), self.sequence), due);
    }

    /// Carries out the output of a bridge: its port states and frames.
    fn carry_out_output(&mut self, bridge: usize) {
        let node = &mut self.nodes[bridge];
        let output = node.tree.take_output();
        assert!(!output.events.contains(&super::Event::NotSettled), "the state machines do not settle");
        for port in output.changed {
            let node = &mut self.nodes[bridge];
            let state = node.tree.state(port).map(|p| p.state);
            if state.is_some_and(PortState::forwards) {
                node.forwarding.insert(port.0);
            } else {
                let delay = self.random.u64(0..=self.stop_delay_max);
                self.schedule(delay, Due::Stopped { at: (bridge, port.0) });
            }
        }
        self.send_frames(bridge, output.frames);
    }

    /// Puts frames of a bridge on the LANs of its ports.
    fn send_frames(&mut self, bridge: usize, frames: Vec<(OfPort, Vec<u8>)>) {
        for (port, bytes) in frames {
            let from = (bridge, port.0);
            let Some(lan) = self.lans.get(&from).copied() else { continue };
            // All frames of a LAN have the same delay, so that they stay in order.
            let delay = self.frame_delay;
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
            let next = self.due.keys().next().map(|(time, _)| *time);
            let time =
                timer.map(|(time, _)| time).into_iter().chain(next).min().filter(|time| *time <= until);
            let Some(time) = time else { break };
            self.now = self.now.max(time);
            if let Some(entry) = self.due.first_entry().filter(|e| e.key().0 <= self.now) {
                let due = entry.remove();
                self.process_event(due);
            } else if let Some((_, bridge)) = timer {
                self.nodes[bridge].tree.run(self.now);
                self.carry_out_output(bridge);
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
                    self.carry_out_output(to.0);
                }
            }
            Due::Stopped { at: (bridge, port) } => {
                let node = &mut self.nodes[bridge];
                let state = node.tree.state(OfPort(port)).map(|p| p.state);
                if !state.is_some_and(PortState::forwards) {
                    node.forwarding.remove(&port);
                    node.tree.confirm(OfPort(port), self.now);
                    self.carry_out_output(bridge);
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
                has_loop |= !groups.join(Vertex::Bridge(at.0), Vertex::Lan(*lan));
            }
        }
        (groups, has_loop)
    }

    fn check(&self) {
        if self.checks_loops {
            assert!(!self.groups().1, "a loop at {} ms: {}", self.now.0, self.show());
        }
    }

    /// Checks that forwarding ports connect all bridges that links and LANs connect, and that there is no loop.
    pub(super) fn check_tree(&self) {
        let (mut found, has_loop) = self.groups();
        assert!(!has_loop, "a loop: {}", self.show());
        let mut wires = Groups::default();
        for (at, lan) in &self.lans {
            if self.is_up(*at) && !self.dead.contains(lan) {
                wires.join(Vertex::Bridge(at.0), Vertex::Lan(*lan));
            }
        }
        for a in 0..self.nodes.len() {
            for b in 0..a {
                let (a, b) = (Vertex::Bridge(a), Vertex::Bridge(b));
                let same = [wires.root_of(a) == wires.root_of(b), found.root_of(a) == found.root_of(b)];
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

/// A vertex of the graph that ports connect: a bridge, by its index, or a LAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Vertex {
    Bridge(usize),
    Lan(u32),
}

/// Connected components of a graph (union-find).
#[derive(Default)]
struct Groups(BTreeMap<Vertex, Vertex>);

impl Groups {
    /// The vertex that represents the component of a vertex.
    fn root_of(&mut self, vertex: Vertex) -> Vertex {
        match self.0.get(&vertex).copied() {
            Some(parent) if parent != vertex => self.root_of(parent),
            _ => vertex,
        }
    }

    /// Joins two components. Returns whether they were different.
    fn join(&mut self, a: Vertex, b: Vertex) -> bool {
        let (a, b) = (self.root_of(a), self.root_of(b));
        self.0.insert(a, b);
        a != b
    }
}
