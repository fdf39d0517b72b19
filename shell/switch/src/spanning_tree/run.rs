//! Passes the configuration and the states of devices to spanning trees, and applies the results of the trees to ports.
//! **Thread**: the main loop.

use super::settings;
use super::stopping::Stopped;
use crate::backer::Backer;
use crate::switch::Switch;
use bridge::spanning_tree::{Flush, PortState, PortTreeState, Protocol};
use bridge::{BundleId, GroupTable};
use openflow_service::Bridge;
use runtime::Module;
use std::collections::BTreeMap;
use translation::Changes;
use units::{Millis, OfPort};
use xlate::DependencyChange;

static LOG: Module = Module::new("ofproto_dpif");

impl Switch {
    /// Configures spanning trees after rows or ports changed.
    pub(crate) fn configure_trees(&mut self) {
        let now = self.clock.now();
        for bridge in self.bridges.values_mut() {
            let Some(backer) = self.datapaths.of_bridge_mut(bridge) else { continue };
            let Some(settings) = settings::of_bridge(bridge) else {
                if backer.upcall_translator.trees.forget(bridge.id) {
                    clear_states(bridge);
                    backer.mark_all_changed();
                }
                continue;
            };
            let protocol = settings.protocol();
            let is_other = |tree: &PortTreeState| tree.protocol != protocol;
            if bridge.ports.values().filter_map(|p| p.tree.as_ref()).any(is_other) {
                clear_states(bridge);
            }
            let ports = settings::of_ports(bridge, protocol);
            backer.upcall_translator.trees.configure(bridge.id, &bridge.name, &settings, &ports, now);
        }
        self.run_trees();
    }

    /// Passes states of devices to spanning trees, and applies the reports of the trees. Returns whether anything
    /// changed.
    pub(crate) fn run_trees(&mut self) -> bool {
        let now = self.clock.now();
        let mut any = false;
        for bridge in self.bridges.values_mut() {
            let touched = bridge.ports.take_for_tree();
            let Some(protocol) = bridge.config.spanning_tree.protocol() else { continue };
            let Some(backer) = self.datapaths.of_bridge(bridge) else { continue };
            for ofport in touched {
                let Some(port) = bridge.ports.get(&ofport).filter(|p| p.tree.is_some()) else { continue };
                backer.upcall_translator.trees.set_link(
                    (bridge.id, ofport),
                    settings::link(port, protocol),
                    now,
                );
            }
        }
        for backer in self.datapaths.with_bridges_mut() {
            any |= confirm_stopped(backer, &self.bridges, now);
            let Some(reports) = backer.upcall_translator.trees.take_reports() else { continue };
            any = true;
            for (id, flush) in reports.flushes {
                let Some(bridge) = self.bridges.values().find(|b| b.id == id) else { continue };
                remove_addresses(backer, bridge, &flush);
                remove_groups(backer, bridge, &flush);
                let again = Flush { moved: Vec::new(), ..flush };
                backer.snapshot_builder.stopping.flush_again(id, again);
            }
            for at in reports.changed {
                let Some(bridge) = self.bridges.values_mut().find(|b| b.id == at.0) else { continue };
                apply_state(backer, bridge, at.1);
            }
        }
        self.status.due |= any;
        any
    }
}

/// Confirms to the spanning trees that ports have stopped, if no megaflow of the old port states is left. Returns
/// whether a port was confirmed.
fn confirm_stopped(backer: &mut Backer, bridges: &BTreeMap<String, Bridge>, now: Millis) -> bool {
    let done: Vec<Stopped> =
        backer.snapshot_builder.stopping.take_done(|version| backer.revalidator.is_done(version));
    for stopped in &done {
        for (id, flush) in &stopped.flushes {
            if let Some(bridge) = bridges.values().find(|b| b.id == *id) {
                remove_addresses(backer, bridge, flush);
                // Only the groups of blocked ports are removed: groups that forwarding ports learned meanwhile are
                // valid.
                let blocked = Flush { ports: flush.ports.clone(), ..Flush::default() };
                remove_groups(backer, bridge, &blocked);
            }
        }
        stopped.ports.iter().for_each(|at| backer.upcall_translator.trees.confirm(*at, now));
    }
    !done.is_empty()
}

/// Removes the tree state of all ports of a bridge, so that all of them forward.
fn clear_states(bridge: &mut Bridge) {
    let ports: Vec<OfPort> = bridge.ports.values().filter(|p| p.tree.is_some()).map(|p| p.ofport).collect();
    for ofport in ports {
        set_state(bridge, ofport, None);
    }
}

/// Removes the spanning tree of a bridge that is removed.
pub(crate) fn forget(backer: &Backer, bridge: &Bridge) {
    backer.upcall_translator.trees.forget(bridge.id);
}

/// Removes learned addresses, because stations are reached through other ports after the tree changed.
fn remove_addresses(backer: &Backer, bridge: &Bridge, flush: &Flush) {
    let bundle = |port: &OfPort| bridge.known_bundle(&bridge.ports.get(port)?.port_row);
    let moved: Vec<(BundleId, BundleId)> =
        flush.moved.iter().filter_map(|(from, to)| Some((bundle(from)?, bundle(to)?))).collect();
    let kept: Vec<BundleId> = moved.iter().map(|(_, to)| *to).collect();
    let bundles: Vec<BundleId> =
        flush.ports.iter().filter_map(bundle).filter(|bundle| !kept.contains(bundle)).collect();
    bridge.macs.change_many(&backer.shared.live, bridge.id, |table| {
        moved.iter().for_each(|(from, to)| table.move_port(*from, *to));
        if flush.all {
            table.flush();
        } else if !bundles.is_empty() {
            table.flush_where(|e| !e.is_static() && bundles.contains(&e.port));
        }
    });
}

/// Removes learned multicast groups and routers.
fn remove_groups(backer: &Backer, bridge: &Bridge, flush: &Flush) {
    let bundle = |port: &OfPort| bridge.known_bundle(&bridge.ports.get(port)?.port_row);
    let moved = flush.moved.iter().map(|(from, _)| from);
    let gone: Vec<BundleId> = flush.ports.iter().chain(moved).filter_map(bundle).collect();
    bridge.multicast_groups.change(&backer.shared.live, bridge.id, |table| match flush.all {
        true => GroupTable::flush(table),
        false => gone.iter().for_each(|port| table.forget_port(*port)),
    });
}

/// Applies the port state that the tree reports.
fn apply_state(backer: &mut Backer, bridge: &mut Bridge, ofport: OfPort) {
    let at = (bridge.id, ofport);
    let new = backer.upcall_translator.trees.state_of(at);
    let Some(old) = bridge.ports.get(&ofport).map(|port| port.tree) else { return };
    let learns = |tree: Option<PortTreeState>| tree.is_none_or(|tree| tree.state.learns());
    if old == new && learns(new) {
        return;
    }
    set_state(bridge, ofport, new);
    // A port whose state is the same as before may have learned for a short time between two turns of the main
    // loop. The tree waits for the confirmation in this case, too.
    if !learns(new) && (learns(old) || old == new) {
        backer.snapshot_builder.stopping.note_stopped(at);
    }
    if old.is_some() == new.is_some() {
        let mut changes = Changes::default();
        changes.push(DependencyChange::PortState { bridge: at.0, port: at.1 });
        backer.changes.append(changes);
    } else {
        // Translations of this port did not depend on a port state before, so all megaflows are revalidated.
        backer.mark_all_changed();
    }
}

/// Sets the state of a port and logs it.
fn set_state(bridge: &mut Bridge, ofport: OfPort, new: Option<PortTreeState>) {
    let Some(port) = bridge.ports.get(&ofport) else { return };
    let old = port.tree;
    let protocol = new.or(old).map_or(Protocol::Stp, |tree| tree.protocol);
    let text =
        |tree: Option<PortTreeState>| tree.map_or(PortState::Disabled, |tree| tree.state).name(protocol);
    if text(old) != text(new) {
        let (name, what) = (&port.name, protocol.name());
        runtime::debug!(LOG, "port {name}: {what} state changed from {} to {}", text(old), text(new));
    }
    bridge.change_port(ofport, |port| port.tree = new);
}
