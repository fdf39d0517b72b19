//! Adding an interface to a bridge, and changing an existing one.

use crate::backer::{AddError, Backer};
use crate::log::{LOG, NETDEV};
use crate::qos::police;
use crate::refusal::Refusal;
use crate::reserved_name::is_reserved;
use crate::switch::Switch;
use crate::tunnels;
use config::{BridgeConfig, Desired, InterfaceConfig};
use flow::text::address::parse_mac;
use netdev::device::{Facts, Netdev};
use netdev::error::NetdevError;
use netdev::rx_buffers::RxPoolSettings;
use openflow::port::PortReason;
use openflow_service::{Backing, Bridge, BridgePort, FailedInterface};
use runtime::Module;
use settings::interface::{PMD_RXQ_AFFINITY, TX_STEERING};
use settings::options::PEER;
use std::collections::BTreeMap;
use units::{OfPort, PortNo};

static DPIF: Module = Module::new("dpif_netdev");

/// Finds the configuration of an interface: its bridge, the name of its Port row, and the interface itself.
fn find_config<'a>(
    desired: &'a Desired,
    bridge: &str,
    name: &str,
) -> Option<(&'a BridgeConfig, &'a str, &'a InterfaceConfig)> {
    let config = desired.bridges.get(bridge)?;
    let (row, interface) = config.interface(name)?;
    Some((config, row.name.as_str(), interface))
}

/// Adds an interface. If this fails, the reason goes to the log and to the interface's row.
pub(crate) fn add(switch: &mut Switch, desired: &Desired, bridge: &str, name: &str) {
    let Some((_, row, interface)) = find_config(desired, bridge, name) else { return };
    let (row, interface) = (row.to_owned(), interface.clone());
    let there = switch.bridges.get(bridge).and_then(|running| running.port_named(name));
    if let Some(there) = there {
        // Several Port rows refer to this interface. If the device were opened once for each row, each port would
        // receive only a part of the packets.
        runtime::warn!(LOG, "bridge {bridge}: interface {name} is in port {} already", there.port_row);
        return;
    }
    let numbers = preferred_numbers(switch, desired, bridge, &interface);
    let result = open_port(switch, bridge, &row, &interface, &desired.other_config, &numbers);
    let known = is_known(switch, &interface.kind);
    let now = switch.clock.now();
    let Some(running) = switch.bridges.get_mut(bridge) else { return };
    match result {
        Ok(mut port) => {
            runtime::info!(LOG, "bridge {bridge}: added interface {name} on port {}", port.ofport.0);
            running.failed.remove(name);
            running.all_ports.removed.forget(name);
            let mut message = openflow_service::port_description(&port);
            message.state.live = false;
            port.reported_state = Some(message.clone());
            running.ports.insert(port.ofport, port);
            running.unreported_ports.insert(message.number);
            note_requested_number(running, &interface);
            running.conns.send_port_status(PortReason::Add, &message, None, None);
            crate::port_sessions::configure(switch, bridge, &interface);
            switch.add_lldp(bridge, name);
        }
        // A failed interface is tried again at each change; a failure with the same reason is not logged again.
        Err(refusal) if running.failed.get(name).is_some_and(|f| f.why == refusal.why) => {}
        Err(Refusal { why: text, logged }) => {
            if !known {
                runtime::warn!(NETDEV, "could not create netdev {name} of unknown type {}", interface.kind);
            }
            if !logged {
                runtime::warn!(LOG, "{text}");
            }
            if let Some(why) = crate::dpdk_start::why_unavailable(&interface.kind, switch.machine.dpdk) {
                runtime::warn!(LOG, "{name}: {why}");
            }
            let ofport = numbers.last().copied();
            // The number stays reserved for this interface: another port gets it only if all other free numbers were in
            // use recently.
            ofport
                .filter(|p| !running.ports.contains_key(p))
                .iter()
                .for_each(|p| running.hold_back_ofport(*p, now));
            running.fail(name, FailedInterface { why: text, ofport });
        }
    }
}

/// The OpenFlow port numbers to try for an interface, in order of preference: the requested number, then the number
/// that the interface had in this run, or else the number in its row, from an earlier run.
fn preferred_numbers(
    switch: &Switch,
    desired: &Desired,
    bridge: &str,
    interface: &InterfaceConfig,
) -> Vec<OfPort> {
    let failed = switch.bridges.get(bridge).and_then(|b| b.failed.get(&interface.name));
    let held = failed.and_then(|f| f.ofport).or_else(|| desired.ofports.get(&interface.uuid).copied());
    interface.ofport_request.map(OfPort).into_iter().chain(held).collect()
}

/// Records that a port requests another number than the one it has. The port gets the requested number when that
/// number becomes free.
fn note_requested_number(bridge: &mut Bridge, interface: &InterfaceConfig) {
    let has = bridge.port_named(&interface.name).map(|port| port.ofport);
    if interface.ofport_request.is_some_and(|wanted| has != Some(OfPort(wanted))) {
        bridge.all_ports.renumber_candidates.insert(interface.name.clone());
    }
}

/// Opens the device and makes it a port of the datapath. The text of an error goes to the interface's row.
fn open_port(
    switch: &mut Switch,
    bridge: &str,
    port_row: &str,
    interface: &InterfaceConfig,
    root: &BTreeMap<String, String>,
    numbers: &[OfPort],
) -> Result<BridgePort, Refusal> {
    let now = switch.clock.now();
    let name = interface.name.as_str();
    let datapath_type =
        switch.bridges.get(bridge).map(|b| b.config.datapath_type.clone()).ok_or("no bridge")?;
    if is_reserved(name) {
        return Err(format!("could not create interface {name}, name is reserved").into());
    }
    if name.is_empty() {
        return Err("could not open network device  (Invalid argument)".into());
    }
    let is_local = name == bridge;
    let device_kind = if is_local && interface.kind == "system" { "internal" } else { &interface.kind };
    let (backing, facts, warning) = if interface.kind == "patch" {
        (Backing::Patch { peer: patch_peer(interface)? }, None, None)
    } else if tunnels::is_kind(device_kind) {
        (tunnels::open(switch, &datapath_type, interface)?, None, None)
    } else {
        let opened = open_device(switch, &datapath_type, device_kind, interface, root, is_local)?;
        let Opened { mut netdev, facts, warning } = opened;
        let backer = switch.datapaths.of_mut(&datapath_type).ok_or("no datapath")?;
        let number = backer.free_number(name);
        add_to_datapath(backer, number, &mut *netdev, interface)?;
        police(backer, number, interface, now);
        (Backing::Device { netdev, number }, Some(facts), warning)
    };
    let running = switch.bridges.get_mut(bridge).ok_or("no bridge")?;
    let Some(ofport) = running.allocate_ofport(name, numbers, now) else {
        if let Some(backer) = switch.datapaths.of_mut(&datapath_type) {
            backer.remove_backing(name, &backing);
        }
        return Err(
            format!("could not add network device {name} to ofproto (No space left on device)").into()
        );
    };
    Ok(BridgePort {
        uuid: interface.uuid,
        name: name.to_owned(),
        kind: device_kind.to_owned(),
        port_row: port_row.to_owned(),
        ofport,
        change_seq: 0,
        reported_state: None,
        backing,
        config: Default::default(),
        facts,
        created: now,
        bfd: None,
        cfm: None,
        lldp: None,
        lacp: None,
        tree: None,
        qos: Default::default(),
        stats_read: false,
        database_stats: None,
        warning,
    })
}

/// A device that is open but not a port yet.
struct Opened {
    netdev: Box<dyn Netdev>,
    facts: Facts,
    warning: Option<String>,
}

/// Opens a device for a datapath of type `datapath_type` and applies the settings of the interface's row.
fn open_device(
    switch: &mut Switch,
    datapath_type: &str,
    device_kind: &str,
    interface: &InterfaceConfig,
    root: &BTreeMap<String, String>,
    is_local: bool,
) -> Result<Opened, String> {
    if let Some(part) = settings::not_built::of_kind(device_kind) {
        let (name, why) = (&interface.name, part.missing());
        return Err(format!("could not open network device {name} ({why} in this version of Sluice)"));
    }
    let open_kind =
        switch.datapaths.of(datapath_type).ok_or("no datapath")?.open_kind(device_kind).to_owned();
    let (buffers, fault) = rx_buffers(interface, root);
    let opened = switch.devices.netdevs.open_with(&interface.name, &open_kind, &interface.options, &buffers);
    let (mut netdev, refused) =
        opened.map_err(|e| match e.is_unknown_type() && switch.options.writes_versions {
            // The system's error text alone does not tell an operator what is wrong with the row.
            true => format!("{}: {}", row_error(&e), why_unavailable(switch, device_kind)),
            false => row_error(&e),
        })?;
    let warning = refused.as_ref().map(row_error).or(fault);
    request_mtu(&mut *netdev, interface);
    request_mac(&mut *netdev, interface, is_local);
    let facts = netdev.facts().map_err(|e| e.to_string())?;
    Ok(Opened { netdev, facts, warning })
}

/// Adds an open device to the datapath as port `number`.
fn add_to_datapath(
    backer: &mut Backer,
    number: PortNo,
    netdev: &mut dyn Netdev,
    interface: &InterfaceConfig,
) -> Result<(), String> {
    let name = &interface.name;
    backer.add_port(number, netdev).map_err(|e| match e {
        AddError::NoPortNumber => {
            format!("could not add network device {name} to ofproto (No space left on device)")
        }
        AddError::Device(e) => e.to_string(),
    })?;
    set_rxq_affinity(backer, number, interface);
    set_tx_steering(backer, number, interface);
    Ok(())
}

/// The text of an error for the interface's row. The details are logged.
fn row_error(error: &NetdevError) -> String {
    if let Some(detail) = error.detail() {
        runtime::err!(LOG, "{detail}");
    }
    error.to_string()
}

/// Whether the switch knows this type of ports. A type of Open vSwitch that is not built in counts as known; the types
/// of DPDK are known after DPDK was started.
fn is_known(switch: &Switch, kind: &str) -> bool {
    kind == "patch"
        || tunnels::is_kind(kind)
        || settings::not_built::of_kind(kind).is_some()
        || switch.devices.netdevs.types().contains(&kind)
}

/// Why ports of this type cannot be created.
fn why_unavailable(switch: &Switch, kind: &str) -> String {
    let dpdk = crate::dpdk_start::why_unavailable(kind, switch.machine.dpdk).map(str::to_owned);
    dpdk.unwrap_or_else(|| format!("unknown type \"{kind}\""))
}

/// Sets the MTU that the row requests. If the device refuses it, the error is only logged, because column `mtu` shows
/// the actual MTU.
fn request_mtu(netdev: &mut dyn Netdev, interface: &InterfaceConfig) {
    if let Some(mtu) = interface.mtu_request
        && let Err(e) = netdev.set_mtu(mtu)
    {
        runtime::warn!(LOG, "{e}");
    }
}

/// Sets the address in column `mac`, which applies to internal ports only. The bridge's own port has the bridge's
/// address.
fn request_mac(netdev: &mut dyn Netdev, interface: &InterfaceConfig, is_local: bool) {
    let wanted = interface.mac.as_deref().and_then(parse_mac);
    let Some(mac) = wanted.filter(|_| interface.kind == "internal") else { return };
    let name = &interface.name;
    if is_local {
        runtime::err!(
            LOG,
            "interface {name}: ignoring mac in Interface record (use Bridge record to set local port's mac)"
        );
    } else if mac.is_multicast() {
        runtime::err!(LOG, "interface {name}: cannot set MAC to multicast address");
    } else if let Err(e) = netdev.set_mac(mac.0) {
        runtime::err!(LOG, "interface {name}: setting MAC failed ({e})");
    }
}

/// Applies `pmd-rxq-affinity`, which assigns rx queues to cores. An invalid list is logged and changes nothing.
fn set_rxq_affinity(backer: &mut Backer, number: PortNo, interface: &InterfaceConfig) {
    let text = PMD_RXQ_AFFINITY.get(&interface.other_config).unwrap_or_default();
    match pmd::affinity::parse(text) {
        Some(affinity) => backer.workers.pin(number, affinity),
        None => runtime::warn!(LOG, "interface {}: invalid pmd-rxq-affinity '{text}'", interface.name),
    }
}

/// Applies `tx-steering`, which determines how the tx queue of a packet is chosen.
fn set_tx_steering(backer: &mut Backer, number: PortNo, interface: &InterfaceConfig) {
    let by_hash = TX_STEERING.word(&interface.other_config) == "hash";
    if backer.datapath.set_tx_hash(number, by_hash) {
        let (name, mode) = (&interface.name, if by_hash { "hash" } else { "thread" });
        runtime::info!(DPIF, "{name}: Tx packet steering mode has been set to '{mode}'.");
    }
}

/// The settings of receive buffers. If they are invalid, the port gets receive buffers of its own, and the reason is
/// returned for the interface's row.
fn rx_buffers(
    interface: &InterfaceConfig,
    root: &BTreeMap<String, String>,
) -> (RxPoolSettings, Option<String>) {
    match RxPoolSettings::read(&interface.other_config, root) {
        Ok(buffers) => (buffers, None),
        Err(why) => (RxPoolSettings::default(), Some(format!("{}: {why}", interface.name))),
    }
}

/// `options:peer` of a patch port.
fn patch_peer(interface: &InterfaceConfig) -> Result<String, String> {
    let name = &interface.name;
    match PEER.get(&interface.options) {
        None => Err(format!("{name}: patch type requires valid 'peer' argument")),
        Some(peer) if peer == name => Err(format!("{name}: patch peer must not be self")),
        Some(peer) => Ok(peer.to_owned()),
    }
}

/// Applies changed settings to an interface. An interface that could not be created is tried again.
pub(crate) fn change(switch: &mut Switch, desired: &Desired, bridge: &str, name: &str) {
    let Some((_, row, interface)) = find_config(desired, bridge, name) else { return };
    if switch.bridges.get(bridge).is_none_or(|b| b.port_named(name).is_none()) {
        return add(switch, desired, bridge, name);
    }
    let (row, interface) = (row.to_owned(), interface.clone());
    update_row_ids(switch, bridge, &row, &interface);
    if tunnels::is_kind(&interface.kind) {
        if let Err(refusal) = tunnels::change(switch, bridge, &interface) {
            remove_for_retry(switch, bridge, name, refusal);
        }
    } else if let Err(text) = apply_settings(switch, bridge, &interface, &desired.other_config) {
        remove_for_retry(switch, bridge, name, text.into());
    }
    crate::port_sessions::configure(switch, bridge, &interface);
}

/// Updates the identities of a port's rows: rows may have been deleted and inserted again with the same names.
fn update_row_ids(switch: &mut Switch, bridge: &str, row: &str, interface: &InterfaceConfig) {
    let Some(running) = switch.bridges.get_mut(bridge) else { return };
    let Some(port) = running.port_named_mut(&interface.name) else { return };
    port.port_row = row.to_owned();
    if port.uuid != interface.uuid {
        port.uuid = interface.uuid;
        port.stats_read = false;
        port.database_stats = None;
    }
    running.ports.touch_row(row);
    note_requested_number(running, interface);
}

/// Removes an interface from its bridge, to be tried again later with the same OpenFlow port number.
fn remove_for_retry(switch: &mut Switch, bridge: &str, name: &str, refusal: Refusal) {
    let Refusal { why, logged } = refusal;
    if !logged {
        runtime::warn!(LOG, "{why}");
    }
    let ofport = switch.bridges.get(bridge).and_then(|b| b.port_named(name)).map(|p| p.ofport);
    switch.remove_interface(bridge, name);
    if let Some(running) = switch.bridges.get_mut(bridge) {
        running.fail(name, FailedInterface { why, ofport });
    }
}

/// Removes a port whose kernel device was deleted, renamed or moved to another network namespace. The port is added
/// again when a device of its name appears; a device that the switch itself creates is created again at once.
pub(crate) fn remove_vanished(switch: &mut Switch, bridge: &str, name: &str) {
    let why = NetdevError::gone(name).to_string();
    remove_for_retry(switch, bridge, name, why.into());
    // A new device of the same name may exist already.
    let desired = switch.applied.clone();
    add(switch, &desired, bridge, name);
}

/// Applies the settings of the interface's row to an existing port. Returns the error that makes the port unusable.
fn apply_settings(
    switch: &mut Switch,
    bridge: &str,
    interface: &InterfaceConfig,
    root: &BTreeMap<String, String>,
) -> Result<(), String> {
    let now = switch.clock.now();
    let Some(running) = switch.bridges.get_mut(bridge) else { return Ok(()) };
    let mut backer = switch.datapaths.of_bridge_mut(running);
    let Some(port) = running.port_named_mut(&interface.name) else { return Ok(()) };
    match &mut port.backing {
        Backing::Patch { peer: known } => *known = patch_peer(interface)?,
        // Tunnels are changed in `tunnels`.
        Backing::Tunnel { .. } => {}
        Backing::Device { netdev, number } => {
            let (buffers, fault) = rx_buffers(interface, root);
            let changed = [netdev.set_options(&interface.options), netdev.set_rx_buffers(&buffers)];
            if changed.contains(&Ok(true))
                && let Some(backer) = &mut backer
            {
                backer.replace_queues(*number, &mut **netdev);
            }
            let mut faults =
                changed.iter().filter_map(|change| change.as_ref().err().map(row_error)).chain(fault);
            let warning = faults.next();
            if let Some(backer) = backer {
                set_rxq_affinity(backer, *number, interface);
                set_tx_steering(backer, *number, interface);
                police(backer, *number, interface, now);
                backer.workers.set_numa(*number, netdev.numa_id());
            }
            request_mtu(&mut **netdev, interface);
            request_mac(&mut **netdev, interface, interface.name == bridge);
            if let Ok(facts) = netdev.facts() {
                port.facts = Some(facts);
            }
            if let Some(text) = &warning {
                runtime::warn!(LOG, "{text}");
            }
            port.warning = warning;
        }
    }
    Ok(())
}
