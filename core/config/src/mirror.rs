//! The configuration of one `Mirror` row.

use crate::row::Row;
use ovsdb::Uuid;

/// The desired configuration of one mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorConfig {
    /// UUID of the mirror's row.
    pub uuid: Uuid,
    /// The mirror's name.
    pub name: String,
    /// Mirror all packets of all ports.
    pub select_all: bool,
    /// Mirror packets received by these ports.
    pub from: Vec<String>,
    /// Mirror packets sent by these ports.
    pub to: Vec<String>,
    /// Mirror only packets of these VLANs; empty: all VLANs.
    pub vlans: Vec<u16>,
    /// Mirror only packets that match this flow.
    pub filter: Option<String>,
    /// The port to which copies are sent.
    pub output_port: Option<String>,
    /// The VLAN to which copies are sent.
    pub output_vlan: Option<u16>,
    /// Maximum length of a copy in bytes; 0: no limit.
    pub snaplen: u16,
}

impl MirrorConfig {
    /// Reads a row.
    pub fn read(row: &Row<'_>) -> MirrorConfig {
        let ports =
            |column| row.references(column, "Port").iter().map(|p| p.str("name").to_owned()).collect();
        let number = |column| row.opt_int(column).and_then(|v| u16::try_from(v).ok());
        MirrorConfig {
            uuid: row.uuid,
            name: row.str("name").to_owned(),
            select_all: row.bool("select_all"),
            from: ports("select_src_port"),
            to: ports("select_dst_port"),
            vlans: row.ints("select_vlan").into_iter().filter_map(|v| u16::try_from(v).ok()).collect(),
            filter: row.opt_str("filter").filter(|f| !f.is_empty()).map(str::to_owned),
            output_port: row.references("output_port", "Port").first().map(|p| p.str("name").to_owned()),
            output_vlan: number("output_vlan"),
            snaplen: number("snaplen").unwrap_or(0),
        }
    }
}
