//! Everything of a bridge but its devices: addresses, datapath id, connections, learning, table settings.

use crate::bridge::Bridge;
use crate::controller_paths;
use crate::options::Options;
use crate::port::BridgePort;
use crate::reconfigure::LOG;
use bridge::VlanSet;
use classifier::of::PrefixField;
use config::bridge::FlowTableConfig;
use config::settings::bridge::CONTROLLER_QUEUE_SIZE;
use config::{BridgeConfig, FailMode};
use flow::{FieldId, Mac, Match, Subfield};
use ofconn::{ConnManager, ControllerTarget, ManagerConfig};
use ofproto::TableSettings;
use openflow::action::Action;
use openflow::{FlowMod, Version, VersionSet};
use runtime::RateLimit;
use runtime::log::Level;
use std::collections::HashMap;
use units::{Millis, OfPort};

static PATH_LIMIT: RateLimit = RateLimit::new(1, 5);
static PREFIX_LIMIT: RateLimit = RateLimit::new(1, 5);

/// The connections of a new bridge.
pub(crate) fn connections(name: &str, _options: &Options) -> ConnManager {
    ConnManager::new(name)
}

/// Applies the configuration of a bridge.
pub(crate) fn configure(
    bridge: &mut Bridge,
    config: &BridgeConfig,
    options: &Options,
    restoring: bool,
    now: Millis,
) {
    let datapath_type = bridge.config.datapath_type.clone();
    let old = std::mem::replace(&mut bridge.config, BridgeConfig { datapath_type, ..config.clone() });
    learning(bridge);
    vlans(bridge, &old);
    connect(bridge, options, restoring, now);
    crate::mirrors::configure(bridge, &old);
    tables(bridge, &old, now);
    default_flow(bridge, &old, now);
    bridge.configured = true;
}

/// Sees to the bridge's connections. While flows are restored there are none to controllers.
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
    let targets = allowed.into_iter().map(|(c, _)| target(c, queue_size)).collect();
    let manager = ManagerConfig {
        rundir: options.rundir.clone(),
        versions: versions(config),
        controllers: targets,
        queue_size,
        // What `debug_slow` and the like are for.
        debug_actions: options.dummy_mode(),
    };
    for text in bridge.conns.configure(&manager, now) {
        runtime::err!(LOG, "bridge {}: {text}", bridge.name);
    }
}

/// `queue_size`: that of the bridge.
fn target(c: &config::ControllerConfig, queue_size: usize) -> ControllerTarget {
    ControllerTarget {
        target: c.target.clone(),
        max_backoff: c.max_backoff,
        inactivity_probe: c.inactivity_probe,
        async_messages: c.async_messages,
        queue_size: c.queue_size.unwrap_or(queue_size),
        rate_limit: c.rate_limit,
        burst_limit: c.burst_limit,
    }
}

/// `Bridge.protocols`; all where it is empty.
fn versions(config: &BridgeConfig) -> VersionSet {
    let named = config.protocols.iter().filter_map(|p| Version::from_name(p));
    let set = named.fold(VersionSet(0), VersionSet::with);
    if set.newest().is_none() { VersionSet::ALL } else { set }
}

fn learning(bridge: &mut Bridge) {
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

/// Stations behind a port whose VLANs changed were learned for the wrong VLAN.
fn vlans(bridge: &mut Bridge, old: &BridgeConfig) {
    let changed: Vec<String> = bridge
        .config
        .ports
        .values()
        .filter(|new| old.ports.get(&new.name).is_some_and(|o| o.vlan != new.vlan))
        .map(|p| p.name.clone())
        .collect();
    for name in changed {
        let id = bridge.bundle_id(&name);
        bridge.macs.lock().flush_port(id);
    }
}

fn tables(bridge: &mut Bridge, old: &BridgeConfig, now: Millis) {
    let ids: std::collections::BTreeSet<u8> =
        bridge.config.flow_tables.keys().chain(old.flow_tables.keys()).copied().collect();
    for id in ids {
        let new = bridge.config.flow_tables.get(&id).cloned().unwrap_or_default();
        if old.flow_tables.get(&id).is_some_and(|o| *o == new) && bridge.configured {
            continue;
        }
        let settings = settings(bridge, id, &new);
        let effects = bridge.ofproto.configure_table(id, &settings, now);
        crate::deeds::announce(bridge, &effects, None, now);
    }
}

fn settings(bridge: &Bridge, id: u8, config: &FlowTableConfig) -> TableSettings {
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
    let prefixes = config.prefixes.as_ref().and_then(|names| prefixes(&bridge.name, names));
    TableSettings {
        name: config.name.clone(),
        max_flows: config.flow_limit,
        evict: config.evict,
        eviction_fields: subfields(&config.groups),
        prefixes,
    }
}

/// A controller is configured whom the bridge connects to. A target of no known kind is as none.
fn has_controller(config: &BridgeConfig) -> bool {
    let is_active = |target: &str| ["tcp:", "ssl:", "unix:"].iter().any(|kind| target.starts_with(kind));
    config.controllers.iter().any(|c| is_active(&c.target))
}

/// The fields of column `prefixes`; `None` where it names none that can be used, unless it says "none".
fn prefixes(bridge: &str, names: &[String]) -> Option<Vec<PrefixField>> {
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

/// A bridge without controllers forwards as a learning switch unless it is `secure`: a flow says so, which users see and
/// may change. Whenever it gets or loses its controllers, or changes its mind, it begins anew.
fn default_flow(bridge: &mut Bridge, old: &BridgeConfig, now: Millis) {
    let had = has_controller(old);
    let has = has_controller(&bridge.config);
    let changed_mode = old.fail_mode != bridge.config.fail_mode && !has;
    if bridge.configured && had == has && !changed_mode {
        return;
    }
    let effects = bridge.ofproto.flush(now);
    crate::deeds::announce(bridge, &effects, None, now);
    if !has && bridge.config.fail_mode == FailMode::Standalone {
        let fm = FlowMod {
            table: 0,
            priority: 0,
            actions: vec![Action::output(OfPort::NORMAL)],
            matching: Match::CATCHALL,
            ..FlowMod::default()
        };
        // An empty table takes any flow.
        let _ = bridge.ofproto.handle_flow_mod(&fm, now);
    }
}

/// Chooses the bridge's Ethernet address and datapath id.
///
/// The address is `other_config:hwaddr`, or the lowest of its ports' that somebody assigned, or the one that the bridge's
/// first row gives: addresses that were made up come and go with their devices, and controllers know a bridge by its datapath
/// id, which is `other_config:datapath-id`, or that address.
pub(crate) fn pick_addresses(bridge: &mut Bridge) {
    let asked = bridge.config.hwaddr.as_deref().and_then(flow::text::address::parse_mac);
    let usable = |m: &Mac| !m.is_multicast() && *m != Mac::default();
    if let (None, Some(text)) = (asked, &bridge.config.hwaddr) {
        runtime::err!(LOG, "bridge {}: invalid MAC address {text} for hwaddr", bridge.name);
    }
    let of_ports = addresses_of_ports(bridge).into_iter().filter(|m| usable(m) && !m.is_local()).min();
    let mac = asked.filter(usable).or(of_ports).unwrap_or(bridge.default_mac);
    set_address(bridge, mac);
    let id = bridge.config.datapath_id.unwrap_or_else(|| mac.to_u64());
    if id != bridge.datapath_id {
        bridge.datapath_id = id;
        runtime::info!(LOG, "bridge {}: using datapath ID {id:016x}", bridge.name);
        bridge.conns.reconnect_all();
    }
}

/// The addresses that stand for the ports of a bridge, as Open vSwitch chooses them: that of the Port row, else that of
/// the row's first device by name. The bridge's own port and the outputs of mirrors do not count.
fn addresses_of_ports(bridge: &Bridge) -> Vec<Mac> {
    let config = &bridge.config;
    let is_output = |port: &str| config.mirrors.iter().any(|m| m.output_port.as_deref() == Some(port));
    let devices: HashMap<&str, &BridgePort> =
        bridge.ports.values().map(|port| (port.name.as_str(), port)).collect();
    let of_device = |p: &config::PortConfig| {
        let device = p.interfaces.iter().find_map(|i| devices.get(i.name.as_str()));
        device.filter(|d| d.ofport != OfPort::LOCAL).map(|d| d.mac())
    };
    let of_row = |p: &config::PortConfig| p.mac.as_deref().and_then(flow::text::address::parse_mac);
    let ports = config.ports.values().filter(|p| !is_output(&p.name));
    ports.filter_map(|p| of_row(p).or_else(|| of_device(p))).filter(|m| !xlate::is_reserved(*m)).collect()
}

/// The address of a bridge that has no better one: it stays over restarts, and is the one that Open vSwitch makes of the
/// row, which takes the UUID as words of the machine, and its bytes as they lie in memory.
pub(crate) fn address_of_row(row: ovsdb::Uuid) -> Mac {
    let bytes = row.as_bytes();
    let [a, b, c, d, e, f, g, h, ..] = *bytes;
    let words =
        [u32::from_be_bytes([a, b, c, d]).to_ne_bytes(), u32::from_be_bytes([e, f, g, h]).to_ne_bytes()];
    let [[a, b, c, d], [e, f, ..]] = words;
    Mac([a & !1 | 2, b, c, d, e, f])
}

fn set_address(bridge: &mut Bridge, mac: Mac) {
    bridge.mac = mac;
    let name = bridge.name.clone();
    let Some(port) = bridge.ports.get_mut(&OfPort::LOCAL).filter(|p| p.mac() != mac) else { return };
    let Some(netdev) = port.netdev() else { return };
    if let Err(e) = netdev.set_mac(mac.0) {
        runtime::err!(LOG, "bridge {name}: failed to set bridge Ethernet address: {e}");
        return;
    }
    if let Ok(facts) = netdev.facts() {
        port.facts = Some(facts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_row_is_a_local_one_and_keeps_to_its_words() {
        let mac = address_of_row(ovsdb::Uuid::from_u128(0x1122_3344_5566_7788_99aa_bbcc_ddee_ff00));
        assert!(mac.is_local() && !mac.is_multicast());
        if cfg!(target_endian = "little") {
            assert_eq!(mac, Mac([0x46, 0x33, 0x22, 0x11, 0x88, 0x77]));
        }
        assert!(!Mac([0x00, 0x23, 0x20, 0x7f, 0, 0]).is_local());
        assert!(Mac([0x00, 0x23, 0x20, 0x80, 0, 0]).is_local());
    }
}
