//! The spanning trees of a datapath's bridges.
//!
//! **Threads**: those that receive BPDUs, the timers thread, and the main loop. A lock is held for one operation, during
//! which nothing is sent or logged.

use crate::protocol_state::{PortKey, ProtocolState, log_level};
use crate::published::Published;
use crate::shared_state::SharedState;
use crate::timers::wakeup::Wakeup;
use bridge::spanning_tree::{Event, Flush, Link, Pairs, PortSetup, PortTree, Protocol, Settings, Tree};
use runtime::{Module, RateLimit};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{Millis, OfPort};
use xlate::BridgeId;

static STP: Module = Module::new("stp");
static RSTP: Module = Module::new("rstp");
static LIMIT: RateLimit = RateLimit::new(1, 5);

/// BPDUs of a bridge that wait; older ones are dropped. A tree is not published while flows are being restored.
const FRAMES_MAX: usize = 8192;

/// The spanning trees of a datapath's bridges.
pub struct Trees {
    state: ProtocolState<Inner>,
}

#[derive(Default)]
struct Inner {
    all: BTreeMap<BridgeId, Entry>,
    reports: Reports,
}

struct Entry {
    tree: Tree,
    /// BPDUs to send, in order.
    frames: Vec<(OfPort, Vec<u8>)>,
    /// The bridge's column when it was last looked at.
    status: Pairs<String>,
}

/// What the main loop has to carry out.
#[derive(Default)]
pub struct Reports {
    /// Ports whose state has changed, in the order of the changes.
    pub changed: Vec<PortKey>,
    /// Learned addresses to remove.
    pub flushes: BTreeMap<BridgeId, Flush>,
}

type Lines = Vec<(Protocol, String, Event)>;

impl Inner {
    /// Takes the outputs of a bridge's tree. Returns whether there is something to report.
    fn absorb(&mut self, bridge: BridgeId, lines: &mut Lines) -> bool {
        let Some(entry) = self.all.get_mut(&bridge) else { return false };
        let output = entry.tree.take_output();
        let reports = !output.changed.is_empty() || !output.flush.is_empty();
        entry.frames.extend(output.frames);
        let excess = entry.frames.len().saturating_sub(FRAMES_MAX);
        entry.frames.drain(..excess);
        for port in output.changed {
            let key = (bridge, port);
            if !self.reports.changed.contains(&key) {
                self.reports.changed.push(key);
            }
        }
        if !output.flush.is_empty() {
            self.reports.flushes.entry(bridge).or_default().append(output.flush);
        }
        let (protocol, name) = (entry.tree.protocol(), entry.tree.name());
        lines.extend(output.events.into_iter().map(|event| (protocol, name.to_owned(), event)));
        reports
    }
}

impl Entry {
    /// The frames of ports that the translation knows; other frames wait until their port is published.
    fn take_frames(&mut self, bridge: BridgeId, published: &Published) -> Vec<(PortKey, Vec<u8>)> {
        let known = |port: OfPort| {
            let port = published.snapshot.bridge(bridge).and_then(|b| b.port(port));
            port.is_some_and(|p| p.tree.is_some())
        };
        let tree = &self.tree;
        self.frames.retain(|(port, _)| tree.state(*port).is_some());
        let frames = self.frames.extract_if(.., |(port, _)| known(*port));
        frames.map(|(port, frame)| ((bridge, port), frame)).collect()
    }
}

impl Trees {
    /// No trees.
    pub fn new(shared: &Arc<SharedState>, wakeup: &Arc<Wakeup>) -> Trees {
        Trees { state: ProtocolState::new(Inner::default(), shared, wakeup) }
    }

    /// Whether there are no trees.
    pub fn is_empty(&self) -> bool {
        self.state.is_empty()
    }

    /// Creates or reconfigures the tree of a bridge.
    pub fn configure(
        &self,
        bridge: BridgeId,
        name: &str,
        settings: &Settings,
        ports: &[PortSetup],
        now: Millis,
    ) {
        self.change(|inner, lines| {
            if inner.all.get(&bridge).is_some_and(|e| e.tree.protocol() != settings.protocol()) {
                inner.all.remove(&bridge);
            }
            let new =
                || Entry { tree: Tree::new(name, settings, now), frames: Vec::new(), status: Pairs::new() };
            inner.all.entry(bridge).or_insert_with(new).tree.configure(settings, ports, now);
            self.state.set_len(inner.all.len());
            inner.absorb(bridge, lines)
        });
    }

    /// Removes the tree of a bridge. Returns whether there was one.
    pub fn forget(&self, bridge: BridgeId) -> bool {
        if self.is_empty() {
            return false;
        }
        self.state.with(|inner| {
            let found = inner.all.remove(&bridge).is_some();
            inner.reports.changed.retain(|(b, _)| *b != bridge);
            inner.reports.flushes.remove(&bridge);
            self.state.set_len(inner.all.len());
            found
        })
    }

    /// Sets the state of a port's device.
    pub fn set_link(&self, at: PortKey, link: Link, now: Millis) {
        self.change_tree(at.0, |tree| tree.set_link(at.1, link, now));
    }

    /// Handles a received frame with a BPDU.
    pub fn receive(&self, at: PortKey, frame: &[u8], now: Millis) {
        self.change_tree(at.0, |tree| tree.receive(at.1, frame, now));
    }

    /// Confirms that the datapath does not forward packets of a port any more.
    pub fn confirm(&self, at: PortKey, now: Millis) {
        self.change_tree(at.0, |tree| tree.confirm(at.1, now));
    }

    /// Acts as if the topology of a bridge had changed, or of all bridges that use the protocol. Returns false if there is no
    /// such bridge.
    pub fn change_topology(&self, protocol: Protocol, name: Option<&str>, now: Millis) -> bool {
        let meant = self.named(protocol, name);
        meant.iter().for_each(|bridge| {
            self.change_tree(*bridge, |tree| tree.change_topology(now));
        });
        !meant.is_empty()
    }

    /// The text of `stp/show` or `rstp/show` for the bridge of that name, or for all, each with its name.
    pub fn show(&self, protocol: Protocol, name: Option<&str>) -> Vec<(String, String)> {
        let meant = self.named(protocol, name);
        self.state.with(|inner| {
            let trees = meant.iter().filter_map(|bridge| inner.all.get(bridge));
            trees.map(|e| (e.tree.name().to_owned(), e.tree.show())).collect()
        })
    }

    fn named(&self, protocol: Protocol, name: Option<&str>) -> Vec<BridgeId> {
        self.state.with(|inner| {
            let is_meant =
                |e: &Entry| e.tree.protocol() == protocol && name.is_none_or(|n| e.tree.name() == n);
            inner.all.iter().filter(|(_, e)| is_meant(e)).map(|(bridge, _)| *bridge).collect()
        })
    }

    /// The state of a port; `None` if the port takes no part.
    pub fn state_of(&self, at: PortKey) -> Option<PortTree> {
        self.state.with(|inner| inner.all.get(&at.0)?.tree.state(at.1))
    }

    /// The protocol of a bridge, and its column `status` or `rstp_status`.
    pub fn status(&self, bridge: BridgeId) -> Option<(Protocol, Pairs<String>)> {
        if self.is_empty() {
            return None;
        }
        self.state.with(|inner| {
            let tree = &inner.all.get(&bridge)?.tree;
            Some((tree.protocol(), tree.status()))
        })
    }

    /// The columns of a port: status and statistics.
    pub fn port_status(&self, at: PortKey, now: Millis) -> Option<(Pairs<String>, Pairs<i64>)> {
        self.state.with(|inner| inner.all.get(&at.0)?.tree.port_status(at.1, now))
    }

    /// When the next timer is due.
    pub fn deadline(&self) -> Option<Millis> {
        if self.is_empty() {
            return None;
        }
        self.state.with(|inner| inner.all.values().filter_map(|e| e.tree.deadline()).min())
    }

    /// Runs the timers; returns the frames to send and their ports.
    pub fn take_due(&self, published: &Published, now: Millis) -> Vec<(PortKey, Vec<u8>)> {
        if self.is_empty() {
            return Vec::new();
        }
        let (mut frames, mut lines, mut any) = (Vec::new(), Lines::new(), false);
        self.state.with(|inner| {
            let bridges: Vec<BridgeId> = inner.all.keys().copied().collect();
            for bridge in bridges {
                let Some(entry) = inner.all.get_mut(&bridge) else { continue };
                if entry.tree.deadline().is_some_and(|at| at <= now) {
                    entry.tree.run(now);
                    let status = entry.tree.status();
                    any |= std::mem::replace(&mut entry.status, status) != entry.status;
                    any |= inner.absorb(bridge, &mut lines);
                }
                if let Some(entry) = inner.all.get_mut(&bridge) {
                    frames.extend(entry.take_frames(bridge, published));
                }
            }
        });
        self.announce(any, lines);
        frames
    }

    /// To be called after a publication: ports may have become known to the translation.
    pub fn published(&self) {
        if !self.is_empty() && self.state.with(|inner| inner.all.values().any(|e| !e.frames.is_empty())) {
            self.state.wake_timers();
        }
    }

    /// Takes what has changed since the last call; `None`: nothing.
    pub fn take_reports(&self) -> Option<Reports> {
        self.state.take_announced().then(|| self.state.with(|inner| std::mem::take(&mut inner.reports)))
    }

    fn change_tree(&self, bridge: BridgeId, work: impl FnOnce(&mut Tree)) {
        self.change(|inner, lines| {
            let Some(entry) = inner.all.get_mut(&bridge) else { return false };
            work(&mut entry.tree);
            inner.absorb(bridge, lines)
        });
    }

    /// Applies `work`, which returns whether there is something to report, then wakes those who wait for its results.
    fn change(&self, work: impl FnOnce(&mut Inner, &mut Lines) -> bool) {
        let mut lines = Lines::new();
        let any = self.state.with(|inner| work(inner, &mut lines));
        self.announce(any, lines);
        self.state.wake_timers();
    }

    fn announce(&self, any: bool, lines: Lines) {
        if any {
            self.state.announce_reports();
        }
        for (protocol, name, event) in lines {
            let module = match protocol {
                Protocol::Stp => &STP,
                Protocol::Rstp => &RSTP,
            };
            module.log_limited(&LIMIT, log_level(event.level()), format_args!("{name}{event}"));
        }
    }
}
