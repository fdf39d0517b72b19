//! Carries out the steps of a configuration plan.
//!
//! Each step can fail independently: the reason goes to the log and to the row, and other steps are not affected. A
//! device that could not be created is tried again whenever its row changes, another interface is removed or changed, or a
//! device of its name appears.

use crate::add_interface;
use crate::configure_bridge;
use crate::log::LOG;
use crate::switch::Switch;
use config::{Desired, Step};
use openflow::port::PortReason;
use openflow_service::Bridge;
use std::sync::Arc;
use units::{OfPort, PortNo};
use xlate::BridgeId;

impl Switch {
    /// Changes OpenFlow port numbers to the requested ones, if a requested number is free or held by a port that did
    /// not request it. If two ports request the same number, the present holder keeps it. A new port takes the number
    /// of another port only at the next change of the configuration.
    pub(crate) fn renumber(&mut self, steps: &[Step], desired: &Desired) {
        for step in steps {
            if let Step::ChangeInterface { bridge, name } = step
                && let Some(bridge) = self.bridges.get_mut(bridge)
            {
                bridge.all_ports.renumber_candidates.insert(name.clone());
            }
        }
        let mut moves = Vec::new();
        for bridge in self.bridges.values_mut().filter(|b| !b.all_ports.renumber_candidates.is_empty()) {
            let config = desired.bridges.get(&bridge.name);
            let asks = |name: &str| {
                let interface = config.filter(|config| config.name != name)?.interface(name)?.1;
                interface.ofport_request.map(OfPort)
            };
            let names = std::mem::take(&mut bridge.all_ports.renumber_candidates);
            for (name, wanted) in
                names.into_iter().filter_map(|name| asks(&name).map(|wanted| (name, wanted)))
            {
                if bridge.port_named(&name).is_none_or(|p| p.ofport == wanted) {
                    continue;
                }
                let holder = bridge.ports.get(&wanted).map(|p| p.name.clone());
                if holder.as_ref().is_none_or(|h| asks(h) != Some(wanted)) && wanted.is_ordinary() {
                    moves.push((bridge.name.clone(), name.clone(), holder));
                }
                bridge.all_ports.renumber_candidates.insert(name);
            }
        }
        for (bridge, name, holder) in moves {
            let names: Vec<String> = [Some(name), holder].into_iter().flatten().collect();
            names.iter().for_each(|name| self.remove_interface(&bridge, name));
            names.iter().for_each(|name| add_interface::add(self, desired, &bridge, name));
        }
    }

    /// Changes the datapath number of a port of a dummy datapath, as the kernel's datapath may do. The OpenFlow port
    /// number stays the same. The new number must be free.
    pub fn change_dummy_number(&mut self, bridge: &str, name: &str, number: PortNo) {
        let desired = self.applied.clone();
        let row = desired.bridges.get(bridge).and_then(|config| config.interface(name)).map(|(row, _)| row);
        let Some(running) = self.bridges.get(bridge) else { return };
        if let Some(backer) = self.datapaths.of_bridge_mut(running) {
            backer.port_numbers.request(name, number);
        }
        self.remove_interface(bridge, name);
        add_interface::add(self, &desired, bridge, name);
        let ports = row.into_iter().map(|row| row.name.clone()).collect();
        self.carry_out(&Step::ConfigureBridge { bridge: bridge.to_owned(), ports }, &desired);
        self.apply_port_changes(&desired);
    }

    pub(crate) fn carry_out(&mut self, step: &Step, desired: &Desired) {
        match step {
            Step::RemoveInterface { bridge, name } => self.remove_interface(bridge, name),
            Step::RemoveBridge { bridge } => {
                if let Some(gone) = self.bridges.remove(bridge) {
                    let backer = self.datapaths.of_bridge(&gone);
                    backer.iter().for_each(|backer| crate::port_sessions::forget_all(backer, &gone));
                    backer.iter().for_each(|backer| crate::spanning_tree::forget(backer, &gone));
                    runtime::info!(LOG, "bridge {bridge}: deleted bridge {}", gone.name);
                    self.flush_neighbours(Some(bridge));
                }
            }
            Step::AddBridge { bridge } => self.add_bridge(bridge, desired),
            Step::AddInterface { bridge, name } => add_interface::add(self, desired, bridge, name),
            Step::ChangeInterface { bridge, name } => add_interface::change(self, desired, bridge, name),
            Step::ConfigureBridge { bridge, ports } => {
                if let (Some(running), Some(config)) =
                    (self.bridges.get_mut(bridge), desired.bridges.get(bridge))
                {
                    let now = self.clock.now();
                    let config = (config, ports.as_slice());
                    configure_bridge::configure(running, config, &self.options, self.start.restoring, now);
                }
                self.configure_lldp(bridge, ports);
            }
        }
    }

    fn add_bridge(&mut self, name: &str, desired: &Desired) {
        let Some(config) = desired.bridges.get(name) else { return };
        // The name becomes a part of file names and socket paths.
        if name.contains(['/', '\\']) {
            runtime::warn!(LOG, "ignoring bridge with invalid name \"{name}\"");
            return;
        }
        let Some(kind) = self.options.datapath_type(&config.datapath_type) else {
            let text = format!("{}: unknown datapath type", config.datapath_type);
            runtime::err!(LOG, "failed to create bridge {name}: {text}");
            return;
        };
        if let Err(e) = self.backer(kind) {
            runtime::err!(LOG, "failed to create bridge {name}: {}", runtime::error_text(&e));
            return;
        }
        let id = BridgeId(self.next_bridge);
        self.next_bridge += 1;
        let now = self.clock.now();
        let conns = configure_bridge::new_connections(name, self.openflow.as_ref());
        let mut bridge = Bridge::new(id, config.clone(), conns, now, self.options.seed);
        bridge.config.datapath_type = kind.to_owned();
        // After a restart the rows still have the previous port numbers. Hold each back for its interface: for an hour another
        // interface gets the number only on request, or if no other is free.
        let rows = config.ports.values().flat_map(|p| &p.interfaces);
        let held = rows.filter_map(|i| desired.ofports.get(&i.uuid));
        held.for_each(|number| bridge.hold_back_ofport(*number, now));
        if let Some(backer) = self.datapaths.of(kind) {
            bridge.ofproto.set_meters(Arc::clone(&backer.datapath) as Arc<dyn dpif::Meters>);
        }
        self.bridges.insert(name.to_owned(), bridge);
    }

    /// Removes an interface from its bridge and closes its device.
    pub fn remove_interface(&mut self, bridge: &str, name: &str) {
        let now = self.clock.now();
        let Some(running) = self.bridges.get_mut(bridge) else { return };
        running.failed.remove(name);
        let Some(ofport) = running.port_named(name).map(|p| p.ofport) else { return };
        let message = running.ports.get(&ofport).map(openflow_service::port_description);
        let Some(port) = running.ports.remove(&ofport) else { return };
        running.hold_back_ofport(ofport, now);
        let bundle = running.bundle_id(&port.port_row);
        let mut stations = Vec::new();
        let row = running.config.ports.get(&port.port_row);
        let mut members = row.into_iter().flat_map(|row| &row.interfaces);
        let is_there = |name: &str| running.port_named(name).is_some_and(|p| p.port_row == port.port_row);
        if !members.any(|interface| is_there(&interface.name)) {
            stations = running.macs.lock().flush_port(bundle);
            running.multicast_groups.lock().flush_port(bundle);
        }
        running.all_ports.removed.record(name, ofport, &stations, now);
        if let Some(message) = message {
            running.conns.send_port_status(PortReason::Delete, &message, None, None);
        }
        if let Some(backer) = self.datapaths.of_bridge_mut(running) {
            backer.patch_tunnel_counters.forget(running.id, ofport);
            crate::port_sessions::forget(backer, (running.id, ofport));
            backer.remove_backing(&port.name, &port.backing);
            backer.mark_all_changed();
        }
        // The addresses behind the removed port are removed from all bridges that learned them: the virtual machine may
        // have moved to another host.
        for other in self.bridges.values().filter(|_| !stations.is_empty()) {
            // The bridge may belong to another datapath, whose megaflows must be revalidated, too.
            let Some(backer) = self.datapaths.of_bridge(other) else { continue };
            other.macs.change(&backer.shared.live, |table| {
                stations.iter().for_each(|(vlan, mac)| table.forget(*vlan, *mac));
            });
        }
        runtime::info!(LOG, "bridge {bridge}: deleted interface {name} on port {}", ofport.0);
        self.flush_neighbours(Some(name));
    }
}
