//! One bridge at run time: its OpenFlow state, its ports, its connections.
//!
//! **Threads**: the main loop only. What other threads need of it is in the published snapshot.

use crate::control::Deed;
use crate::macs::SharedMacs;
use crate::mirrors::BridgeMirror;
use crate::openflow::{Barrier, Commit, Dump};
use crate::port::BridgePort;
use bridge::BundleId;
use config::BridgeConfig;
use flow::Mac;
use ofconn::{ConnId, ConnManager};
use ofproto::{FlowMonitors, Ofproto};
use openflow::session::FragMode;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use units::{Millis, OfPort};
use xlate::BridgeId;

/// See the module.
pub struct Bridge {
    /// Never used again for another bridge.
    pub id: BridgeId,
    /// Its name, and that of its local port.
    pub name: String,
    /// What it is configured as.
    pub config: BridgeConfig,
    /// Tables and groups.
    pub ofproto: Ofproto,
    /// Learning table.
    pub macs: Arc<SharedMacs>,
    /// OpenFlow ports.
    pub ports: BTreeMap<OfPort, BridgePort>,
    /// Some port has not told controllers all yet.
    pub port_news: bool,
    /// Connections.
    pub conns: ConnManager,
    /// What connections watch.
    pub monitors: BTreeMap<ConnId, FlowMonitors>,
    /// Datapath id (OpenFlow 1.0 §5.3.1).
    pub datapath_id: u64,
    /// The Ethernet address of the local port.
    pub mac: Mac,
    /// Fragment handling (`ovs-ofctl set-frags`).
    pub frags: FragMode,
    /// The standalone fall-back flow is in place: the bridge forwards although no controller said so.
    pub fallback: bool,
    /// Interfaces that could not be made, or whose device is gone, by name.
    pub failed: BTreeMap<String, Failed>,
    /// No controller is connected since.
    pub alone_since: Option<Millis>,
    /// A connection wants the packets that no flow matches.
    pub packet_in_on_miss: bool,
    /// A controller is connected.
    pub alive: bool,
    /// The MTU that its internal ports were brought to last.
    pub mtu: Option<u32>,
    /// Its mirrors.
    pub mirrors: Vec<BridgeMirror>,
    /// It was configured once.
    pub configured: bool,
    /// The commit of a bundle that takes several turns.
    pub commit: Option<Commit>,
    /// What packets asked for meanwhile.
    pub deferred: Vec<Deed>,
    /// Dumps of flows that take several turns.
    pub dumps: BTreeMap<ConnId, Dump>,
    /// Barriers that wait for the datapath.
    pub barriers: BTreeMap<ConnId, Barrier>,
    bundles: HashMap<String, BundleId>,
    /// The bridge's address where no port gives one: made of the first row that it had.
    pub default_mac: Mac,
    /// When a port number was given up: it is used again only when no other is free.
    retired: HashMap<OfPort, Millis>,
    next_port: u16,
}

/// An interface without a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The text of its `error` column.
    pub why: String,
    /// The OpenFlow number that it had, and gets again with its device, if nobody else has asked for it meanwhile.
    pub ofport: Option<OfPort>,
}

/// The number of an OpenFlow port is left alone this long after its port is gone, so that flows for the old port do
/// not meet another one.
const REUSE_AFTER: Millis = Millis(3_600_000);

/// The highest number that a port gets without asking for it.
const AUTOMATIC_MAX: u16 = 0x7fff;

impl Bridge {
    /// A bridge without ports.
    pub fn new(id: BridgeId, config: BridgeConfig, conns: ConnManager, now: Millis, seed: u64) -> Bridge {
        Bridge {
            id,
            name: config.name.clone(),
            ofproto: Ofproto::new(now, cpu::derive(seed, b"openflow")),
            macs: Arc::default(),
            ports: BTreeMap::new(),
            port_news: false,
            conns,
            monitors: BTreeMap::new(),
            datapath_id: 0,
            mac: Mac::default(),
            frags: FragMode::Normal,
            fallback: false,
            failed: BTreeMap::new(),
            alone_since: None,
            packet_in_on_miss: false,
            alive: false,
            mtu: None,
            mirrors: Vec::new(),
            configured: false,
            commit: None,
            deferred: Vec::new(),
            dumps: BTreeMap::new(),
            barriers: BTreeMap::new(),
            bundles: HashMap::new(),
            default_mac: crate::configure_bridge::address_of_row(config.uuid),
            retired: HashMap::new(),
            next_port: 0,
            config,
        }
    }

    /// Something takes several turns.
    pub fn is_at_work(&self) -> bool {
        self.commit.is_some() || !self.dumps.is_empty() || !self.barriers.is_empty()
    }

    /// Something that takes several turns can go on.
    pub fn can_go_on(&self) -> bool {
        self.dumps.iter().any(|(conn, dump)| dump.is_ready() && self.conns.output_len(*conn) == 0)
    }

    /// A port by the name of its device.
    pub fn port_named(&self, name: &str) -> Option<&BridgePort> {
        self.ports.values().find(|p| p.name == name)
    }

    /// The same, to be changed.
    pub fn port_named_mut(&mut self, name: &str) -> Option<&mut BridgePort> {
        self.ports.values_mut().find(|p| p.name == name)
    }

    /// The identity of a row of table Port; the same for the same name as long as the bridge lives.
    pub fn bundle_id(&mut self, port_row: &str) -> BundleId {
        let next = BundleId(self.bundles.len() as u32);
        *self.bundles.entry(port_row.to_owned()).or_insert(next)
    }

    /// The name of the row behind a bundle.
    pub fn bundle_name(&self, id: BundleId) -> Option<&str> {
        self.bundles.iter().find(|(_, b)| **b == id).map(|(name, _)| name.as_str())
    }

    /// A number for a new port: the first of `wanted` that is free, else the next free one. Numbers that were in use within
    /// the last hour come last, the one longest out of use first.
    pub fn allocate_ofport(&mut self, name: &str, wanted: &[OfPort], now: Millis) -> Option<OfPort> {
        if name == self.name {
            return (!self.ports.contains_key(&OfPort::LOCAL)).then_some(OfPort::LOCAL);
        }
        let is_free = |p: &OfPort| p.is_ordinary() && !self.ports.contains_key(p);
        if let Some(port) = wanted.iter().copied().find(is_free) {
            self.retired.remove(&port);
            return Some(port);
        }
        // The upper half is left to those who ask.
        let last = AUTOMATIC_MAX;
        let free = (1..=last).map(|i| OfPort((self.next_port + i - 1) % last + 1)).filter(is_free);
        let rested = |p: &OfPort| self.retired.get(p).is_none_or(|&t| now.since(t) >= REUSE_AFTER);
        let port = match free.clone().find(rested) {
            Some(port) => {
                self.next_port = port.0;
                port
            }
            None => free.min_by_key(|p| self.retired.get(p).copied())?,
        };
        self.retired.remove(&port);
        Some(port)
    }

    /// The number of a port that is gone.
    pub fn retire_ofport(&mut self, port: OfPort, now: Millis) {
        if port != OfPort::LOCAL {
            self.retired.insert(port, now);
        }
    }
}

/// The names of a bridge's ports, for text.
pub struct Names<'a>(pub &'a Bridge);

impl flow::text::NameMap for Names<'_> {
    fn port_name(&self, port: OfPort) -> Option<String> {
        self.0.ports.get(&port).map(|p| p.name.clone())
    }

    fn port_number(&self, name: &str) -> Option<OfPort> {
        self.0.port_named(name).map(|p| p.ofport)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::FailMode;
    use ovsdb::Uuid;

    fn bridge() -> Bridge {
        let config = BridgeConfig {
            uuid: Uuid::nil(),
            name: "br0".to_owned(),
            datapath_type: "dummy".to_owned(),
            datapath_id: None,
            hwaddr: None,
            fail_mode: FailMode::Secure,
            protocols: Vec::new(),
            controllers: Vec::new(),
            ports: BTreeMap::new(),
            flood_vlans: Vec::new(),
            mac_aging_secs: 300,
            mac_table_size: 8192,
            forward_bpdu: false,
            flow_tables: BTreeMap::new(),
            mirrors: Vec::new(),
            other_config: BTreeMap::new(),
        };
        Bridge::new(BridgeId(1), config, ConnManager::new("br0"), Millis(0), 0)
    }

    fn add(bridge: &mut Bridge, name: &str, request: Option<u16>, now: u64) -> OfPort {
        let wanted: Vec<OfPort> = request.map(OfPort).into_iter().collect();
        let ofport = bridge.allocate_ofport(name, &wanted, Millis(now)).unwrap();
        let port = BridgePort {
            uuid: Uuid::nil(),
            name: name.to_owned(),
            kind: "patch".to_owned(),
            port_row: name.to_owned(),
            ofport,
            backing: crate::port::Backing::Patch { peer: String::new() },
            config: Default::default(),
            facts: None,
            change_seq: 0,
            told: None,
            bfd: None,
            counted: false,
            created: Millis(now),
            warning: None,
        };
        bridge.ports.insert(ofport, port);
        ofport
    }

    #[test]
    fn numbers_are_given_as_asked_or_in_order() {
        let mut b = bridge();
        assert_eq!(add(&mut b, "br0", None, 0), OfPort::LOCAL);
        assert_eq!(add(&mut b, "a", None, 0), OfPort(1));
        assert_eq!(add(&mut b, "b", Some(7), 0), OfPort(7));
        assert_eq!(add(&mut b, "c", Some(7), 0), OfPort(2));
        assert_eq!(add(&mut b, "d", Some(65280), 0), OfPort(3));
    }

    #[test]
    fn a_number_that_was_given_up_rests_for_an_hour() {
        let mut b = bridge();
        for name in ["a", "b"] {
            add(&mut b, name, None, 0);
        }
        b.ports.remove(&OfPort(1));
        b.retire_ofport(OfPort(1), Millis(0));
        assert_eq!(add(&mut b, "c", None, 1000), OfPort(3));
        // Who asks for it gets it all the same.
        assert_eq!(add(&mut b, "d", Some(1), 1000), OfPort(1));
    }

    #[test]
    fn the_first_wanted_number_that_is_free_is_given() {
        let mut b = bridge();
        assert_eq!(add(&mut b, "a", Some(7), 0), OfPort(7));
        let wanted = [OfPort(7), OfPort::LOCAL, OfPort(9), OfPort(3)];
        assert_eq!(b.allocate_ofport("b", &wanted, Millis(0)), Some(OfPort(9)));
        // Numbers that are given as wanted do not move the place where the search goes on.
        assert_eq!(add(&mut b, "c", None, 0), OfPort(1));
    }

    #[test]
    fn a_row_keeps_its_identity() {
        let mut b = bridge();
        let first = b.bundle_id("p1");
        assert_ne!(b.bundle_id("p2"), first);
        assert_eq!(b.bundle_id("p1"), first);
        assert_eq!(b.bundle_name(first), Some("p1"));
    }
}
