//! The spanning trees of a datapath's bridges.
//!
//! **Threads**: the threads that receive BPDUs, the timer thread, and the main thread. A lock is held for one operation,
//! which neither sends nor logs.

use crate::protocol_state::{PortKey, ProtocolState, log_level};
use crate::published::PublishedState;
use crate::shared_state::SharedState;
use crate::timers::wakeup::Wakeup;
use bridge::spanning_tree::{Event, Flush, Link, Pairs, PortSetup, PortTreeState, Protocol, Settings, Tree};
use runtime::{Module, RateLimit};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{Millis, OfPort};
use xlate::BridgeId;

static STP: Module = Module::new("stp");
static RSTP: Module = Module::new("rstp");
static LIMIT: RateLimit = RateLimit::new(1, 5);

/// Maximum number of BPDUs of a bridge that wait to be sent; the oldest are dropped. BPDUs wait until their port is published,
/// which may take long at the start of the switch while flows are being restored.
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
    /// The bridge's status column after the last timer.
    status: Pairs<String>,
}

/// Changes that the main thread has to carry out.
#[derive(Default)]
pub struct Reports {
    /// Ports whose state has changed, in the order of the changes.
    pub changed: Vec<PortKey>,
    /// Learned addresses to remove.
    pub flushes: BTreeMap<BridgeId, Flush>,
}

/// Events to log: the protocol, the name of the bridge, the event.
type Lines = Vec<(Protocol, String, Event)>;

impl Inner {
    /// Takes the output of a bridge's tree: frames to send, reports, and events to log. Returns whether there are new reports.
    fn collect_output(&mut self, bridge: BridgeId, lines: &mut Lines) -> bool {
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
    /// Takes the frames of ports that are in the published snapshot. Frames of other ports wait until their port is published.
    fn take_frames(&mut self, bridge: BridgeId, published: &PublishedState) -> Vec<(PortKey, Vec<u8>)> {
        let is_published = |port: OfPort| {
            let port = published.snapshot.bridge(bridge).and_then(|b| b.port(port));
            port.is_some_and(|p| p.tree.is_some())
        };
        let tree = &self.tree;
        self.frames.retain(|(port, _)| tree.state(*port).is_some());
        let frames = self.frames.extract_if(.., |(port, _)| is_published(*port));
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
            inner.collect_output(bridge, lines)
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

    /// Confirms that the datapath no longer forwards packets of a port: all affected megaflows have been revalidated.
    pub fn confirm(&self, at: PortKey, now: Millis) {
        self.change_tree(at.0, |tree| tree.confirm(at.1, now));
    }

    /// Acts as if the topology of the bridge with this name had changed, or of all bridges with this protocol. Returns false
    /// if there is no such bridge.
    pub fn change_topology(&self, protocol: Protocol, name: Option<&str>, now: Millis) -> bool {
        let selected = self.bridges_named(protocol, name);
        selected.iter().for_each(|bridge| {
            self.change_tree(*bridge, |tree| tree.change_topology(now));
        });
        !selected.is_empty()
    }

    /// Name and text of `stp/show` or `rstp/show` of the bridge with this name, or of all bridges with this protocol.
    pub fn show(&self, protocol: Protocol, name: Option<&str>) -> Vec<(String, String)> {
        let selected = self.bridges_named(protocol, name);
        self.state.with(|inner| {
            let trees = selected.iter().filter_map(|bridge| inner.all.get(bridge));
            trees.map(|e| (e.tree.name().to_owned(), e.tree.show())).collect()
        })
    }

    fn bridges_named(&self, protocol: Protocol, name: Option<&str>) -> Vec<BridgeId> {
        self.state.with(|inner| {
            let is_selected =
                |e: &Entry| e.tree.protocol() == protocol && name.is_none_or(|n| e.tree.name() == n);
            inner.all.iter().filter(|(_, e)| is_selected(e)).map(|(bridge, _)| *bridge).collect()
        })
    }

    /// The state of a port; `None` if the port takes no part in a spanning tree.
    pub fn state_of(&self, at: PortKey) -> Option<PortTreeState> {
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

    /// The status column and the statistics column of a port.
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
    pub fn take_due(&self, published: &PublishedState, now: Millis) -> Vec<(PortKey, Vec<u8>)> {
        if self.is_empty() {
            return Vec::new();
        }
        let (mut frames, mut lines, mut has_reports) = (Vec::new(), Lines::new(), false);
        self.state.with(|inner| {
            let bridges: Vec<BridgeId> = inner.all.keys().copied().collect();
            for bridge in bridges {
                let Some(entry) = inner.all.get_mut(&bridge) else { continue };
                if entry.tree.deadline().is_some_and(|at| at <= now) {
                    entry.tree.run(now);
                    let status = entry.tree.status();
                    has_reports |= std::mem::replace(&mut entry.status, status) != entry.status;
                    has_reports |= inner.collect_output(bridge, &mut lines);
                }
                if let Some(entry) = inner.all.get_mut(&bridge) {
                    frames.extend(entry.take_frames(bridge, published));
                }
            }
        });
        self.announce(has_reports, lines);
        frames
    }

    /// To be called after a publication: frames may have waited until their port was published.
    pub fn published(&self) {
        if !self.is_empty() && self.state.with(|inner| inner.all.values().any(|e| !e.frames.is_empty())) {
            self.state.wake_timers();
        }
    }

    /// Takes the changes since the last call; `None` if there are none.
    pub fn take_reports(&self) -> Option<Reports> {
        self.state.take_announced().then(|| self.state.with(|inner| std::mem::take(&mut inner.reports)))
    }

    fn change_tree(&self, bridge: BridgeId, work: impl FnOnce(&mut Tree)) {
        self.change(|inner, lines| {
            let Some(entry) = inner.all.get_mut(&bridge) else { return false };
            work(&mut entry.tree);
            inner.collect_output(bridge, lines)
        });
    }

    /// Applies `work`, which returns whether there are new reports. Then logs the events, and wakes the timer thread and, if
    /// there are new reports, the main thread.
    fn change(&self, work: impl FnOnce(&mut Inner, &mut Lines) -> bool) {
        let mut lines = Lines::new();
        let has_reports = self.state.with(|inner| work(inner, &mut lines));
        self.announce(has_reports, lines);
        self.state.wake_timers();
    }

    fn announce(&self, has_reports: bool, lines: Lines) {
        if has_reports {
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
