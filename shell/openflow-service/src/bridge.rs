//! One bridge at run time: its OpenFlow state, its ports, its connections.
//!
//! **Threads**: the main loop only. Other threads read the published snapshot, which has a copy of the state that they need.

use crate::bridge_mirror::BridgeMirror;
use crate::controller_state::ControllerState;
use crate::port::BridgePort;
use crate::ports::Ports;
use crate::removed_ports::RemovedPorts;
use crate::sorted_values::SortedValues;
use crate::unfinished::{Dump, Unfinished};
use bridge::BundleId;
use config::BridgeConfig;
use flow::Mac;
use ofconn::{ConnId, Connections};
use ofproto::{FlowMonitors, Ofproto};
use openflow::session::FragMode;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use translation::{SharedGroupTable, SharedMacs};
use units::{Millis, OfPort};
use xlate::BridgeId;

/// A bridge.
pub struct Bridge {
    /// Identifies the bridge; never reused for another bridge.
    pub id: BridgeId,
    /// The name of the bridge and of its local port.
    pub name: String,
    /// The configuration from the database.
    pub config: BridgeConfig,
    /// OpenFlow tables, groups and meters.
    pub ofproto: Ofproto,
    /// MAC learning table.
    pub macs: Arc<SharedMacs>,
    /// Multicast groups that snooping has learned; empty without multicast snooping.
    pub multicast_groups: Arc<SharedGroupTable>,
    /// OpenFlow ports.
    pub ports: Ports,
    /// Ports with changes that are not completely reported to controllers; see [`BridgePort::reported_state`].
    pub unreported_ports: BTreeSet<OfPort>,
    /// Connections.
    pub conns: Connections,
    /// Flow monitors of connections.
    pub monitors: BTreeMap<ConnId, FlowMonitors>,
    /// Datapath id (OpenFlow 1.0 §5.3.1).
    pub datapath_id: u64,
    /// The Ethernet address of the local port.
    pub mac: Mac,
    /// Fragment handling (`ovs-ofctl set-frags`).
    pub frags: FragMode,
    /// Interfaces that could not be created, or whose device is gone, by name.
    pub failed: BTreeMap<String, FailedInterface>,
    /// Whether controllers are connected, and the state that depends on it.
    pub controllers: ControllerState,
    /// State that depends on all ports.
    pub all_ports: AllPortsState,
    /// The mirrors of the bridge.
    pub mirrors: Vec<BridgeMirror>,
    /// Whether the bridge was configured at least once.
    pub configured: bool,
    /// Work in progress.
    pub unfinished: Unfinished,
    numbers: Numbers,
}

/// State that depends on all ports of a bridge.
#[derive(Default)]
pub struct AllPortsState {
    /// Candidates for the bridge's address, by row of table Port.
    pub addresses: SortedValues<String, Mac>,
    /// The bridge's address if no port provides one, derived from the UUID of the row with which the bridge was created.
    pub default_mac: Mac,
    /// Rows of table Port that stand for fake bridges.
    pub fake_bridges: BTreeSet<String>,
    /// MTUs of the ports that do not follow the bridge's MTU.
    pub mtus: SortedValues<OfPort, u32>,
    /// Ports whose MTU follows the bridge's MTU.
    pub followers: BTreeSet<OfPort>,
    /// The MTU that was last set on the ports in `followers`.
    pub mtu: Option<u32>,
    /// Names of ports whose number may differ from the requested one.
    pub renumber_candidates: BTreeSet<String>,
    /// Ports that were removed recently.
    pub removed: RemovedPorts,
}

/// Assigned numbers of bundles, and released port numbers.
#[derive(Default)]
struct Numbers {
    bundles: HashMap<String, BundleId>,
    /// Port numbers that are held back, with the time at which each was released; see [`Bridge::hold_back_ofport`].
    held_back: HashMap<OfPort, Millis>,
    /// The number that was assigned last without a request; the search for a free number continues after it.
    next_port: u16,
}

/// An interface without a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedInterface {
    /// The text of its `error` column.
    pub why: String,
    /// The OpenFlow port number that the interface had. The interface gets this number again unless another port has requested it meanwhile.
    pub ofport: Option<OfPort>,
}

/// A released OpenFlow port number is not reused for this time (one hour), so that flows for the old port do not apply to a new port.
const REUSE_AFTER: Millis = Millis(3_600_000);

/// The highest number that is assigned without a request.
const AUTOMATIC_MAX: u16 = 0x7fff;

impl Bridge {
    /// A bridge without ports.
    pub fn new(id: BridgeId, config: BridgeConfig, conns: Connections, now: Millis, seed: u64) -> Bridge {
        Bridge {
            id,
            name: config.name.clone(),
            ofproto: Ofproto::new(now, cpu::derive(seed, b"openflow")),
            macs: Arc::default(),
            multicast_groups: Arc::default(),
            ports: Ports::default(),
            unreported_ports: BTreeSet::new(),
            conns,
            monitors: BTreeMap::new(),
            datapath_id: 0,
            mac: Mac::default(),
            frags: FragMode::Normal,
            failed: BTreeMap::new(),
            controllers: ControllerState::default(),
            all_ports: AllPortsState { default_mac: address_of_row(config.uuid), ..AllPortsState::default() },
            mirrors: Vec::new(),
            configured: false,
            unfinished: Unfinished::default(),
            numbers: Numbers::default(),
            config,
        }
    }

    /// Whether there is work in progress.
    pub fn is_at_work(&self) -> bool {
        self.unfinished.has_work()
    }

    /// Whether a long reply can send its next part, or has ended, so that the next request can be executed.
    pub fn can_continue(&self) -> bool {
        self.unfinished.dumps.iter().any(|(conn, dump)| match dump {
            Dump::Ports { .. } => self.conns.is_written(*conn),
            Dump::Sent => !self.conns.is_sending(*conn),
            Dump::Awaited { .. } => false,
        })
    }

    /// Whether flows that have expired wait for the next turn of the main loop. A bundle that is being tried must not be disturbed.
    pub fn has_more_to_expire(&self) -> bool {
        self.unfinished.commit.is_none() && self.ofproto.has_more_to_expire()
    }

    /// The port with a device of this name.
    pub fn port_named(&self, name: &str) -> Option<&BridgePort> {
        self.ports.named(name)
    }

    /// The port with a device of this name, mutable.
    pub fn port_named_mut(&mut self, name: &str) -> Option<&mut BridgePort> {
        self.ports.named_mut(name)
    }

    /// The bundle id of a row of table Port. It is assigned at the first call, and stays the same as long as the bridge exists.
    pub fn bundle_id(&mut self, port_row: &str) -> BundleId {
        self.known_bundle(port_row).unwrap_or_else(|| {
            let next = BundleId(self.numbers.bundles.len() as u32);
            self.numbers.bundles.insert(port_row.to_owned(), next);
            next
        })
    }

    /// The bundle id of a row of table Port, if one was assigned.
    pub fn known_bundle(&self, port_row: &str) -> Option<BundleId> {
        self.numbers.bundles.get(port_row).copied()
    }

    /// The name of the row of table Port that has this bundle id.
    pub fn bundle_name(&self, id: BundleId) -> Option<&str> {
        self.numbers.bundles.iter().find(|(_, b)| **b == id).map(|(name, _)| name.as_str())
    }

    /// The first port of a bundle.
    pub fn first_port_of(&self, id: BundleId) -> Option<OfPort> {
        let row = self.bundle_name(id)?;
        self.ports.values().find(|p| p.port_row == row).map(|p| p.ofport)
    }

    /// Records that an interface could not be created or has lost its device.
    pub fn fail(&mut self, name: &str, failed: FailedInterface) {
        self.failed.insert(name.to_owned(), failed);
        self.ports.touch_status(name);
    }

    /// Chooses the number of a new port: the first free number of `wanted`, otherwise the next free number that is not held back,
    /// otherwise the free number that has been held back for the longest time.
    pub fn allocate_ofport(&mut self, name: &str, wanted: &[OfPort], now: Millis) -> Option<OfPort> {
        if name == self.name {
            return (!self.ports.contains_key(&OfPort::LOCAL)).then_some(OfPort::LOCAL);
        }
        let is_free = |p: &OfPort| p.is_ordinary() && !self.ports.contains_key(p);
        if let Some(port) = wanted.iter().copied().find(is_free) {
            self.numbers.held_back.remove(&port);
            return Some(port);
        }
        // Numbers above `AUTOMATIC_MAX` are assigned on request only.
        let last = AUTOMATIC_MAX;
        let free = (1..=last).map(|i| OfPort((self.numbers.next_port + i - 1) % last + 1)).filter(is_free);
        let rested = |p: &OfPort| self.numbers.held_back.get(p).is_none_or(|&t| now.since(t) >= REUSE_AFTER);
        let port = match free.clone().find(rested) {
            Some(port) => {
                self.numbers.next_port = port.0;
                port
            }
            None => free.min_by_key(|p| self.numbers.held_back.get(p).copied())?,
        };
        self.numbers.held_back.remove(&port);
        Some(port)
    }

    /// Holds back the number of a removed or failed port: within [`REUSE_AFTER`], a port that does not request this number gets it only if
    /// no other number is free.
    pub fn hold_back_ofport(&mut self, port: OfPort, now: Millis) {
        if port != OfPort::LOCAL {
            self.numbers.held_back.insert(port, now);
        }
    }
}

/// The default address of a bridge. It is constant over restarts and equal to the address that Open vSwitch derives from the row's UUID.
/// Open vSwitch stores a UUID as 32-bit words in the byte order of the machine.
fn address_of_row(row: ovsdb::Uuid) -> Mac {
    let bytes = row.as_bytes();
    let [a, b, c, d, e, f, g, h, ..] = *bytes;
    let words =
        [u32::from_be_bytes([a, b, c, d]).to_ne_bytes(), u32::from_be_bytes([e, f, g, h]).to_ne_bytes()];
    let [[a, b, c, d], [e, f, ..]] = words;
    Mac([a & !1 | 2, b, c, d, e, f])
}

/// Maps port numbers of a bridge to names and back, for formatting and parsing text.
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
    use crate::tests::{config, port};

    fn bridge() -> Bridge {
        Bridge::new(BridgeId(1), config(), Connections::new("br0"), Millis(0), 0)
    }

    fn add(bridge: &mut Bridge, name: &str, request: Option<u16>, now: u64) -> OfPort {
        let wanted: Vec<OfPort> = request.map(OfPort).into_iter().collect();
        let ofport = bridge.allocate_ofport(name, &wanted, Millis(now)).unwrap();
        let name = name.to_owned();
        let port = BridgePort { port_row: name.clone(), name, created: Millis(now), ..port(ofport.0) };
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
    fn a_released_number_is_not_reused_for_an_hour() {
        let mut b = bridge();
        for name in ["a", "b"] {
            add(&mut b, name, None, 0);
        }
        b.ports.remove(&OfPort(1));
        b.hold_back_ofport(OfPort(1), Millis(0));
        assert_eq!(add(&mut b, "c", None, 1000), OfPort(3));
        // A port that requests the number gets it nevertheless.
        assert_eq!(add(&mut b, "d", Some(1), 1000), OfPort(1));
    }

    #[test]
    fn the_first_wanted_number_that_is_free_is_given() {
        let mut b = bridge();
        assert_eq!(add(&mut b, "a", Some(7), 0), OfPort(7));
        let wanted = [OfPort(7), OfPort::LOCAL, OfPort(9), OfPort(3)];
        assert_eq!(b.allocate_ofport("b", &wanted, Millis(0)), Some(OfPort(9)));
        // Requested numbers do not change where the search for a free number continues.
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
