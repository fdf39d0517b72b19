//! Passes packet counts and addresses to BFD and CFM sessions, and applies the reports of the sessions to ports.
//! **Thread**: the main loop.

use super::configure::received;
use crate::backer::Backer;
use crate::switch::Switch;
use openflow_service::BridgePort;
use translation::PortKey;
use units::Millis;

/// Interval at which the numbers of received packets are passed to the sessions that need them.
const COUNT_INTERVAL: Millis = Millis(100);

/// Ports whose sessions need the number of received packets.
fn ports_to_count(backer: &Backer) -> Vec<PortKey> {
    let translator = &backer.upcall_translator;
    let of_bfd = if translator.bfd.ports.is_empty() { Vec::new() } else { translator.bfd.counting() };
    let of_cfm = if translator.cfm.ports.is_empty() { Vec::new() } else { translator.cfm.counting() };
    of_bfd.into_iter().chain(of_cfm).collect()
}

fn has_sessions(backer: &Backer) -> bool {
    let translator = &backer.upcall_translator;
    !translator.bfd.ports.is_empty() || !translator.cfm.ports.is_empty() || !translator.lldp.ports.is_empty()
}

impl Switch {
    /// Passes the counts of received packets to the sessions, runs the timers of protocols if there is no timer thread,
    /// and applies the sessions' reports. Returns whether anything changed.
    pub(crate) fn run_port_sessions(&mut self) -> bool {
        let now = self.clock.now();
        let mut any = false;
        self.count_for_sessions(now);
        let mut reports = Vec::new();
        for backer in self.datapaths.with_bridges_mut() {
            any |= backer.timers.run(now);
            let bfd = backer.upcall_translator.bfd.take_changed_reports(now);
            let cfm = backer.upcall_translator.cfm.take_changed_reports(now);
            if !bfd.is_empty() || !cfm.is_empty() {
                reports.push((backer.datapath_type.clone(), bfd, cfm));
            }
        }
        any |= !reports.is_empty();
        for (kind, bfd, cfm) in reports {
            for (at, report) in bfd {
                self.apply_report(&kind, at, |port| {
                    let Some(bfd) = &mut port.bfd else { return };
                    (bfd.status, bfd.forwarding) = (report.status, report.forwarding);
                });
            }
            for (at, report) in cfm {
                self.apply_report(&kind, at, |port| {
                    let Some(cfm) = &mut port.cfm else { return };
                    (cfm.status, cfm.forwarding) = (report.status, report.forwarding);
                });
            }
        }
        any
    }

    fn count_for_sessions(&mut self, now: Millis) {
        if !self.options.dummy_mode() && now.since(self.last.counts) < COUNT_INTERVAL {
            return;
        }
        self.last.counts = now;
        for backer in self.datapaths.with_bridges() {
            for at in ports_to_count(backer) {
                let bridge = self.bridges.values_mut().find(|b| b.id == at.0);
                let port = bridge.and_then(|b| b.ports.get_mut_unmarked(&at.1));
                let Some(port) = port else { continue };
                let packets = received(port, at.0, &backer.patch_tunnel_counters);
                backer.upcall_translator.bfd.count_traffic(at, packets, now);
                backer.upcall_translator.cfm.count_traffic(at, packets, now);
            }
        }
    }

    /// Applies the report of a session to its port.
    fn apply_report(&mut self, kind: &str, at: PortKey, apply: impl FnOnce(&mut BridgePort)) {
        let Some(bridge) = self.bridges.values_mut().find(|b| b.id == at.0) else { return };
        let Some(before) = bridge.ports.get(&at.1).map(BridgePort::sessions_allow) else { return };
        self.status.due = true;
        bridge.change_port(at.1, apply);
        let after = bridge.ports.get(&at.1).map(BridgePort::sessions_allow);
        if after != Some(before)
            && let Some(backer) = self.datapaths.of_mut(kind)
        {
            backer.mark_all_changed();
        }
    }

    /// Passes the current MAC addresses of ports to their sessions.
    pub(crate) fn update_session_addresses(&self) {
        let now = self.clock.now();
        for bridge in self.bridges.values() {
            let backer = self.datapaths.of_bridge(bridge);
            let Some(backer) = backer.filter(|b| has_sessions(b)) else { continue };
            let has_session = |p: &&BridgePort| p.bfd.is_some() || p.cfm.is_some() || p.lldp.is_some();
            for port in bridge.ports.values().filter(has_session) {
                let at = (bridge.id, port.ofport);
                backer.upcall_translator.bfd.set_mac(at, port.hw_addr(), now);
                backer.upcall_translator.cfm.set_mac(at, port.hw_addr(), now);
                backer.upcall_translator.lldp.set_mac(at, port.hw_addr(), now);
            }
        }
    }

    /// When the main loop must pass packet counts to the sessions next.
    pub(crate) fn session_deadlines(&self) -> impl Iterator<Item = Millis> + '_ {
        let counting = |b: &&Backer| !ports_to_count(b).is_empty();
        self.datapaths.with_bridges().filter(counting).map(|_| self.last.counts + COUNT_INTERVAL)
    }
}
