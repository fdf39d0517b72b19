//! One `Port` row with its interfaces.

use crate::interface::InterfaceConfig;
use crate::row::{Row, map_bool};
use bridge::{PriorityTags, VlanConfig, VlanMode, VlanSet};
use ovsdb::Uuid;

/// What is wanted of one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Its row.
    pub uuid: Uuid,
    /// Its name.
    pub name: String,
    /// Its devices; more than one make a bond.
    pub interfaces: Vec<InterfaceConfig>,
    /// Its VLANs.
    pub vlan: VlanConfig,
    /// Protected ports do not speak to each other.
    pub protected: bool,
    /// Parts of the row that this switch does not have yet and that somebody set: told in the log.
    pub not_built: Vec<&'static str>,
}

impl PortConfig {
    /// Reads a row and the interfaces it names.
    pub fn read(row: &Row<'_>) -> PortConfig {
        let mut interfaces: Vec<InterfaceConfig> =
            row.references("interfaces", "Interface").iter().map(InterfaceConfig::read).collect();
        interfaces.sort_by(|a, b| a.name.cmp(&b.name));
        let mut not_built = Vec::new();
        if !row.references("qos", "QoS").is_empty() {
            not_built.push("qos");
        }
        if matches!(row.opt_str("lacp"), Some("active" | "passive")) {
            not_built.push("lacp");
        }
        if interfaces.len() > 1 {
            not_built.push("bonding");
        }
        PortConfig {
            uuid: row.uuid,
            name: row.str("name").to_owned(),
            interfaces,
            vlan: vlan(row),
            protected: row.bool("protected"),
            not_built,
        }
    }
}

/// `vlan_mode`, `tag`, `trunks`, `cvlans` and what `other_config` says of tags. Without a mode a port with a tag is an
/// access port, one without a trunk.
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
    let priority_tags = match other_config.get("priority-tags").map(String::as_str) {
        Some("always") => PriorityTags::Always,
        Some("if-nonzero") => PriorityTags::IfNonzero,
        Some(_) if map_bool(&other_config, "priority-tags", false) => PriorityTags::IfNonzero,
        Some(_) | None => PriorityTags::Never,
    };
    let qinq_ethtype = match other_config.get("qinq-ethtype").map(String::as_str) {
        Some("802.1q") => 0x8100,
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
