//! Carrying out the plan that brings the running switch to what the database wants.
//!
//! Each step can fail alone: the reason goes to the log and to the row, and nothing else is touched. A device that could
//! not be made is tried again whenever its row changes or its device appears.

use crate::add_interface;
use crate::bridge::Bridge;
use crate::changes::Changes;
use crate::configure_bridge;
use crate::connections;
use crate::limits;
use crate::switch::Switch;
use config::settings::root::FLOW_RESTORE_WAIT;
use config::{DatapathConfig, Desired, Step, plan};
use openflow::port::PortReason;
use runtime::Module;
use std::sync::Arc;
use units::OfPort;
use xlate::BridgeId;

pub(crate) static LOG: Module = Module::new("bridge");

impl Switch {
    /// Brings the switch to what the database wants now. `true`: DPDK has come up.
    pub fn reconfigure(&mut self) -> bool {
        // What is tried for a bundle holds only while nothing else changes.
        self.bridges.keys().cloned().collect::<Vec<_>>().iter().for_each(|name| self.go_on(name, true));
        let desired = Desired::read(&self.db.replica);
        let steps = plan(&self.applied, &desired);
        self.configure_identity(&desired);
        if !self.greeted {
            runtime::info!(LOG, "{}", runtime::version_text(&self.options.progname));
            self.greeted = true;
        }
        self.tell_settings();
        let restored = self.restoring && !FLOW_RESTORE_WAIT.flag_of(&desired.other_config);
        self.restoring &= !restored;
        // Before any port or datapath: what they are made of depends on it.
        let came_up = self.start_dpdk(&desired);
        if !steps.is_empty() {
            // Learning tables are changed on the way, long before all of it is published.
            self.backers.values().for_each(|b| b.control.note_live(Changes::everything()));
        }
        let wanted = &desired;
        let leaves = |step: &&Step| matches!(step, Step::RemoveInterface { .. } | Step::RemoveBridge { .. });
        steps.iter().filter(leaves).for_each(|step| self.carry_out(step, wanted));
        if !steps.is_empty() {
            self.renumber(wanted);
        }
        for step in steps.iter().filter(|s| !leaves(s)) {
            self.carry_out(step, wanted);
        }
        if restored {
            self.begin_to_forward();
        }
        self.drop_unused_datapaths();
        for (kind, backer) in &mut self.backers {
            connections::configure(backer, desired.datapaths.get(kind).unwrap_or(&DatapathConfig::default()));
        }
        if desired.other_config != self.applied.other_config {
            self.configure_limits(&desired);
        }
        let bundle_idle = limits::bundle_idle(&desired);
        self.bridges.values_mut().for_each(|b| b.conns.set_bundle_idle(bundle_idle));
        if !steps.is_empty() {
            for (bridge, name) in std::mem::take(&mut self.taken) {
                add_interface::change(self, wanted, &bridge, &name);
            }
            for bridge in self.bridges.values_mut() {
                configure_bridge::pick_addresses(bridge);
                crate::mtu::follow(bridge);
            }
            self.tell_bfd_addresses();
            self.mark_all_dirty();
        }
        self.applied = desired;
        if came_up {
            self.retry_failed();
        }
        came_up
    }

    /// Ports whose requested number became free, or is held by a port that did not ask for it, get it. Two that ask for
    /// the same number cannot both have it: the one that has it keeps it. A port that is new takes no number from another
    /// before the next change.
    fn renumber(&mut self, desired: &Desired) {
        let requests = |bridge: &Bridge| -> Vec<(String, OfPort)> {
            let rows = desired.bridges.get(&bridge.name).into_iter().flat_map(|b| b.ports.values());
            rows.flat_map(|p| &p.interfaces)
                .filter(|i| i.name != bridge.name)
                .filter_map(|i| Some((i.name.clone(), OfPort(i.ofport_request?))))
                .collect()
        };
        let mut moves = Vec::new();
        for bridge in self.bridges.values() {
            let requests = requests(bridge);
            for (name, wanted) in &requests {
                let Some(port) = bridge.port_named(name).filter(|p| p.ofport != *wanted) else { continue };
                let holder = bridge.ports.get(wanted).map(|p| p.name.as_str());
                let asked = |h: &str| requests.iter().any(|(n, w)| n == h && w == wanted);
                if !holder.is_some_and(asked) && wanted.is_ordinary() {
                    moves.push((bridge.name.clone(), port.name.clone(), holder.map(str::to_owned)));
                }
            }
        }
        for (bridge, name, holder) in moves {
            let names: Vec<String> = [Some(name), holder].into_iter().flatten().collect();
            names.iter().for_each(|name| self.remove_interface(&bridge, name));
            names.iter().for_each(|name| add_interface::add(self, desired, &bridge, name));
        }
    }

    /// Flows have been restored.
    fn begin_to_forward(&mut self) {
        for backer in self.backers.values() {
            backer.datapath.set_handler(Arc::clone(&backer.handler) as Arc<dyn dpif::UpcallHandler>);
        }
        let now = self.clock.now();
        for bridge in self.bridges.values_mut() {
            configure_bridge::connect(bridge, &self.options, false, now);
        }
    }

    /// A datapath lives as long as a bridge of its type.
    fn drop_unused_datapaths(&mut self) {
        let bridges = &self.bridges;
        self.backers.retain(|kind, _| bridges.values().any(|b| b.config.datapath_type == *kind));
    }

    /// Everything has to be published again.
    pub fn mark_all_dirty(&mut self) {
        self.backers.values_mut().for_each(|b| b.changed());
    }

    fn carry_out(&mut self, step: &Step, desired: &Desired) {
        match step {
            Step::RemoveInterface { bridge, name } => self.remove_interface(bridge, name),
            Step::RemoveBridge { bridge } => {
                if let Some(gone) = self.bridges.remove(bridge) {
                    let backer = self.backers.get(&gone.config.datapath_type);
                    backer.iter().for_each(|backer| crate::bfd::forget_all(backer, &gone));
                    runtime::info!(LOG, "bridge {bridge}: deleted bridge {}", gone.name);
                }
            }
            Step::AddBridge { bridge } => self.add_bridge(bridge, desired),
            Step::AddInterface { bridge, name } => add_interface::add(self, desired, bridge, name),
            Step::ChangeInterface { bridge, name } => add_interface::change(self, desired, bridge, name),
            Step::ConfigureBridge { bridge } => {
                if let (Some(running), Some(config)) =
                    (self.bridges.get_mut(bridge), desired.bridges.get(bridge))
                {
                    let now = self.clock.now();
                    configure_bridge::configure(running, config, &self.options, self.restoring, now);
                }
            }
        }
    }

    fn add_bridge(&mut self, name: &str, desired: &Desired) {
        let Some(config) = desired.bridges.get(name) else { return };
        // It names sockets and files.
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
        let conns = configure_bridge::connections(name, &self.options);
        let mut bridge = Bridge::new(id, config.clone(), conns, now, self.options.seed);
        bridge.config.datapath_type = kind.to_owned();
        // Numbers that its ports had before a restart are for those ports: no other takes one while it is not asked for.
        let rows = config.ports.values().flat_map(|p| &p.interfaces);
        let held = rows.filter_map(|i| desired.ofports.get(&i.uuid));
        held.for_each(|number| bridge.retire_ofport(*number, now));
        if let Some(backer) = self.backers.get(kind) {
            bridge.ofproto.set_meters(Arc::clone(&backer.datapath) as Arc<dyn dpif::Meters>);
        }
        self.bridges.insert(name.to_owned(), bridge);
    }

    /// Takes a device out of its bridge and closes it.
    pub(crate) fn remove_interface(&mut self, bridge: &str, name: &str) {
        let now = self.clock.now();
        let Some(running) = self.bridges.get_mut(bridge) else { return };
        running.failed.remove(name);
        let Some(ofport) = running.port_named(name).map(|p| p.ofport) else { return };
        let message = running.ports.get(&ofport).map(crate::openflow::port_message);
        let Some(port) = running.ports.remove(&ofport) else { return };
        running.retire_ofport(ofport, now);
        let bundle = running.bundle_id(&port.port_row);
        let mut stations = Vec::new();
        if !running.ports.values().any(|p| p.port_row == port.port_row) {
            stations = running.macs.lock().flush_port(bundle);
        }
        if let Some(message) = message {
            running.conns.send_port_status(PortReason::Delete, &message, None, None);
        }
        if let Some(backer) = self.backers.get_mut(&running.config.datapath_type) {
            backer.patches.forget(running.id, ofport);
            crate::bfd::forget(backer, (running.id, ofport));
            match (port.number(), port.tunnel()) {
                (Some(number), Some(_)) => backer.leave_tunnel(number),
                (Some(number), None) => backer.remove_port(number),
                (None, _) => {}
            }
            backer.changed();
        }
        // A machine that moves to another host leaves its addresses behind in all bridges that it was seen through.
        for other in self.bridges.values() {
            // It may be a bridge of another datapath, whose megaflows have to hear of it, too.
            let Some(backer) = self.backers.get(&other.config.datapath_type) else { continue };
            other.macs.change(&backer.control, |table| {
                stations.iter().for_each(|(vlan, mac)| table.forget(*vlan, *mac));
            });
        }
        runtime::info!(LOG, "bridge {bridge}: deleted interface {name} on port {}", ofport.0);
    }
}
