//! What the switch writes into the database: numbers, addresses, states, errors, counters.
//!
//! The wanted values are computed from the running switch and compared with the replica; what differs goes into one
//! transaction. A column that the server's schema does not have is left out.

use crate::add_interface::is_reserved;
use crate::bridge::Bridge;
use crate::port::{Backing, BridgePort};
use crate::publish::{Peers, peers};
use crate::settings::InVain;
use crate::switch::Switch;
use config::settings::root::STATS_UPDATE_INTERVAL;
use ovsdb::operation::Operation;
use ovsdb::replica::RowRef;
use ovsdb::{Datum, Replica, Uuid};
use std::collections::BTreeMap;
use units::{Millis, OfPort};

/// A row and the columns that are to have these values.
pub(crate) struct Wanted {
    table: &'static str,
    row: Uuid,
    columns: Vec<(&'static str, Datum)>,
}

impl Wanted {
    pub(crate) fn new(table: &'static str, row: Uuid) -> Wanted {
        Wanted { table, row, columns: Vec::new() }
    }

    pub(crate) fn set(&mut self, column: &'static str, value: Datum) {
        self.columns.push((column, value));
    }

    fn strings(&mut self, column: &'static str, pairs: &BTreeMap<String, String>) {
        self.set(column, Datum::map(pairs.iter().map(|(k, v)| (k.as_str(), v.as_str()))));
    }

    /// An update of those columns that differ.
    fn operation(self, replica: &Replica) -> Option<Operation> {
        let row: RowRef<'_> = replica.row(self.table, self.row)?;
        let mut update = None;
        for (column, value) in self.columns {
            if row.datum(column).is_some_and(|now| *now != value) {
                let operation = update.take().unwrap_or_else(|| Operation::update(self.table, self.row));
                update = Some(operation.set(column, value));
            }
        }
        update
    }
}

fn optional<T: Into<ovsdb::Atom>>(value: Option<T>) -> Datum {
    Datum::set(value)
}

impl Switch {
    /// Writes what differs, if the last transaction has been answered.
    pub(crate) fn write_status(&mut self, now: Millis) {
        if !self.db.is_idle() {
            return;
        }
        self.status_due = false;
        self.last.status = now;
        if self.applied.root.is_none() {
            // Where nobody else prepares the database (`ovs-vsctl init`), its one row is ours to make.
            if self.options.own_versions && self.greeted {
                self.db.transact(&[Operation::insert("Open_vSwitch", "")]);
            }
            return;
        }
        let interval = Millis(STATS_UPDATE_INTERVAL.number(&self.applied.other_config) as u64);
        let with_statistics = now.since(self.last.statistics) >= interval || self.statistics_due;
        let mut wanted = Vec::new();
        self.root_row(&mut wanted);
        self.datapath_rows(&mut wanted);
        let peers = peers(&self.bridges);
        for bridge in self.bridges.values_mut() {
            bridge_row(bridge, &self.in_vain, &mut wanted);
            controller_rows(bridge, now, &self.in_vain, &mut wanted);
            interface_rows(bridge, &peers, &self.in_vain, &mut wanted);
        }
        if with_statistics {
            self.last.statistics = now;
            self.statistics_due = false;
        }
        self.statistics_rows(with_statistics, &mut wanted);
        let operations: Vec<Operation> =
            wanted.into_iter().filter_map(|w| w.operation(&self.db.replica)).collect();
        self.db.transact(&operations);
    }

    /// What a datapath can do is known as long as a bridge has it.
    fn datapath_rows(&self, wanted: &mut Vec<Wanted>) {
        for (_, config) in self.applied.datapaths.iter().filter(|(kind, _)| self.backers.contains_key(*kind))
        {
            let mut row = Wanted::new("Datapath", config.uuid);
            row.set("capabilities", Datum::map(crate::commands::features::row()));
            wanted.push(row);
        }
    }

    fn root_row(&self, wanted: &mut Vec<Wanted>) {
        let Some(root) = self.applied.root else { return };
        let mut row = Wanted::new("Open_vSwitch", root);
        row.set("cur_cfg", Datum::scalar(self.applied.next_cfg));
        row.set("datapath_types", Datum::set(self.options.datapath_types()));
        let types = self.netdevs.types().into_iter().chain(["patch"]);
        row.set("iface_types", Datum::set(types));
        row.set("dpdk_initialized", Datum::scalar(dpdk::eal::initialized()));
        row.set("dpdk_version", Datum::scalar(dpdk::eal::version()));
        if self.options.own_versions {
            row.set("ovs_version", Datum::scalar(runtime::COMPAT_VERSION));
            if let Some(schema) = self.db.replica.schema() {
                row.set("db_version", Datum::scalar(schema.version.as_str()));
            }
            let (system, version) = &self.system;
            row.set("system_type", Datum::scalar(system.as_str()));
            row.set("system_version", Datum::scalar(version.as_str()));
        }
        wanted.push(row);
    }

    /// The counters of all ports, or only of those that have not shown any yet.
    fn statistics_rows(&mut self, all: bool, wanted: &mut Vec<Wanted>) {
        for backer in self.backers.values().filter(|_| all) {
            backer.datapath.maintain(self.clock.now());
        }
        for bridge in self.bridges.values().filter(|_| all) {
            crate::mirrors::rows(bridge, wanted);
        }
        for bridge in self.bridges.values_mut() {
            let patches = self.backers.get(&bridge.config.datapath_type).map(|b| b.patches.clone());
            let id = bridge.id;
            for port in bridge.ports.values_mut().filter(|p| all || !p.counted) {
                port.counted = true;
                let pairs = match &mut port.backing {
                    Backing::Device { netdev, .. } => netdev.stats().map(|s| s.pairs()).unwrap_or_default(),
                    Backing::Patch { .. } | Backing::Tunnel { .. } => {
                        let s = patches.as_ref().map(|p| p.get(id, port.ofport)).unwrap_or_default();
                        let named = [
                            ("rx_packets", s.rx_packets),
                            ("rx_bytes", s.rx_bytes),
                            ("tx_packets", s.tx_packets),
                            ("tx_bytes", s.tx_bytes),
                        ];
                        named.map(|(k, v)| (k.to_owned(), v)).to_vec()
                    }
                };
                let mut row = Wanted::new("Interface", port.uuid);
                row.set("statistics", Datum::map(pairs.iter().map(|(k, v)| (k.as_str(), *v as i64))));
                wanted.push(row);
            }
        }
    }
}

/// The key of a `status` column that tells what the row asks for in vain.
const NOT_BUILT: &str = "not_built";

fn bridge_row(bridge: &Bridge, in_vain: &InVain, wanted: &mut Vec<Wanted>) {
    let mut row = Wanted::new("Bridge", bridge.config.uuid);
    let text = in_vain.get(&bridge.config.uuid).map(|text| (NOT_BUILT.to_owned(), text.clone()));
    row.strings("status", &text.into_iter().collect());
    row.set("datapath_id", Datum::set([format!("{:016x}", bridge.datapath_id).as_str()]));
    row.set("datapath_version", Datum::scalar("<built-in>"));
    wanted.push(row);
}

fn controller_rows(bridge: &mut Bridge, now: Millis, in_vain: &InVain, wanted: &mut Vec<Wanted>) {
    let status = bridge.conns.status(now);
    for config in &bridge.config.controllers {
        let Some(s) = status.iter().find(|s| s.target == config.target) else { continue };
        let mut row = Wanted::new("Controller", config.uuid);
        row.set("is_connected", Datum::scalar(s.is_connected));
        row.set("role", optional(s.role_name()));
        let mut pairs = s.status.clone();
        pairs.extend(in_vain.get(&config.uuid).map(|text| (NOT_BUILT.to_owned(), text.clone())));
        row.strings("status", &pairs);
        wanted.push(row);
    }
}

fn interface_rows(bridge: &Bridge, peers: &Peers, in_vain: &InVain, wanted: &mut Vec<Wanted>) {
    for port in bridge.ports.values() {
        let mut row = interface_row(port);
        let of_port = bridge.config.ports.get(&port.port_row).map(|p| p.uuid);
        let of_rows =
            [Some(port.uuid), of_port].into_iter().flatten().filter_map(|row| in_vain.get(&row).cloned());
        let trouble = port.facts.as_ref().and_then(|facts| facts.trouble.clone());
        let texts: Vec<String> =
            trouble.into_iter().chain(port.warning.iter().cloned()).chain(of_rows).collect();
        let mut error = (!texts.is_empty()).then(|| texts.join("; "));
        if let Some(peer) = port.peer()
            && !peers.contains_key(&(bridge.id, port.ofport))
        {
            let kind = &bridge.config.datapath_type;
            error = Some(format!("No usable peer '{peer}' exists in '{kind}' datapath."));
        }
        row.set("error", optional(error.as_deref()));
        wanted.push(row);
    }
    for interface in bridge.config.ports.values().flat_map(|p| &p.interfaces) {
        if let Some(failed) = bridge.failed.get(&interface.name) {
            let mut row = Wanted::new("Interface", interface.uuid);
            row.set("ofport", Datum::scalar(-1));
            // What is wrong with a reserved name is for the log alone.
            let told = (!is_reserved(&interface.name)).then_some(failed.why.as_str());
            row.set("error", optional(told));
            for column in ["admin_state", "link_state", "mac_in_use", "duplex"] {
                row.set(column, Datum::set::<&str>([]));
            }
            for column in ["mtu", "ifindex", "link_speed"] {
                row.set(column, Datum::set::<i64>([]));
            }
            for column in ["status", "statistics"] {
                row.strings(column, &BTreeMap::new());
            }
            wanted.push(row);
        }
    }
}

fn interface_row(port: &BridgePort) -> Wanted {
    let mut row = Wanted::new("Interface", port.uuid);
    row.strings("bfd_status", &port.bfd.as_ref().map(|bfd| bfd.status.clone()).unwrap_or_default());
    let number = if port.ofport == OfPort::LOCAL { 65534 } else { i64::from(port.ofport.0) };
    row.set("ofport", Datum::scalar(number));
    match &port.facts {
        None => {
            // A patch port is as good as a wire.
            row.set("admin_state", Datum::scalar("up"));
            row.set("link_state", Datum::scalar("up"));
            row.set("ifindex", Datum::scalar(0));
            row.set("mac_in_use", Datum::scalar(port.patch_mac().to_string().as_str()));
        }
        Some(f) => {
            let state = |up: bool| Datum::scalar(if up { "up" } else { "down" });
            row.set("admin_state", state(f.admin_up));
            // A device that is set down has no link, whatever its driver says.
            row.set("link_state", state(f.admin_up && f.link_up));
            row.set("link_resets", Datum::scalar(f.link_resets as i64));
            row.set("ifindex", Datum::scalar(f.ifindex.map_or(0, i64::from)));
            row.set("mac_in_use", Datum::scalar(port.mac().to_string().as_str()));
            row.set("mtu", Datum::scalar(i64::from(f.mtu)));
            row.set("duplex", optional(f.modes.full_duplex.map(|full| if full { "full" } else { "half" })));
            row.set("link_speed", optional(f.modes.speed_mbps.map(|mbps| i64::from(mbps) * 1_000_000)));
            let mut status = f.tx_work.status();
            status.extend(f.status.clone());
            row.strings("status", &status);
        }
    }
    row
}
