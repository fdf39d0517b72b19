//! State that the switch writes to the database: port numbers, addresses, link states, errors, counters.
//!
//! The values of the rows are computed from the running switch and compared with the replica; all differences are written in one transaction. For
//! interfaces this is done only if the port or its row changed. If the outcome of a transaction is unknown, all rows are compared. Columns that the
//! server's schema lacks are left out.

use crate::backer::Backer;
use crate::findings::IneffectiveSettings;
use crate::port_position::PortPosition;
use crate::port_sessions::trunk_row;
use crate::row_values::RowValues;
use crate::run::STATUS_INTERVAL;
use crate::snapshot_builder::Peers;
use crate::spanning_tree;
use crate::switch::Switch;
use bridge::cfm::Status;
use flow::Mac;
use netdev::stats::Stats;
use openflow_service::{Backing, Bridge, BridgePort, TouchedPorts};
use ovsdb::operation::Operation;
use ovsdb::{Datum, Replica, RowChange};
use settings::root::STATS_UPDATE_INTERVAL;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use units::{Millis, OfPort};
use xlate::BridgeId;

fn optional<T: Into<ovsdb::Atom>>(value: Option<T>) -> Datum {
    Datum::set(value)
}

/// Maximum number of ports that one turn of the main loop checks for changed counters.
const PORTS_PER_TURN: usize = 4096;
/// A port whose counters are read counts as this many ports, because that may need system calls and usually makes a row; so does a port of a
/// spanning tree.
const READ_COST: usize = 16;

impl Switch {
    /// Writes the rows that differ from the replica, unless a transaction is in progress.
    pub(crate) fn write_status(&mut self, now: Millis) {
        if !self.db.is_idle() {
            return;
        }
        self.status.due = false;
        self.last.status = now;
        if self.applied.root.is_none() {
            // Without `ovs-vsctl init`, the daemon itself creates the one row of `Open_vSwitch`.
            if self.options.writes_versions && self.start.configured {
                self.db.transact(&[Operation::insert("Open_vSwitch", "")]);
            }
            return;
        }
        if self.db.take_outcome_unknown() || std::mem::take(&mut self.status.all) {
            self.status.tunnels = true;
            for bridge in self.bridges.values_mut() {
                bridge.ports.touch_all_status();
                bridge.failed.keys().for_each(|name| bridge.ports.touch_status(name));
            }
        }
        let wanted = self.wanted_rows(now);
        self.write_rows(wanted);
    }

    /// Continues to write the counters of ports, unless a transaction is in progress.
    pub(crate) fn continue_statistics(&mut self, now: Millis) {
        if !self.db.is_idle() {
            return;
        }
        let mut wanted = Vec::new();
        self.next_statistics(now, &mut wanted);
        self.write_rows(wanted);
    }

    /// Writes the values that differ from the replica.
    fn write_rows(&mut self, wanted: Vec<RowValues>) {
        let operations: Vec<Operation> =
            wanted.into_iter().filter_map(|w| w.operation(&self.db.replica)).collect();
        self.db.transact(&operations);
    }

    /// The values of all rows that may differ from the replica.
    pub(crate) fn wanted_rows(&mut self, now: Millis) -> Vec<RowValues> {
        let mut wanted = Vec::new();
        let begins_statistics = self.begins_statistics(now);
        self.root_row(&mut wanted);
        self.datapath_rows(&mut wanted);
        self.tunnel_rows(now, &mut wanted);
        for bridge in self.bridges.values_mut() {
            let replica = (!begins_statistics).then_some(&self.db.replica);
            controller_rows(bridge, now, replica, &self.findings.ineffective, &mut wanted);
            let Some(backer) = self.datapaths.of_bridge(bridge) else { continue };
            let tree = spanning_tree::bridge_columns(backer, bridge);
            bridge_row(bridge, tree, &self.findings.ineffective, &mut wanted);
            let touched = take_touched_ports(bridge);
            for ofport in &touched.ports {
                let Some(port) = bridge.ports.get(ofport) else { continue };
                wanted.push(interface_row(
                    bridge,
                    port,
                    &backer.snapshot_builder.peers,
                    &self.findings.ineffective,
                ));
                wanted.extend(spanning_tree::port_row(backer, bridge, port, now));
                let needs_statistics = !port.stats_read;
                wanted.extend(trunk_row(bridge, *ofport, &self.db.replica));
                if needs_statistics && let Some(port) = bridge.ports.get_mut_unmarked(ofport) {
                    let activity = activity(backer, port);
                    wanted.extend(statistics_row(backer, bridge.id, port, activity));
                }
            }
            wanted.extend(touched.without_port.iter().filter_map(|name| failed_row(bridge, name)));
        }
        self.bond_rows(&mut wanted);
        self.statistics_rows(begins_statistics, now, &mut wanted);
        wanted
    }

    /// The `status` columns of tunnels. With thousands of tunnels the computation takes long, so it is done only after changes, and at most once in
    /// [`STATUS_INTERVAL`].
    fn tunnel_rows(&mut self, now: Millis, wanted: &mut Vec<RowValues>) {
        let is_soon = now.since(self.last.tunnel_status) < STATUS_INTERVAL && !self.options.dummy_mode();
        if is_soon || !std::mem::take(&mut self.status.tunnels) {
            return;
        }
        self.last.tunnel_status = now;
        for (row, status) in self.tunnel_status() {
            let mut row = RowValues::new("Interface", row);
            row.strings("status", &status);
            wanted.push(row);
        }
    }

    /// Marks the interfaces and ports whose rows changed: the next status update compares the rows with the values of the switch.
    pub(crate) fn note_rows(&mut self, changes: &[RowChange]) {
        let Some(schema) = self.db.replica.schema() else { return };
        for change in changes {
            let table = schema.tables.get(change.table).map_or("", |table| table.name.as_str());
            let Some(row) = self.db.replica.row(table, change.uuid) else { continue };
            let name = row.str("name");
            for bridge in self.bridges.values_mut() {
                match table {
                    "Interface" => {
                        if let Some(ofport) = bridge.port_named(name).map(|port| port.ofport)
                            && let Some(port) = bridge.ports.get_mut_unmarked(&ofport)
                        {
                            port.database_stats = None;
                        }
                        bridge.ports.touch_status(name);
                    }
                    "Port" if bridge.config.ports.contains_key(name) => bridge.ports.touch_row(name),
                    _ => {}
                }
            }
        }
    }

    /// Records the active link of each bond in the database, so that the bond uses the same link after a restart.
    fn bond_rows(&self, wanted: &mut Vec<RowValues>) {
        let bonds = self.datapaths.with_bridges().flat_map(|b| &b.link_aggregation.bonds);
        for (key, bond) in bonds {
            let mac = bond.bond.active_mac();
            if mac == Mac::default() {
                continue;
            }
            let bridge = self.bridges.values().find(|b| b.id == key.0);
            let Some(port) = bridge.and_then(|b| b.config.ports.get(&key.1)) else { continue };
            let mut row = RowValues::new("Port", port.uuid);
            row.set("bond_active_slave", Datum::scalar(mac.to_string().as_str()));
            wanted.push(row);
        }
    }

    /// The features of the datapaths that a bridge uses. A type that no bridge uses has no datapath.
    fn datapath_rows(&self, wanted: &mut Vec<RowValues>) {
        let used = |kind: &str| {
            self.options.datapath_type(kind).is_some_and(|kind| self.datapaths.of(kind).is_some())
        };
        for (_, config) in self.applied.datapaths.iter().filter(|(kind, _)| used(kind)) {
            let mut row = RowValues::new("Datapath", config.uuid);
            row.set("capabilities", Datum::map(crate::capabilities::row()));
            wanted.push(row);
        }
    }

    fn root_row(&self, wanted: &mut Vec<RowValues>) {
        let Some(root) = self.applied.root else { return };
        let mut row = RowValues::new("Open_vSwitch", root);
        row.set("cur_cfg", Datum::scalar(self.applied.next_cfg));
        row.set("datapath_types", Datum::set(self.options.datapath_types()));
        let tunnels = bridge::tunnel::KINDS.iter().copied();
        let types = self.devices.netdevs.types().into_iter().chain(["patch"]).chain(tunnels);
        row.set("iface_types", Datum::set(types));
        row.set("dpdk_initialized", Datum::scalar(dpdk::eal::initialized()));
        row.set("dpdk_version", Datum::scalar(dpdk::eal::version()));
        // Another switch may have written figures of the host, which would be outdated.
        row.strings("statistics", &BTreeMap::new());
        if self.options.writes_versions {
            row.set("ovs_version", Datum::scalar(runtime::COMPAT_VERSION));
            if let Some(schema) = self.db.replica.schema() {
                row.set("db_version", Datum::scalar(schema.version.as_str()));
            }
            let (system, version) = &self.machine.system;
            row.set("system_type", Datum::scalar(system.as_str()));
            row.set("system_version", Datum::scalar(version.as_str()));
        }
        wanted.push(row);
    }

    /// Whether `stats-update-interval` has passed since the counters were last written.
    fn begins_statistics(&self, now: Millis) -> bool {
        let interval = Millis(STATS_UPDATE_INTERVAL.number(&self.applied.other_config) as u64);
        self.status.statistics.is_none() && now.since(self.last.statistics) >= interval
    }

    /// Counters: every `stats-update-interval` those of mirrors and the first ports, else those of the next ports.
    /// `begins`: the interval has passed.
    fn statistics_rows(&mut self, begins: bool, now: Millis, wanted: &mut Vec<RowValues>) {
        if begins {
            self.last.statistics = now;
            self.status.statistics = Some(PortPosition::default());
            self.datapaths.with_bridges().for_each(|backer| backer.datapath.maintain(now));
            self.bridges.values().for_each(|bridge| crate::mirrors::rows(bridge, wanted));
        }
        self.next_statistics(now, wanted);
    }

    /// The counters of the next ports, as many as one turn may read and write; the next turn continues.
    fn next_statistics(&mut self, now: Millis, wanted: &mut Vec<RowValues>) {
        let Some(mut position) = self.status.statistics.take() else { return };
        let mut left = PORTS_PER_TURN;
        while left > 0 {
            let Some((bridge, after)) = position.bridge(&mut self.bridges) else { return };
            let backer = self.datapaths.of_bridge(bridge);
            let last =
                backer.and_then(|backer| bridge_statistics(backer, bridge, after, &mut left, now, wanted));
            match last {
                Some(port) => position.visited(port),
                None => position.end_bridge(),
            }
        }
        self.status.statistics = Some(position);
    }
}

/// The counters of the bridge's ports after `after`, in order, until `left`, in ports, is used up. Returns the last port that was visited; `None` if
/// there are no more.
fn bridge_statistics(
    backer: &Backer,
    bridge: &mut Bridge,
    after: Option<OfPort>,
    left: &mut usize,
    now: Millis,
    wanted: &mut Vec<RowValues>,
) -> Option<OfPort> {
    let (mut last, mut with_tree) = (None, Vec::new());
    let mut ports = bridge.ports.after_mut_unmarked(after);
    while *left > 0 {
        let Some(port) = ports.next() else {
            last = None;
            break;
        };
        last = Some(port.ofport);
        let activity = activity(backer, port);
        let is_written = activity.is_some() && port.database_stats == activity;
        if !is_written {
            wanted.extend(statistics_row(backer, bridge.id, port, activity));
        }
        if port.tree.is_some() {
            with_tree.push(port.ofport);
        }
        let cost = if is_written && port.tree.is_none() { 1 } else { READ_COST };
        *left = left.saturating_sub(cost);
    }
    drop(ports);
    let with_tree = with_tree.iter().filter_map(|ofport| bridge.ports.get(ofport));
    wanted.extend(with_tree.filter_map(|port| spanning_tree::port_row(backer, bridge, port, now)));
    last
}

/// The changes of ports that were not written yet. Ports of changed Port rows are added.
fn take_touched_ports(bridge: &mut Bridge) -> TouchedPorts {
    let mut touched = bridge.ports.take_for_status();
    let rows = touched.rows.iter().filter_map(|row| bridge.config.ports.get(row));
    let named = rows.flat_map(|row| &row.interfaces).filter_map(|i| bridge.ports.named(&i.name));
    touched.ports.extend(named.map(|port| port.ofport));
    touched
}

/// A number that changes whenever the counters of a port change; `None` if the device has no such number.
fn activity(backer: &Backer, port: &BridgePort) -> Option<u64> {
    let Backing::Device { netdev, number } = &port.backing else { return None };
    netdev.activity().map(|activity| activity.wrapping_add(backer.datapath.port_limit_drops(*number)))
}

/// The counters of a port; `None` if they are the same as those written last. `activity`: see [`activity`].
fn statistics_row(
    backer: &Backer,
    bridge: BridgeId,
    port: &mut BridgePort,
    activity: Option<u64>,
) -> Option<RowValues> {
    port.stats_read = true;
    let stats = match &mut port.backing {
        Backing::Device { netdev, number } => {
            crate::qos::statistics(Some(&backer.datapath), *number, &mut **netdev).ok()
        }
        Backing::Patch { .. } | Backing::Tunnel { .. } => {
            let s = backer.patch_tunnel_counters.get(bridge, port.ofport);
            Some(Stats {
                rx_packets: Some(s.rx_packets),
                rx_bytes: Some(s.rx_bytes),
                tx_packets: Some(s.tx_packets),
                tx_bytes: Some(s.tx_bytes),
                ..Stats::default()
            })
        }
    };
    let now = activity.unwrap_or_else(|| {
        let mut hasher = DefaultHasher::new();
        stats.hash(&mut hasher);
        hasher.finish()
    });
    if port.database_stats.replace(now) == Some(now) {
        return None;
    }
    let pairs = stats.map(|stats| stats.pairs()).unwrap_or_default();
    let mut row = RowValues::new("Interface", port.uuid);
    row.set("statistics", Datum::map(pairs.iter().map(|(k, v)| (k.as_str(), *v as i64))));
    Some(row)
}

/// The key in a `status` column that lists the settings of the row that have no effect.
const NOT_BUILT: &str = "not_built";

fn bridge_row(
    bridge: &Bridge,
    [mut status, rstp_status]: [BTreeMap<String, String>; 2],
    ineffective: &IneffectiveSettings,
    wanted: &mut Vec<RowValues>,
) {
    let mut row = RowValues::new("Bridge", bridge.config.uuid);
    let text = ineffective.get(&bridge.config.uuid).map(|text| (NOT_BUILT.to_owned(), text.clone()));
    status.extend(text);
    row.strings("status", &status);
    row.strings("rstp_status", &rstp_status);
    row.set("datapath_id", Datum::set([format!("{:016x}", bridge.datapath_id).as_str()]));
    row.set("datapath_version", Datum::scalar("<built-in>"));
    wanted.push(row);
}

/// Keys in the `status` column of a controller that change all the time. They are only written together with other changes, or with statistics.
fn is_counter(key: &str) -> bool {
    key.starts_with("sec_since_") || key.starts_with("packet-in-")
}

/// The rows of a bridge's controllers. With a replica, only rows in which more than counters differs from it.
fn controller_rows(
    bridge: &mut Bridge,
    now: Millis,
    replica: Option<&Replica>,
    ineffective: &IneffectiveSettings,
    wanted: &mut Vec<RowValues>,
) {
    let known = bridge.conns.status(now);
    for config in &bridge.config.controllers {
        // There is no state of a passive target, nor of any target before `flow-restore-wait` ends.
        let state = known.iter().find(|state| state.target == config.target);
        let (is_connected, role) = state.map_or((false, None), |s| (s.is_connected, s.role_name()));
        let mut pairs = state.map(|s| s.status.clone()).unwrap_or_default();
        pairs.extend(ineffective.get(&config.uuid).map(|text| (NOT_BUILT.to_owned(), text.clone())));
        let is_written =
            replica.and_then(|replica| replica.row("Controller", config.uuid)).is_some_and(|row| {
                let is_lasting = |(key, _): &(&str, &str)| !is_counter(key);
                let written = row.map("status").into_iter().filter(is_lasting);
                let now = pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).filter(is_lasting);
                row.bool("is_connected") == is_connected && row.opt_str("role") == role && written.eq(now)
            });
        if is_written {
            continue;
        }
        let mut row = RowValues::new("Controller", config.uuid);
        row.set("is_connected", Datum::scalar(is_connected));
        row.set("role", optional(role));
        row.strings("status", &pairs);
        wanted.push(row);
    }
}

/// The row of an interface that is a port.
fn interface_row(
    bridge: &Bridge,
    port: &BridgePort,
    peers: &Peers,
    ineffective: &IneffectiveSettings,
) -> RowValues {
    let mut row = device_row(port);
    let of_port = bridge.config.ports.get(&port.port_row).map(|p| p.uuid);
    let of_rows =
        [Some(port.uuid), of_port].into_iter().flatten().filter_map(|row| ineffective.get(&row).cloned());
    let out_of_service_reason = port.facts.as_ref().and_then(|facts| facts.out_of_service_reason.clone());
    let texts: Vec<String> =
        out_of_service_reason.into_iter().chain(port.warning.iter().cloned()).chain(of_rows).collect();
    let mut error = (!texts.is_empty()).then(|| texts.join("; "));
    if let Some(peer) = port.peer()
        && !peers.contains_key(&(bridge.id, port.ofport))
    {
        let kind = &bridge.config.datapath_type;
        error = Some(format!("No usable peer '{peer}' exists in '{kind}' datapath."));
    }
    row.set("error", optional(error.as_deref()));
    row
}

/// The row of an interface that could not be created, or whose device is gone.
fn failed_row(bridge: &Bridge, name: &str) -> Option<RowValues> {
    let failed = bridge.failed.get(name)?;
    let (_, interface) = bridge.config.interface(name)?;
    let mut row = RowValues::new("Interface", interface.uuid);
    row.set("ofport", Datum::scalar(-1));
    row.set("error", optional(Some(failed.why.as_str())));
    for column in ["admin_state", "link_state", "mac_in_use", "duplex"] {
        row.set(column, Datum::set::<&str>([]));
    }
    for column in ["mtu", "ifindex", "link_speed"] {
        row.set(column, Datum::set::<i64>([]));
    }
    for column in ["status", "statistics", "bfd_status"] {
        row.strings(column, &BTreeMap::new());
    }
    cfm_columns(&mut row, None);
    row.set("lacp_current", optional(None::<bool>));
    Some(row)
}

/// The columns of CFM; they are empty for an interface without CFM.
fn cfm_columns(row: &mut RowValues, status: Option<&Status>) {
    let (faults, ids) = status.map(|s| (s.faults.clone(), s.remote_ids.clone())).unwrap_or_default();
    let is_up = status.and_then(|s| s.remote_is_up);
    row.set("cfm_fault", optional(status.map(|s| !s.faults.is_empty())));
    row.set("cfm_fault_status", Datum::set(faults));
    row.set("cfm_flap_count", optional(status.map(|s| s.flaps as i64)));
    row.set("cfm_health", optional(status.and_then(|s| s.health).map(i64::from)));
    row.set("cfm_remote_mpids", Datum::set(ids.into_iter().map(|id| id as i64)));
    row.set("cfm_remote_opstate", optional(is_up.map(|is_up| if is_up { "up" } else { "down" })));
}

fn device_row(port: &BridgePort) -> RowValues {
    let mut row = RowValues::new("Interface", port.uuid);
    row.strings("bfd_status", &port.bfd.as_ref().map(|bfd| bfd.status.clone()).unwrap_or_default());
    cfm_columns(&mut row, port.cfm.as_ref().map(|cfm| &cfm.status));
    row.set("lacp_current", optional(port.lacp.as_ref().map(|lacp| lacp.has_partner_info)));
    let number = if port.ofport == OfPort::LOCAL { 65534 } else { i64::from(port.ofport.0) };
    row.set("ofport", Datum::scalar(number));
    match &port.facts {
        None => {
            // A patch port always has link.
            row.set("admin_state", Datum::scalar("up"));
            row.set("link_state", Datum::scalar("up"));
            row.set("ifindex", Datum::scalar(0));
            row.set("mac_in_use", Datum::scalar(port.patch_mac().to_string().as_str()));
            row.set("link_resets", Datum::scalar(0));
            for column in ["mtu", "duplex", "link_speed"] {
                row.set(column, Datum::set::<i64>([]));
            }
            // The interface may have had another type. The status of a tunnel is written with its routes.
            if port.tunnel().is_none() {
                row.strings("status", &BTreeMap::new());
            }
        }
        Some(f) => {
            let state = |up: bool| Datum::scalar(if up { "up" } else { "down" });
            row.set("admin_state", state(f.admin_up));
            // A device that is administratively down has no link, regardless of its driver.
            row.set("link_state", state(f.admin_up && f.link_up));
            row.set("link_resets", Datum::scalar(f.link_resets as i64));
            row.set("ifindex", Datum::scalar(f.ifindex.map_or(0, i64::from)));
            row.set("mac_in_use", Datum::scalar(port.mac().to_string().as_str()));
            row.set("mtu", Datum::scalar(i64::from(f.mtu)));
            row.set("duplex", optional(f.modes.full_duplex.map(|full| if full { "full" } else { "half" })));
            row.set("link_speed", optional(f.modes.speed_mbps.map(|mbps| i64::from(mbps) * 1_000_000)));
            let mut status = f.tx_offloads.status();
            status.extend(f.status.clone());
            row.strings("status", &status);
        }
    }
    row
}
