//! Configuration of a bridge, without its ports: addresses, datapath id, connections, learning, table settings.

use crate::controller_paths;
use crate::log::LOG;
use crate::options::Options;
use bridge::VlanSet;
use classifier::of::PrefixField;
use config::bridge::FlowTableConfig;
use config::controller::ControllerConfig;
use config::{BridgeConfig, FailMode, InterfaceConfig, PortConfig};
use flow::text::address::parse_mac;
use flow::{FieldId, Mac, Match, Subfield};
use netdev::error::NetdevError;
use ofconn::{ConnSettings, Connections, ConnectionsConfig, SocketThread};
use ofproto::TableSettings;
use openflow::action::Action;
use openflow::{FlowMod, Version, VersionSet};
use openflow_service::{Bridge, BridgePort, TouchedPorts};
use runtime::RateLimit;
use runtime::log::Level;
use settings::bridge::CONTROLLER_QUEUE_SIZE;
use units::{Millis, OfPort};

static PATH_LIMIT: RateLimit = RateLimit::new(1, 5);
static PREFIX_LIMIT: RateLimit = RateLimit::new(1, 5);

/// Creates the connections of a new bridge.
pub(crate) fn new_connections(name: &str, thread: Option<&SocketThread>) -> Connections {
    match thread {
        Some(thread) => Connections::served_by(name, thread),
        None => Connections::new(name),
    }
}

/// Applies the configuration of a bridge. `ports`: the names of Port rows that were added, removed or changed.
pub(crate) fn configure(
    bridge: &mut Bridge,
    (config, ports): (&BridgeConfig, &[String]),
    options: &Options,
    restoring: bool,
    now: Millis,
) {
    let datapath_type = bridge.config.datapath_type.clone();
    let old = std::mem::replace(&mut bridge.config, BridgeConfig { datapath_type, ..config.clone() });
    configure_learning(bridge);
    forget_stations(bridge, &old, ports);
    ports.iter().for_each(|row| bridge.ports.touch_row(row));
    connect(bridge, options, restoring, now);
    crate::mirrors::configure(bridge, &old);
    crate::snooping::configure(bridge, &old, ports);
    configure_tables(bridge, &old, now);
    install_default_flow(bridge, &old, now);
    bridge.configured = true;
}

/// Configures the bridge's connections. While flows are being restored, controllers are not connected.
pub(crate) fn connect(bridge: &mut Bridge, options: &Options, restoring: bool, now: Millis) {
    let config = &bridge.config;
    let (refused, allowed): (Vec<_>, Vec<_>) = config
        .controllers
        .iter()
        .filter(|_| !restoring)
        .map(|c| (c, controller_paths::refused(&bridge.name, &c.target, &options.rundir)))
        .partition(|(_, refused)| refused.is_some());
    for why in refused.into_iter().filter_map(|(_, why)| why) {
        runtime::log_rl!(LOG, PATH_LIMIT, Level::Err, "bridge {}: {why}", bridge.name);
    }
    let queue_size = CONTROLLER_QUEUE_SIZE.number(&config.other_config) as usize;
    let controllers = allowed.into_iter().map(|(c, _)| conn_settings(c, queue_size)).collect();
    let connections_config = ConnectionsConfig {
        rundir: options.rundir.clone(),
        versions: allowed_versions(config),
        controllers,
        queue_size,
        // For `debug_slow` and similar actions.
        debug_actions: options.dummy_mode(),
    };
    for text in bridge.conns.configure(&connections_config, now) {
        runtime::err!(LOG, "bridge {}: {text}", bridge.name);
    }
}

/// The settings of a controller connection. `queue_size`: the bridge's setting, used if the controller has none.
fn conn_settings(c: &config::ControllerConfig, queue_size: usize) -> ConnSettings {
    ConnSettings {
        target: c.target.clone(),
        max_backoff: c.max_backoff,
        inactivity_probe: c.inactivity_probe,
        async_messages: c.async_messages,
        queue_size: c.queue_size.unwrap_or(queue_size),
        rate_limit: c.rate_limit,
        burst_limit: c.burst_limit,
    }
}

/// The OpenFlow versions of column `protocols`; all versions if the column names none.
fn allowed_versions(config: &BridgeConfig) -> VersionSet {
    let named = config.protocols.iter().filter_map(|p| Version::from_name(p));
    let set = named.fold(VersionSet(0), VersionSet::with);
    if set.newest().is_none() { VersionSet::ALL } else { set }
}

fn configure_learning(bridge: &mut Bridge) {
    let config = &bridge.config;
    let flood: Option<VlanSet> =
        (!config.flood_vlans.is_empty()).then(|| config.flood_vlans.iter().copied().collect());
    let mut table = bridge.macs.lock();
    table.set_aging(config.mac_aging_secs);
    table.set_size(config.mac_table_size as usize);
    if table.set_flood_vlans(flood) {
        table.flush();
    }
}

/// Removes learned addresses behind ports whose VLANs changed, because they were learned for the wrong VLAN. As in Open vSwitch, addresses behind a
/// port whose column `protected` changed are removed, too.
fn forget_stations(bridge: &mut Bridge, old: &BridgeConfig, ports: &[String]) {
    for name in ports {
        let (Some(old), Some(new)) = (old.ports.get(name), bridge.config.ports.get(name)) else { continue };
        if old.vlan == new.vlan && old.protected == new.protected {
            continue;
        }
        let id = bridge.bundle_id(name);
        bridge.macs.lock().flush_port(id);
    }
}

fn configure_tables(bridge: &mut Bridge, old: &BridgeConfig, now: Millis) {
    let ids: std::collections::BTreeSet<u8> =
        bridge.config.flow_tables.keys().chain(old.flow_tables.keys()).copied().collect();
    for id in ids {
        let new = bridge.config.flow_tables.get(&id).cloned().unwrap_or_default();
        if old.flow_tables.get(&id).is_some_and(|o| *o == new) && bridge.configured {
            continue;
        }
        let settings = table_settings(bridge, id, &new);
        let changes = bridge.ofproto.configure_table(id, &settings, now);
        openflow_service::announce(bridge, &changes, None, now);
    }
}

fn table_settings(bridge: &Bridge, id: u8, config: &FlowTableConfig) -> TableSettings {
    let subfields = |names: &[String]| {
        names
            .iter()
            .filter_map(|text| match Subfield::parse(text) {
                Ok(s) => Some(s),
                Err(e) => {
                    runtime::warn!(LOG, "bridge {}: Flow_Table {id}: groups: {e}", bridge.name);
                    None
                }
            })
            .collect::<Vec<_>>()
    };
    let prefixes = config.prefixes.as_ref().and_then(|names| prefix_fields(&bridge.name, names));
    TableSettings {
        name: config.name.clone(),
        max_flows: config.flow_limit,
        evict: config.evict,
        eviction_fields: subfields(&config.groups),
        prefixes,
    }
}

/// Whether the bridge has a controller that it connects to.
fn has_controller(config: &BridgeConfig) -> bool {
    config.controllers.iter().any(ControllerConfig::is_active)
}

/// The fields of column `prefixes`. `None`: the column names no supported field; then the default applies. The word "none" in the column means no
/// fields.
fn prefix_fields(bridge: &str, names: &[String]) -> Option<Vec<PrefixField>> {
    if names.iter().any(|n| n == "none") {
        return Some(Vec::new());
    }
    let field = |name: &String| {
        let found = PrefixField::from_name(name);
        if found.is_none() {
            let what = if FieldId::from_name(name).is_some() { "incompatible" } else { "unknown" };
            runtime::warn_rl!(LOG, PREFIX_LIMIT, "bridge {bridge}: 'prefixes' with {what} field: {name}");
        }
        found
    };
    let fields: Vec<PrefixField> = names.iter().filter_map(field).collect();
    (!fields.is_empty()).then_some(fields)
}

/// Installs the default flow. A bridge without controllers and with fail mode `standalone` acts as a learning switch, by a flow that users can see
/// and change. All flows are removed when the bridge gets its first controller or loses its last one, or when its fail mode changes while it has
/// no controller.
fn install_default_flow(bridge: &mut Bridge, old: &BridgeConfig, now: Millis) {
    let had = has_controller(old);
    let has = has_controller(&bridge.config);
    let changed_mode = old.fail_mode != bridge.config.fail_mode && !has;
    if bridge.configured && had == has && !changed_mode {
        return;
    }
    openflow_service::flush(bridge, now);
    if !has && bridge.config.fail_mode == FailMode::Standalone {
        let fm = FlowMod {
            table: 0,
            priority: 0,
            actions: vec![Action::output(OfPort::NORMAL)],
            matching: Match::CATCHALL,
            ..FlowMod::default()
        };
        // Cannot fail: an empty table accepts any flow.
        let _ = bridge.ofproto.handle_flow_mod(&fm, now);
    }
}

/// Derives the address and MTU of a bridge from its ports.
pub(crate) fn derive_from_ports(bridge: &mut Bridge) {
    let touched = bridge.ports.take_for_bridge();
    note_addresses(bridge, &touched);
    pick_addresses(bridge);
    set_fake_bridges(bridge);
    crate::mtu::update(bridge, &touched.ports);
}

/// After another program changed the address of a device of the bridge: derives the bridge's address again, and restores the addresses that the
/// database requests for internal ports.
pub(crate) fn restore_addresses(bridge: &mut Bridge) {
    derive_from_ports(bridge);
    let rows = bridge.config.ports.values().flat_map(|row| &row.interfaces);
    let requested = rows.filter(|i| i.kind == "internal").filter_map(|i| {
        let mac = i.mac.as_deref().and_then(parse_mac).filter(is_usable)?;
        let port = bridge.ports.named(&i.name)?;
        (port.ofport != OfPort::LOCAL && port.mac() != mac).then_some((port.ofport, mac))
    });
    for (port, mac) in requested.collect::<Vec<_>>() {
        let Some(port) = bridge.ports.get_mut(&port) else { continue };
        if let Err(e) = set_mac(port, mac) {
            runtime::err!(LOG, "interface {}: setting MAC failed ({e})", port.name);
        }
    }
}

/// Chooses the bridge's Ethernet address and datapath id.
///
/// The address is `other_config:hwaddr`, else the lowest universally administered address of its ports, else the address that was generated for the
/// bridge. Locally administered addresses are not used, because devices with generated addresses get a new address at each creation. Controllers
/// identify a bridge by its datapath id, which is `other_config:datapath-id`, else the bridge's address.
fn pick_addresses(bridge: &mut Bridge) {
    let asked = bridge.config.hwaddr.as_deref().and_then(parse_mac);
    let name = &bridge.name;
    match (asked, &bridge.config.hwaddr) {
        (None, Some(text)) => runtime::err!(LOG, "bridge {name}: invalid MAC address {text} for hwaddr"),
        (Some(mac), _) if mac.is_multicast() => {
            runtime::err!(LOG, "bridge {name}: cannot set MAC address to multicast address {mac}");
        }
        (Some(mac), _) if mac == Mac::default() => {
            runtime::err!(LOG, "bridge {name}: cannot set MAC address to zero");
        }
        _ => {}
    }
    let of_ports = bridge
        .all_ports
        .addresses
        .iter()
        .find(|(row, _)| !is_mirror_output(bridge, row))
        .map(|(_, mac)| *mac);
    let mac = asked.filter(is_usable).or(of_ports).unwrap_or(bridge.all_ports.default_mac);
    set_address(bridge, mac);
    let id = bridge.config.datapath_id.unwrap_or_else(|| mac.to_u64());
    if id != bridge.datapath_id {
        bridge.datapath_id = id;
        runtime::info!(LOG, "bridge {}: using datapath ID {id:016x}", bridge.name);
        bridge.conns.reconnect_all();
    }
}

/// Whether a device can have this address.
fn is_usable(mac: &Mac) -> bool {
    !mac.is_multicast() && *mac != Mac::default()
}

/// Records the address of each Port row, as Open vSwitch chooses it: column `mac`, else the address of the row's first device by name. The bridge's
/// own port and locally administered addresses are left out.
fn note_addresses(bridge: &mut Bridge, touched: &TouchedPorts) {
    let of_device = |p: &PortConfig| {
        let device = p.interfaces.iter().find_map(|i| bridge.ports.named(&i.name));
        device.filter(|d| d.ofport != OfPort::LOCAL).map(|d| d.mac())
    };
    let may_represent = |m: &Mac| is_usable(m) && !m.is_local() && !xlate::is_reserved(*m);
    let now = touched.ports.iter().filter_map(|port| bridge.ports.get(port)).map(|port| &port.port_row);
    for row in touched.rows.iter().chain(now) {
        let port = bridge.config.ports.get(row);
        if port.is_some_and(|p| p.fake_bridge) {
            bridge.all_ports.fake_bridges.insert(row.clone());
        } else {
            bridge.all_ports.fake_bridges.remove(row);
        }
        let mac = port.and_then(|p| row_address(p).or_else(|| of_device(p))).filter(may_represent);
        bridge.all_ports.addresses.set(row, mac);
    }
}

fn set_address(bridge: &mut Bridge, mac: Mac) {
    bridge.mac = mac;
    let name = bridge.name.clone();
    if let Some(port) = bridge.ports.get_mut(&OfPort::LOCAL)
        && let Err(e) = set_mac(port, mac)
    {
        runtime::err!(LOG, "bridge {name}: failed to set bridge Ethernet address: {e}");
    }
}

/// Sets the address of a port's device, unless the device already has it.
fn set_mac(port: &mut BridgePort, mac: Mac) -> Result<(), NetdevError> {
    if port.mac() == mac {
        return Ok(());
    }
    let Some(netdev) = port.netdev() else { return Ok(()) };
    netdev.set_mac(mac.0)?;
    if let Ok(facts) = netdev.facts() {
        port.facts = Some(facts);
    }
    Ok(())
}

/// Column `mac` of a Port row, if it is a valid address.
fn row_address(port: &PortConfig) -> Option<Mac> {
    port.mac.as_deref().and_then(parse_mac)
}

/// Sets the addresses of those internal ports of fake bridges for which the database has no address: the lowest address of the ports with the same
/// VLAN, else the address that was generated for the bridge.
fn set_fake_bridges(bridge: &mut Bridge) {
    for row in bridge.all_ports.fake_bridges.clone() {
        let Some(fake) = bridge.config.ports.get(&row) else { continue };
        let is_candidate = |of: &String| {
            let other = bridge.config.ports.get(of);
            !is_mirror_output(bridge, of)
                && other.is_some_and(|o| row_address(o).is_some() || fake.shares_tag(o))
        };
        let found = bridge.all_ports.addresses.iter().find(|(of, _)| is_candidate(of)).map(|(_, mac)| *mac);
        let mac = found.unwrap_or(bridge.all_ports.default_mac);
        let follows =
            |i: &&InterfaceConfig| i.kind == "internal" && i.mac.as_deref().and_then(parse_mac).is_none();
        let names: Vec<String> = fake.interfaces.iter().filter(follows).map(|i| i.name.clone()).collect();
        for name in names {
            if bridge.ports.named(&name).is_none_or(|p| p.ofport == OfPort::LOCAL || p.mac() == mac) {
                continue;
            }
            if let Some(port) = bridge.ports.named_mut(&name)
                && let Err(e) = set_mac(port, mac)
            {
                runtime::err!(LOG, "interface {name}: setting MAC failed ({e})");
            }
        }
    }
}

/// Whether a row of table Port is the output of a mirror.
fn is_mirror_output(bridge: &Bridge, row: &String) -> bool {
    bridge.config.mirrors.iter().any(|m| m.output_port.as_ref() == Some(row))
}
