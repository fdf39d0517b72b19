//! Creates, changes and removes the BFD, CFM and LLDP sessions of ports from their rows. **Thread**: the main loop.

use super::{bfd_settings, cfm_settings};
use crate::backer::Backer;
use crate::switch::Switch;
use bridge::cfm::Status;
use config::InterfaceConfig;
use flow::Mac;
use openflow::port::PortReason;
use openflow_service::{Backing, Bridge, BridgePort, PortBfd, PortCfm, port_description};
use runtime::Module;
use std::collections::BTreeMap;
use translation::{PatchAndTunnelCounters, PortKey};
use units::Millis;
use xlate::BridgeId;

static BFD: Module = Module::new("bfd");
static CFM: Module = Module::new("cfm");

/// What a session must know about its port: the address of the port, and the number of packets it has received.
type MacAndRxPackets = (Mac, u64);

/// Creates, changes or removes the sessions of an interface that is a port, as its row requires.
pub(crate) fn configure(switch: &mut Switch, bridge: &str, interface: &InterfaceConfig) {
    let now = switch.clock.now();
    let Some(running) = switch.bridges.get_mut(bridge) else { return };
    let Some(backer) = switch.datapaths.of_bridge(running) else { return };
    let id = running.id;
    let Some(port) = running.port_named_mut(&interface.name) else { return };
    let (at, old) = ((id, port.ofport), port_description(port));
    let facts = (port.hw_addr(), received(port, id, &backer.patch_tunnel_counters));
    configure_bfd(backer, port, at, interface, facts, now);
    configure_cfm(backer, port, at, interface, facts, now);
    // If `reported_state` is set, a port status message about the new port follows anyway and contains this change.
    if port.reported_state.is_none() {
        let new = port_description(port);
        running.conns.send_port_status(PortReason::Modify, &new, Some(&old), None);
    }
}

fn configure_bfd(
    backer: &Backer,
    port: &mut BridgePort,
    at: PortKey,
    row: &InterfaceConfig,
    facts: MacAndRxPackets,
    now: Millis,
) {
    let Some((settings, wrong)) = bfd_settings::read(&row.bfd) else {
        backer.upcall_translator.bfd.ports.forget(at);
        port.bfd = None;
        return;
    };
    wrong.iter().for_each(|text| runtime::err!(BFD, "{}: {text}", row.name));
    let filter = settings.filter;
    backer.upcall_translator.bfd.configure(at, &row.name, settings, facts, now);
    match &mut port.bfd {
        Some(known) => known.filter = filter,
        // Not forwarding until the session's first report, which is applied in the same turn of the main loop.
        None => port.bfd = Some(PortBfd { filter, forwarding: false, status: BTreeMap::new() }),
    }
}

fn configure_cfm(
    backer: &Backer,
    port: &mut BridgePort,
    at: PortKey,
    row: &InterfaceConfig,
    facts: MacAndRxPackets,
    now: Millis,
) {
    let configured = cfm_settings::read(row).and_then(|settings| {
        let result = backer.upcall_translator.cfm.configure(at, &row.name, settings, facts, now);
        result.map_err(|wrong| runtime::warn!(CFM, "{}: {wrong}; there is no CFM on the port", row.name)).ok()
    });
    match (configured, &mut port.cfm) {
        (Some(filter), Some(known)) => known.filter = filter,
        // A session reports no fault until its first check, so the port forwards.
        (Some(filter), none) => *none = Some(PortCfm { filter, forwarding: true, status: Status::default() }),
        (None, known) => {
            backer.upcall_translator.cfm.ports.forget(at);
            *known = None;
        }
    }
}

/// Removes the sessions of a port.
pub(crate) fn forget(backer: &Backer, at: PortKey) {
    backer.upcall_translator.bfd.ports.forget(at);
    backer.upcall_translator.cfm.ports.forget(at);
    backer.upcall_translator.lldp.ports.forget(at);
}

/// Removes the sessions of a bridge that is removed.
pub(crate) fn forget_all(backer: &Backer, bridge: &Bridge) {
    bridge.ports.keys().for_each(|ofport| forget(backer, (bridge.id, *ofport)));
}

/// Number of packets that the port has received.
pub(super) fn received(
    port: &mut BridgePort,
    bridge: BridgeId,
    patch_tunnel_counters: &PatchAndTunnelCounters,
) -> u64 {
    match &mut port.backing {
        Backing::Device { netdev, .. } => netdev.stats().ok().and_then(|s| s.rx_packets).unwrap_or_default(),
        Backing::Patch { .. } | Backing::Tunnel { .. } => {
            patch_tunnel_counters.get(bridge, port.ofport).rx_packets
        }
    }
}
