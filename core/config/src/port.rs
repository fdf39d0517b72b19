//! One `Port` row with its interfaces.

use crate::interface::InterfaceConfig;
use crate::row::{Row, map_bool};
use ovsdb::Uuid;
use std::collections::BTreeMap;

/// `Port.vlan_mode`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VlanMode {
    /// One VLAN, untagged on the wire.
    Access,
    /// Tagged VLANs.
    Trunk,
    /// A trunk whose untagged packets are of the native VLAN, which leaves tagged.
    NativeTagged,
    /// A trunk whose native VLAN leaves untagged.
    NativeUntagged,
    /// 802.1ad tunnel: the tag is pushed outside what is there.
    Dot1qTunnel,
}

/// Whether a tag is made for priority alone (`other_config:priority-tags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PriorityTags {
    /// Never.
    #[default]
    Never,
    /// Where the priority is not zero.
    IfNonzero,
    /// Always.
    Always,
}

/// What is wanted of one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Its row.
    pub uuid: Uuid,
    /// Its name.
    pub name: String,
    /// Its devices; more than one make a bond.
    pub interfaces: Vec<InterfaceConfig>,
    /// VLAN mode, taken from `tag` where the column is empty.
    pub vlan_mode: VlanMode,
    /// The access or native VLAN, 0 to 4095.
    pub tag: Option<u16>,
    /// VLANs of a trunk; empty is all.
    pub trunks: Vec<u16>,
    /// Customer VLANs of a dot1q-tunnel port; empty is all.
    pub cvlans: Vec<u16>,
    /// `other_config:priority-tags`
    pub priority_tags: PriorityTags,
    /// Protected ports do not speak to each other.
    pub protected: bool,
    /// `other_config`
    pub other_config: BTreeMap<String, String>,
    /// Parts of the row that this switch does not have yet and that somebody set: told in the log.
    pub not_built: Vec<&'static str>,
}

impl PortConfig {
    /// Reads a row and the interfaces it names.
    pub fn read(row: &Row<'_>) -> PortConfig {
        let other_config = row.map("other_config");
        let vlans =
            |column| row.ints(column).into_iter().filter_map(|v| u16::try_from(v).ok()).collect::<Vec<_>>();
        let mut trunks = vlans("trunks");
        let mut tag = row.opt_int("tag").and_then(|v| u16::try_from(v).ok());
        let vlan_mode = match row.str("vlan_mode") {
            "access" => VlanMode::Access,
            "trunk" => VlanMode::Trunk,
            "native-tagged" => VlanMode::NativeTagged,
            "native-untagged" => VlanMode::NativeUntagged,
            "dot1q-tunnel" => VlanMode::Dot1qTunnel,
            _ if tag.is_some() => VlanMode::Access,
            _ => VlanMode::Trunk,
        };
        match vlan_mode {
            VlanMode::Trunk => tag = None,
            VlanMode::Access | VlanMode::Dot1qTunnel => trunks.clear(),
            // The native VLAN is one of a native port's trunks, whether or not the row says so.
            VlanMode::NativeTagged | VlanMode::NativeUntagged => {
                let native = tag.unwrap_or(0);
                if !trunks.is_empty() && !trunks.contains(&native) {
                    trunks.push(native);
                    trunks.sort_unstable();
                }
            }
        }
        let priority_tags = match other_config.get("priority-tags").map(String::as_str) {
            Some("always") => PriorityTags::Always,
            Some("if-nonzero") => PriorityTags::IfNonzero,
            Some("never") | None => PriorityTags::Never,
            Some(_) if map_bool(&other_config, "priority-tags", false) => PriorityTags::IfNonzero,
            Some(_) => PriorityTags::Never,
        };
        let mut not_built = Vec::new();
        if !row.references("qos", "QoS").is_empty() {
            not_built.push("qos");
        }
        if matches!(row.opt_str("lacp"), Some("active" | "passive")) {
            not_built.push("lacp");
        }
        let mut interfaces: Vec<InterfaceConfig> =
            row.references("interfaces", "Interface").iter().map(InterfaceConfig::read).collect();
        interfaces.sort_by(|a, b| a.name.cmp(&b.name));
        PortConfig {
            uuid: row.uuid,
            name: row.str("name").to_owned(),
            interfaces,
            vlan_mode,
            tag,
            trunks,
            cvlans: vlans("cvlans"),
            priority_tags,
            protected: row.bool("protected"),
            other_config,
            not_built,
        }
    }
}
