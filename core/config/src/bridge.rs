//! The configuration of one `Bridge` row and of the rows to which it refers.

use crate::controller::ControllerConfig;
use crate::interface::InterfaceConfig;
use crate::mirror::MirrorConfig;
use crate::port::PortConfig;
use crate::port_configs::PortConfigs;
use crate::row::Row;
use crate::sampling::SamplingConfig;
use crate::spanning_tree::TreeConfig;
use ovsdb::Uuid;
use settings::bridge::{
    DATAPATH_ID, FORWARD_BPDU, HWADDR, MAC_AGING_TIME, MAC_TABLE_SIZE, MCAST_SNOOPING_AGING_TIME,
    MCAST_SNOOPING_DISABLE_FLOOD_UNREGISTERED, MCAST_SNOOPING_TABLE_SIZE,
};
use std::collections::BTreeMap;

/// What a bridge does while controllers are configured but none is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailMode {
    /// Forward as a learning switch.
    #[default]
    Standalone,
    /// Do not change flows: only the controller's flows forward packets.
    Secure,
}

/// The configuration of one table (a row of `Flow_Table`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowTableConfig {
    /// Name shown to controllers.
    pub name: Option<String>,
    /// Maximum number of flows.
    pub flow_limit: Option<u32>,
    /// If the table is full, evict a flow (true) or refuse the new one (false).
    pub evict: bool,
    /// Fields whose values divide the flows into groups for fair eviction.
    pub groups: Vec<String>,
    /// Fields with prefix tries; `None`: the default fields.
    pub prefixes: Option<Vec<String>>,
}

/// Multicast snooping of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnoopingConfig {
    /// Ageing time of groups in seconds.
    pub aging_secs: u32,
    /// Maximum number of groups.
    pub table_size: u32,
    /// Packets to groups without members are flooded.
    pub flood_unregistered: bool,
}

impl SnoopingConfig {
    fn read(other_config: &BTreeMap<String, String>) -> SnoopingConfig {
        SnoopingConfig {
            aging_secs: MCAST_SNOOPING_AGING_TIME.number(other_config) as u32,
            table_size: MCAST_SNOOPING_TABLE_SIZE.number(other_config) as u32,
            flood_unregistered: !MCAST_SNOOPING_DISABLE_FLOOD_UNREGISTERED.flag_of(other_config),
        }
    }
}

/// A row of `AutoAttach`: what the ports of a bridge with LLDP announce.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AutoAttachConfig {
    /// Name of the system; may be empty.
    pub system_name: String,
    /// Description of the system; may be empty.
    pub system_description: String,
    /// Services (I-SIDs of 24 bits) and the VLANs that carry them.
    pub mappings: BTreeMap<u32, u16>,
}

impl AutoAttachConfig {
    fn read(row: &Row<'_>) -> AutoAttachConfig {
        let mapping = |(isid, vlan)| Some((u32::try_from(isid).ok()?, u16::try_from(vlan).ok()?));
        AutoAttachConfig {
            system_name: row.str("system_name").to_owned(),
            system_description: row.str("system_description").to_owned(),
            mappings: row.int_pairs("mappings").into_iter().filter_map(mapping).collect(),
        }
    }
}

/// The desired configuration of one bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeConfig {
    /// UUID of the bridge's row.
    pub uuid: Uuid,
    /// The bridge's name, which is also the name of its local port.
    pub name: String,
    /// `system`, `netdev` or `dummy`; an empty column means `system`.
    pub datapath_type: String,
    /// The requested datapath id.
    pub datapath_id: Option<u64>,
    /// `other_config:hwaddr` as text.
    pub hwaddr: Option<String>,
    /// What the bridge does without a controller.
    pub fail_mode: FailMode,
    /// Names of the allowed OpenFlow versions; empty: all.
    pub protocols: Vec<String>,
    /// The controllers.
    pub controllers: Vec<ControllerConfig>,
    /// Ports by name.
    pub ports: PortConfigs,
    /// VLANs in which packets are flooded and addresses not learned.
    pub flood_vlans: Vec<u16>,
    /// Ageing time of learned MAC addresses in seconds.
    pub mac_aging_secs: u32,
    /// Maximum number of learned MAC addresses.
    pub mac_table_size: u32,
    /// Whether to forward frames to reserved multicast addresses.
    pub forward_bpdu: bool,
    /// Spanning tree.
    pub spanning_tree: TreeConfig,
    /// Multicast snooping, if it is enabled.
    pub snooping: Option<SnoopingConfig>,
    /// Configuration of OpenFlow tables by number.
    pub flow_tables: BTreeMap<u8, FlowTableConfig>,
    /// Mirrors, in the order of their rows.
    pub mirrors: Vec<MirrorConfig>,
    /// The exporters of the bridge.
    pub sampling: SamplingConfig,
    /// Auto-attach, if the bridge refers to a row.
    pub auto_attach: Option<AutoAttachConfig>,
    /// `other_config`; some of its texts are reported in OpenFlow's description statistics.
    pub other_config: BTreeMap<String, String>,
}

fn flow_table(row: &Row<'_>) -> FlowTableConfig {
    let prefixes = row.strs("prefixes");
    FlowTableConfig {
        name: row.opt_str("name").map(str::to_owned),
        flow_limit: row.opt_int("flow_limit").and_then(|v| u32::try_from(v).ok()),
        evict: row.str("overflow_policy") == "evict",
        groups: row.strs("groups").into_iter().map(str::to_owned).collect(),
        prefixes: (!prefixes.is_empty()).then(|| prefixes.into_iter().map(str::to_owned).collect()),
    }
}

/// Parses a datapath id: exactly 16 hexadecimal digits, or `0x` and 1 to 16 digits. Zero is refused.
pub fn parse_datapath_id(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let ok = (text.len() == 16 || text.starts_with("0x")) && !digits.is_empty() && digits.len() <= 16;
    if !ok || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok().filter(|&id| id != 0)
}

impl BridgeConfig {
    /// Reads a row and the rows to which it refers.
    pub fn read(row: &Row<'_>) -> BridgeConfig {
        let ports = row.references("ports", "Port");
        let ports = ports.iter().map(PortConfig::read).map(|p| (p.name.clone(), p)).collect();
        BridgeConfig { ports, ..BridgeConfig::read_without_ports(row) }
    }

    /// Reads a row without its ports.
    pub(crate) fn read_without_ports(row: &Row<'_>) -> BridgeConfig {
        let other_config = row.map("other_config");
        let flow_tables = row
            .int_references("flow_tables", "Flow_Table")
            .into_iter()
            .filter_map(|(id, r)| Some((u8::try_from(id).ok()?, flow_table(&r))))
            .collect();
        BridgeConfig {
            uuid: row.uuid,
            name: row.str("name").to_owned(),
            datapath_type: match row.str("datapath_type") {
                "" => "system".to_owned(),
                other => other.to_owned(),
            },
            datapath_id: DATAPATH_ID.get(&other_config).and_then(parse_datapath_id),
            hwaddr: HWADDR.get(&other_config).map(str::to_owned),
            fail_mode: if row.str("fail_mode") == "secure" { FailMode::Secure } else { FailMode::Standalone },
            protocols: row.strs("protocols").into_iter().map(str::to_owned).collect(),
            controllers: row
                .references("controller", "Controller")
                .iter()
                .map(ControllerConfig::read)
                .collect(),
            ports: PortConfigs::default(),
            flood_vlans: row.ints("flood_vlans").into_iter().filter_map(|v| u16::try_from(v).ok()).collect(),
            mac_aging_secs: MAC_AGING_TIME.number(&other_config) as u32,
            mac_table_size: MAC_TABLE_SIZE.number(&other_config) as u32,
            forward_bpdu: FORWARD_BPDU.flag_of(&other_config),
            spanning_tree: TreeConfig::read(row),
            snooping: row.bool("mcast_snooping_enable").then(|| SnoopingConfig::read(&other_config)),
            flow_tables,
            mirrors: row.references("mirrors", "Mirror").iter().map(MirrorConfig::read).collect(),
            sampling: SamplingConfig::read(row),
            auto_attach: row.references("auto_attach", "AutoAttach").first().map(AutoAttachConfig::read),
            other_config,
        }
    }

    /// Whether two configurations are equal if ports are not compared.
    pub(crate) fn is_same_but_for_ports(&self, other: &BridgeConfig) -> bool {
        let bare = |config: &BridgeConfig| BridgeConfig { ports: PortConfigs::default(), ..config.clone() };
        bare(self) == bare(other)
    }

    /// The interface with this name, and its port. The port usually has the same name, so that port is searched first.
    pub fn interface(&self, name: &str) -> Option<(&PortConfig, &InterfaceConfig)> {
        let of = |port: &'_ PortConfig| port.interfaces.iter().position(|i| i.name == name);
        let port = self.ports.get(name).filter(|port| of(port).is_some());
        let port = port.or_else(|| self.ports.values().find(|port| of(port).is_some()))?;
        Some((port, port.interfaces.get(of(port)?)?))
    }
}
