//! One bridge at run time: its OpenFlow state, its ports, its connections.
//!
//! **Threads**: the main loop only. What other threads need of it is in the published snapshot.

use crate::bridge_mirror::BridgeMirror;
use crate::controller_state::ControllerState;
use crate::least::Least;
use crate::port::BridgePort;
use crate::ports::Ports;
use crate::unfinished::Unfinished;
use bridge::BundleId;
use config::BridgeConfig;
use flow::Mac;
use ofconn::{ConnId, ConnManager};
use ofproto::{FlowMonitors, Ofproto};
use openflow::session::FragMode;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use translation::SharedMacs;
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
    pub ports: Ports,
    /// Ports that have not told controllers all yet.
    pub port_news: BTreeSet<OfPort>,
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
    /// Interfaces that could not be made, or whose device is gone, by name.
    pub failed: BTreeMap<String, Failed>,
    /// Whether controllers are there, and what follows from it.
    pub controllers: ControllerState,
    /// What follows from all ports together.
    pub common: Common,
    /// Its mirrors.
    pub mirrors: Vec<BridgeMirror>,
    /// It was configured once.
    pub configured: bool,
    /// What takes several turns.
    pub unfinished: Unfinished,
    /// The bridge's address where no port gives one: made of the first row that it had.
    pub default_mac: Mac,
    numbers: Numbers,
}

/// What follows from all ports of a bridge together.
#[derive(Default)]
pub struct Common {
    /// The addresses that the bridge may take, by row of table Port.
    pub addresses: Least<String, Mac>,
    /// The MTUs of ports that do not follow the bridge's.
    pub mtus: Least<OfPort, u32>,
    /// The ports that follow it.
    pub followers: BTreeSet<OfPort>,
    /// The MTU that these were brought to last.
    pub mtu: Option<u32>,
    /// Ports that ask for another number than they have, by name.
    pub misnumbered: BTreeSet<String>,
}

/// Numbers of ports and bundles.
#[derive(Default)]
struct Numbers {
    bundles: HashMap<String, BundleId>,
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
            ports: Ports::default(),
            port_news: BTreeSet::new(),
            conns,
            monitors: BTreeMap::new(),
            datapath_id: 0,
            mac: Mac::default(),
            frags: FragMode::Normal,
            failed: BTreeMap::new(),
            controllers: ControllerState::default(),
            common: Common::default(),
            mirrors: Vec::new(),
            configured: false,
            unfinished: Unfinished::default(),
            default_mac: address_of_row(config.uuid),
            numbers: Numbers::default(),
            config,
        }
    }

    /// Something takes several turns.
    pub fn is_at_work(&self) -> bool {
        self.unfinished.any()
    }

    /// Something that takes several turns can go on.
    pub fn can_go_on(&self) -> bool {
        self.unfinished.dumps.iter().any(|(conn, dump)| dump.is_ready() && self.conns.output_len(*conn) == 0)
    }

    /// A port by the name of its device.
    pub fn port_named(&self, name: &str) -> Option<&BridgePort> {
        self.ports.named(name)
    }

    /// The same, to be changed.
    pub fn port_named_mut(&mut self, name: &str) -> Option<&mut BridgePort> {
        self.ports.named_mut(name)
    }

    /// The identity of a row of table Port; the same for the same name as long as the bridge lives.
    pub fn bundle_id(&mut self, port_row: &str) -> BundleId {
        self.known_bundle(port_row).unwrap_or_else(|| {
            let next = BundleId(self.numbers.bundles.len() as u32);
            self.numbers.bundles.insert(port_row.to_owned(), next);
            next
        })
    }

    /// The same, if the row has one.
    pub fn known_bundle(&self, port_row: &str) -> Option<BundleId> {
        self.numbers.bundles.get(port_row).copied()
    }

    /// The name of the row behind a bundle.
    pub fn bundle_name(&self, id: BundleId) -> Option<&str> {
        self.numbers.bundles.iter().find(|(_, b)| **b == id).map(|(name, _)| name.as_str())
    }

    /// An interface cannot be made, or lost its device.
    pub fn fail(&mut self, name: &str, failed: Failed) {
        self.failed.insert(name.to_owned(), failed);
        self.ports.touch_status(name);
    }

    /// A number for a new port: the first of `wanted` that is free, else the next free one. Numbers that were in use within
    /// the last hour come last, the one longest out of use first.
    pub fn allocate_ofport(&mut self, name: &str, wanted: &[OfPort], now: Millis) -> Option<OfPort> {
        if name == self.name {
            return (!self.ports.contains_key(&OfPort::LOCAL)).then_some(OfPort::LOCAL);
        }
        let is_free = |p: &OfPort| p.is_ordinary() && !self.ports.contains_key(p);
        if let Some(port) = wanted.iter().copied().find(is_free) {
            self.numbers.retired.remove(&port);
            return Some(port);
        }
        // The upper half is left to those who ask.
        let last = AUTOMATIC_MAX;
        let free = (1..=last).map(|i| OfPort((self.numbers.next_port + i - 1) % last + 1)).filter(is_free);
        let rested = |p: &OfPort| self.numbers.retired.get(p).is_none_or(|&t| now.since(t) >= REUSE_AFTER);
        let port = match free.clone().find(rested) {
            Some(port) => {
                self.numbers.next_port = port.0;
                port
            }
            None => free.min_by_key(|p| self.numbers.retired.get(p).copied())?,
        };
        self.numbers.retired.remove(&port);
        Some(port)
    }

    /// The number of a port that is gone.
    pub fn retire_ofport(&mut self, port: OfPort, now: Millis) {
        if port != OfPort::LOCAL {
            self.numbers.retired.insert(port, now);
        }
    }
}

/// The address of a bridge that has no better one: it stays over restarts, and is the one that Open vSwitch makes of the
/// row, which takes the UUID as words of the machine, and its bytes as they lie in memory.
fn address_of_row(row: ovsdb::Uuid) -> Mac {
    let bytes = row.as_bytes();
    let [a, b, c, d, e, f, g, h, ..] = *bytes;
    let words =
        [u32::from_be_bytes([a, b, c, d]).to_ne_bytes(), u32::from_be_bytes([e, f, g, h]).to_ne_bytes()];
    let [[a, b, c, d], [e, f, ..]] = words;
    Mac([a & !1 | 2, b, c, d, e, f])
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
            ports: config::PortConfigs::default(),
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
            lacp: None,
            qos: Default::default(),
            counted: false,
            shown: None,
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
