//! The configuration of one `Port` row and of its interfaces.

use crate::interface::InterfaceConfig;
use crate::link_aggregation::{self, LacpConfig};
use crate::qos::QosConfig;
use crate::row::Row;
use crate::spanning_tree::TreePortConfigs;
use bridge::{PriorityTags, VlanConfig, VlanMode, VlanSet};
use ovsdb::Uuid;
use settings::port::{MAC, MCAST_SNOOPING_FLOOD, MCAST_SNOOPING_FLOOD_REPORTS, PRIORITY_TAGS, QINQ_ETHTYPE};
use std::collections::BTreeMap;

/// Multicast packets that are sent to a port even if it joined no group, if the bridge has multicast snooping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortSnooping {
    /// All multicast packets except reports.
    pub flood: bool,
    /// All reports.
    pub flood_reports: bool,
}

impl PortSnooping {
    fn read(other_config: &BTreeMap<String, String>) -> PortSnooping {
        PortSnooping {
            flood: MCAST_SNOOPING_FLOOD.flag_of(other_config),
            flood_reports: MCAST_SNOOPING_FLOOD_REPORTS.flag_of(other_config),
        }
    }
}

/// The desired configuration of one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// UUID of the port's row.
    pub uuid: Uuid,
    /// The port's name.
    pub name: String,
    /// The port's devices; two or more form a bond.
    pub interfaces: Vec<InterfaceConfig>,
    /// Whether the port represents a fake bridge: the bridge of one VLAN in `ovs-vsctl`.
    pub fake_bridge: bool,
    /// Column `tag`, even if the VLAN mode does not use it.
    pub tag: Option<i64>,
    /// VLAN configuration.
    pub vlan: VlanConfig,
    /// Column `mac` as text: the address that represents this port when the bridge selects its own address.
    pub mac: Option<String>,
    /// A protected port does not exchange packets with other protected ports.
    pub protected: bool,
    /// Settings of the bond, if the port is a bond.
    pub bond: bond::Settings,
    /// Settings of LACP; `None`: LACP is off.
    pub lacp: Option<LacpConfig>,
    /// Spanning tree.
    pub spanning_tree: TreePortConfigs,
    /// Multicast packets that are always sent to the port.
    pub snooping: PortSnooping,
    /// Queueing of sent packets.
    pub qos: Option<QosConfig>,
}

impl PortConfig {
    /// Whether the port is a bond or uses LACP.
    pub fn is_aggregated(&self) -> bool {
        self.interfaces.len() > 1 || self.lacp.is_some()
    }

    /// Whether this port, which represents a fake bridge, may use the address of `other`: if `other` has the same tag, or this port has none.
    pub fn shares_tag(&self, other: &PortConfig) -> bool {
        self.tag.is_none() || self.tag == other.tag
    }

    /// Reads a row and the interfaces to which it refers.
    pub fn read(row: &Row<'_>) -> PortConfig {
        let mut interfaces: Vec<InterfaceConfig> =
            row.references("interfaces", "Interface").iter().map(InterfaceConfig::read).collect();
        interfaces.sort_by(|a, b| a.name.cmp(&b.name));
        PortConfig {
            uuid: row.uuid,
            name: row.str("name").to_owned(),
            interfaces,
            fake_bridge: row.bool("fake_bridge"),
            tag: row.opt_int("tag"),
            vlan: vlan(row),
            mac: row.opt_str(MAC.column).map(str::to_owned),
            protected: row.bool("protected"),
            bond: link_aggregation::bond(row),
            lacp: link_aggregation::lacp(row),
            spanning_tree: TreePortConfigs::read(row),
            snooping: PortSnooping::read(&row.map("other_config")),
            qos: QosConfig::read(row),
        }
    }
}

/// Reads `vlan_mode`, `tag`, `trunks`, `cvlans` and the tag settings of `other_config`. Without a mode, a port with a
/// tag is an access port, and a port without one is a trunk.
fn vlan(row: &Row<'_>) -> VlanConfig {
    let other_config = row.map("other_config");
    let vlans = |column| {
        let set: Vec<u16> = row.ints(column).into_iter().filter_map(|v| u16::try_from(v).ok()).collect();
        (!set.is_empty()).then(|| set.into_iter().collect::<VlanSet>())
    };
    let tag = row.opt_int("tag").and_then(|v| u16::try_from(v).ok());
    let mode = match row.str("vlan_mode") {
        "access" => VlanMode::Access,
        "trunk" => VlanMode::Trunk,
        "native-tagged" => VlanMode::NativeTagged,
        "native-untagged" => VlanMode::NativeUntagged,
        "dot1q-tunnel" => VlanMode::Dot1qTunnel,
        _ if tag.is_some() => VlanMode::Access,
        _ => VlanMode::Trunk,
    };
    let priority_tags = match PRIORITY_TAGS.word(&other_config) {
        "always" => PriorityTags::Always,
        "if-nonzero" => PriorityTags::IfNonzero,
        // In older versions of Open vSwitch the setting was a boolean.
        other if other.eq_ignore_ascii_case("true") => PriorityTags::IfNonzero,
        _ => PriorityTags::Never,
    };
    let qinq_ethtype = match QINQ_ETHTYPE.word(&other_config) {
        "802.1q" => 0x8100,
        _ => 0x88a8,
    };
    let config = VlanConfig {
        mode,
        tag: tag.unwrap_or(0),
        trunks: vlans("trunks"),
        cvlans: vlans("cvlans"),
        qinq_ethtype,
        priority_tags,
    };
    config.normalized()
}
