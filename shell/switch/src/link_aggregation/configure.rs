//! Configures bonds and LACP from database rows.

use super::{PortBond, in_datapath};
use crate::backer::Backer;
use crate::switch::Switch;
use bond::lacp::{MemberSettings, Settings};
use bond::{Bond, Mode};
use config::{InterfaceConfig, LacpConfig, PortConfig, Row};
use flow::Mac;
use flow::text::address::parse_mac;
use openflow_service::{Bridge, BridgePort, PortLacp};
use ovsdb::replica::Replica;
use runtime::Module;
use translation::lacp::port_rows::{LinkSetup, PortRowKey};
use units::{Millis, OfPort};
use xlate::{Frozen, Recirc};

static LOG: Module = Module::new("bridge");

impl Switch {
    /// Configures bonds and LACP after rows or ports changed.
    pub(crate) fn configure_link_aggregation(&mut self) {
        let now = self.clock.now();
        for backer in self.datapaths.with_bridges_mut() {
            let before = std::mem::take(&mut backer.link_aggregation.links);
            let datapath_type = backer.datapath_type.clone();
            for bridge in self.bridges.values_mut().filter(|b| b.config.datapath_type == datapath_type) {
                let rows: Vec<PortConfig> = bridge.config.ports.aggregated().cloned().collect();
                for row in rows {
                    let key = (bridge.id, row.name.clone());
                    configure(backer, bridge, &row, (&key, &self.db.replica), now);
                }
                let id = bridge.id;
                let links = before.iter().filter(|(key, _)| key.0 == id).flat_map(|(_, links)| links);
                links.for_each(|port| remove_lacp(bridge, *port));
            }
            forget_others(backer);
        }
        self.run_link_aggregation();
    }
}

/// Removes the LACP state of a port whose row does not request LACP any more.
fn remove_lacp(bridge: &mut Bridge, port: OfPort) {
    let requests_lacp =
        |p: &BridgePort| bridge.config.ports.get(&p.port_row).is_some_and(|row| row.lacp.is_some());
    let wrong = bridge.ports.get(&port).is_some_and(|p| p.lacp.is_some() && !requests_lacp(p));
    if wrong {
        bridge.change_port(port, |port| port.lacp = None);
    }
}

/// Removes the bonds and LACP state of rows that are gone, or that are not a bond and do not request LACP.
fn forget_others(backer: &mut Backer) {
    let wanted = &backer.link_aggregation.links;
    let gone = |key: &&PortRowKey| !wanted.contains_key(*key);
    let bonds: Vec<PortRowKey> = backer.link_aggregation.bonds.keys().filter(gone).cloned().collect();
    let speakers: Vec<PortRowKey> =
        backer.upcall_translator.lacp.keys().iter().filter(gone).cloned().collect();
    bonds.iter().for_each(|key| forget_bond(backer, key));
    speakers.iter().for_each(|key| forget_lacp(backer, key));
}

fn forget_bond(backer: &mut Backer, key: &PortRowKey) {
    if let Some(mut gone) = backer.link_aggregation.bonds.remove(key).filter(|b| b.recirc != 0) {
        in_datapath::retire(backer, &mut gone);
        backer.shared.release(&[gone.recirc]);
    }
}

fn forget_lacp(backer: &mut Backer, key: &PortRowKey) {
    backer.upcall_translator.lacp.forget(key);
    backer.link_aggregation.lacp.remove(key);
}

/// The interfaces of a Port row that are ports of the bridge, with their port numbers.
fn members<'a>(bridge: &Bridge, row: &'a PortConfig) -> Vec<(OfPort, &'a InterfaceConfig)> {
    let port = |i: &'a InterfaceConfig| Some((bridge.port_named(&i.name)?.ofport, i));
    row.interfaces.iter().filter_map(port).collect()
}

/// Configures the bond and LACP of one Port row.
fn configure(
    backer: &mut Backer,
    bridge: &mut Bridge,
    row: &PortConfig,
    (key, replica): (&PortRowKey, &Replica),
    now: Millis,
) {
    let members = members(bridge, row);
    backer.link_aggregation.links.insert(key.clone(), members.iter().map(|(port, _)| *port).collect());
    match &row.lacp {
        Some(lacp) => configure_lacp(backer, bridge, row, (lacp, key, &members), now),
        None if backer.link_aggregation.lacp.contains_key(key) => forget_lacp(backer, key),
        None => {}
    }
    if members.len() < 2 {
        return forget_bond(backer, key);
    }
    if row.bond.mode == Mode::BalanceSlb && !bridge.config.flood_vlans.is_empty() {
        let name = &row.name;
        runtime::warn!(
            LOG,
            "port {name}: SLB bonds are incompatible with flood_vlans, please use another bond type or disable flood_vlans"
        );
    }
    let stored = || {
        let row = Row::find(replica, "Port", row.uuid)?;
        parse_mac(row.opt_str("bond_active_slave")?)
    };
    let mut wanted = row.bond.clone();
    if wanted.lb_output && !backer.upcall_translator.command_settings.capabilities().lb_output {
        let name = &row.name;
        runtime::warn!(LOG, "{name}: Datapath does not support 'lb_output' action, disabled.");
        wanted.lb_output = false;
    }
    let mut port_bond = backer.link_aggregation.bonds.remove(key).unwrap_or_else(|| {
        let bond = Bond::new(wanted.clone(), stored().unwrap_or_default(), now);
        PortBond { bond, recirc: 0, view: Default::default(), links: None }
    });
    port_bond.bond.configure(wanted, now);
    let gone: Vec<OfPort> = port_bond.bond.links().map(|(port, _)| port).collect();
    for port in gone.into_iter().filter(|port| members.iter().all(|(p, _)| p != port)) {
        port_bond.bond.remove_link(port, now);
    }
    let shares = row.bond.mode != Mode::ActiveBackup;
    if shares && port_bond.recirc == 0 {
        let bundle = bridge.bundle_id(&row.name);
        port_bond.recirc = backer.shared.freeze(Frozen::of_bond(bridge.id, bundle)).unwrap_or_default();
    } else if !shares && port_bond.recirc != 0 {
        in_datapath::retire(backer, &mut port_bond);
        backer.shared.release(&[std::mem::take(&mut port_bond.recirc)]);
    }
    backer.link_aggregation.bonds.insert(key.clone(), port_bond);
}

fn configure_lacp(
    backer: &Backer,
    bridge: &mut Bridge,
    row: &PortConfig,
    (lacp, key, members): (&LacpConfig, &PortRowKey, &[(OfPort, &InterfaceConfig)]),
    now: Millis,
) {
    let asked = lacp.system.as_deref();
    let system = asked.and_then(parse_mac).filter(|mac| *mac != Mac::default());
    if let (Some(text), None) = (asked, system) {
        runtime::warn!(LOG, "port {}: LACP system ID ({text}) must be an Ethernet address.", row.name);
    }
    let settings = Settings {
        name: row.name.clone(),
        system: system.unwrap_or(bridge.mac),
        // Port rows with several links get a higher system priority (a lower number) than rows with one link.
        priority: lacp.priority.unwrap_or(u16::MAX - u16::from(row.interfaces.len() > 1)),
        active: lacp.active,
        fast: lacp.fast,
        fallback: row.bond.fallback,
    };
    let mut links = Vec::new();
    for (ofport, interface) in members {
        let Some(port) = bridge.ports.get(ofport) else { continue };
        let (facts, is_known) = (port.lacp_facts(), port.lacp.is_some());
        let (mac, carrier) = (facts.mac, facts.up);
        // `run_link_aggregation` passes changed facts of links that LACP already knows.
        if !is_known {
            bridge.change_port(*ofport, |port| port.lacp = Some(PortLacp { facts, ..PortLacp::default() }));
        }
        links.push(LinkSetup {
            port: *ofport,
            settings: MemberSettings {
                name: interface.name.clone(),
                port: interface.lacp.number.unwrap_or(ofport.0),
                priority: interface.lacp.priority,
                key: interface.lacp.key,
            },
            mac,
            carrier,
        });
    }
    backer.upcall_translator.lacp.configure(key, settings, links, now);
}
