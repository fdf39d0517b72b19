//! Applies rows and devices to BFD sessions, and reports of sessions to ports. **Thread**: the main loop.

use super::settings;
use crate::backer::Backer;
use crate::switch::Switch;
use config::InterfaceConfig;
use openflow::port::PortReason;
use openflow_service::Bridge;
use openflow_service::PortBfd;
use openflow_service::port_message;
use openflow_service::{Backing, BridgePort};
use runtime::Module;
use std::collections::BTreeMap;
use translation::PatchCounters;
use translation::bfd::sessions::{PortKey, Report};
use units::Millis;
use xlate::BridgeId;

static LOG: Module = Module::new("bfd");

/// Interval at which sessions get the number of received packets, if they need it.
const COUNT_INTERVAL: Millis = Millis(100);

/// Creates, changes or removes the session of an existing interface as its row says.
pub(crate) fn configure(switch: &mut Switch, bridge: &str, interface: &InterfaceConfig) {
    let now = switch.clock.now();
    let Some(running) = switch.bridges.get_mut(bridge) else { return };
    let Some(backer) = switch.datapaths.of_bridge(running) else { return };
    let id = running.id;
    let Some(port) = running.port_named_mut(&interface.name) else { return };
    let (at, old) = ((id, port.ofport), port_message(port));
    match settings::read(&interface.bfd) {
        None => {
            backer.handler.bfd.forget(at);
            port.bfd = None;
        }
        Some((settings, wrong)) => {
            wrong.iter().for_each(|text| runtime::err!(LOG, "{}: {text}", interface.name));
            let (filter, facts) = (settings.filter, (port.hw_addr(), received(port, id, &backer.patches)));
            backer.handler.bfd.configure(at, &interface.name, settings, facts, now);
            match &mut port.bfd {
                Some(known) => known.filter = filter,
                // The session's first report arrives before anything else happens.
                None => port.bfd = Some(PortBfd { filter, forwarding: false, status: BTreeMap::new() }),
            }
        }
    }
    // If controllers have not been told of the port yet, they get its full state then.
    if port.told.is_none() {
        let new = port_message(port);
        running.conns.send_port_status(PortReason::Modify, &new, Some(&old), None);
    }
}

/// Removes the session of a port.
pub(crate) fn forget(backer: &Backer, at: PortKey) {
    backer.handler.bfd.forget(at);
}

/// Packets that the port has received.
fn received(port: &mut BridgePort, bridge: BridgeId, patches: &PatchCounters) -> u64 {
    match &mut port.backing {
        Backing::Device { netdev, .. } => netdev.stats().ok().and_then(|s| s.rx_packets).unwrap_or_default(),
        Backing::Patch { .. } | Backing::Tunnel { .. } => patches.get(bridge, port.ofport).rx_packets,
    }
}

impl Switch {
    /// Updates counts of received packets, runs the sessions' timers if no thread does, and applies their reports.
    /// Returns whether anything happened.
    pub(crate) fn run_bfd(&mut self) -> bool {
        let now = self.clock.now();
        let mut any = false;
        self.count_for_bfd(now);
        let kinds: Vec<String> = self.datapaths.kinds();
        for kind in kinds {
            let Some(backer) = self.datapaths.of_mut(&kind) else { continue };
            any |= backer.timers.run(now);
            for (at, report) in backer.handler.bfd.take_changed_reports(now) {
                any = true;
                self.apply_report(&kind, at, report);
            }
        }
        any
    }

    fn count_for_bfd(&mut self, now: Millis) {
        if !self.options.dummy_mode() && now.since(self.last.counts) < COUNT_INTERVAL {
            return;
        }
        self.last.counts = now;
        for backer in self.datapaths.of_bridges().filter(|b| !b.handler.bfd.is_empty()) {
            for at in backer.handler.bfd.counting() {
                let bridge = self.bridges.values_mut().find(|b| b.id == at.0);
                let port = bridge.and_then(|b| b.ports.to_ask(&at.1));
                let Some(port) = port else { continue };
                let packets = received(port, at.0, &backer.patches);
                backer.handler.bfd.count_traffic(at, packets, now);
            }
        }
    }

    fn apply_report(&mut self, kind: &str, at: PortKey, report: Report) {
        let Some(bridge) = self.bridges.values_mut().find(|b| b.id == at.0) else { return };
        let Some(known) = bridge.ports.get(&at.1).and_then(|port| port.bfd.as_ref()) else { return };
        let is_new = known.forwarding != report.forwarding;
        self.status.due = true;
        bridge.change_port(at.1, |port| {
            if let Some(bfd) = &mut port.bfd {
                (bfd.status, bfd.forwarding) = (report.status, report.forwarding);
            }
        });
        if is_new && let Some(backer) = self.datapaths.of_mut(kind) {
            backer.changed();
        }
    }

    /// Updates sessions with the MAC addresses of their ports.
    pub(crate) fn update_bfd_addresses(&self) {
        let now = self.clock.now();
        for bridge in self.bridges.values() {
            let backer = self.datapaths.of_bridge(bridge);
            let Some(backer) = backer.filter(|b| !b.handler.bfd.is_empty()) else { continue };
            let ports = bridge.ports.values().filter(|p| p.bfd.is_some());
            ports.for_each(|p| backer.handler.bfd.set_mac((bridge.id, p.ofport), p.hw_addr(), now));
        }
    }

    /// When the main loop has to update counts next.
    pub(crate) fn bfd_deadlines(&self) -> impl Iterator<Item = Millis> + '_ {
        let counting = |b: &&Backer| !b.handler.bfd.is_empty() && !b.handler.bfd.counting().is_empty();
        self.datapaths.of_bridges().filter(counting).map(|_| self.last.counts + COUNT_INTERVAL)
    }
}

/// Removes the sessions of a bridge that is removed.
pub(crate) fn forget_all(backer: &Backer, bridge: &Bridge) {
    bridge.ports.keys().for_each(|ofport| forget(backer, (bridge.id, *ofport)));
}
