//! The configuration of one `Interface` row.

use crate::link_aggregation::LacpLink;
use crate::qos::Policing;
use crate::row::Row;
use ovsdb::Uuid;
use settings::interface::{LLDP_ENABLE, OFPORT_REQUEST};
use std::collections::BTreeMap;

/// The desired configuration of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceConfig {
    /// UUID of the interface's row.
    pub uuid: Uuid,
    /// Device name.
    pub name: String,
    /// The type in the database; an empty column means `system`.
    pub kind: String,
    /// `options`
    pub options: BTreeMap<String, String>,
    /// `other_config`
    pub other_config: BTreeMap<String, String>,
    /// `bfd`
    pub bfd: BTreeMap<String, String>,
    /// `cfm_mpid`
    pub cfm_mpid: Option<i64>,
    /// LLDP is enabled.
    pub lldp: bool,
    /// The requested OpenFlow port number, 1 to 65279.
    pub ofport_request: Option<u16>,
    /// `mtu_request` in bytes.
    pub mtu_request: Option<u32>,
    /// `mac` as text.
    pub mac: Option<String>,
    /// LACP parameters of the link.
    pub lacp: LacpLink,
    /// Policing of received packets.
    pub policing: Policing,
}

impl InterfaceConfig {
    /// Reads a row.
    pub fn read(row: &Row<'_>) -> InterfaceConfig {
        let kind = match row.str("type") {
            "" => "system",
            other => other,
        };
        let other_config = row.map("other_config");
        InterfaceConfig {
            lacp: LacpLink::read(&other_config),
            policing: Policing::read(row),
            uuid: row.uuid,
            name: row.str("name").to_owned(),
            kind: kind.to_owned(),
            options: row.map("options"),
            other_config,
            bfd: row.map("bfd"),
            cfm_mpid: row.opt_int("cfm_mpid"),
            lldp: LLDP_ENABLE.flag_of(&row.map("lldp")),
            ofport_request: OFPORT_REQUEST.effective_number(row.opt_int("ofport_request")).map(|v| v as u16),
            mtu_request: row.opt_int("mtu_request").and_then(|v| u32::try_from(v).ok()),
            mac: row.opt_str("mac").map(str::to_owned),
        }
    }
}
