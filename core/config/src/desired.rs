//! All that the database wants.

use crate::bridge::BridgeConfig;
use crate::datapath::DatapathConfig;
use crate::row::Row;
use crate::ssl::SslConfig;
use ovsdb::{Replica, Uuid};
use std::collections::BTreeMap;
use units::OfPort;

/// The desired state of the whole switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// The one row of `Open_vSwitch`; `None` until `ovs-vsctl init` has made it.
    pub root: Option<Uuid>,
    /// `next_cfg`: what `cur_cfg` follows.
    pub next_cfg: i64,
    /// `Open_vSwitch.other_config`
    pub other_config: BTreeMap<String, String>,
    /// The row of table SSL, if there is one.
    pub ssl: Option<SslConfig>,
    /// Bridges by name.
    pub bridges: BTreeMap<String, BridgeConfig>,
    /// Datapaths by type.
    pub datapaths: BTreeMap<String, DatapathConfig>,
    /// The OpenFlow port numbers that `Interface` rows had last (column `ofport`). A port that is made takes its number
    /// from here, so that numbers outlive a restart. The switch writes that column, so it is no part of `InterfaceConfig`:
    /// its change asks for no step.
    pub ofports: BTreeMap<Uuid, OfPort>,
}

impl Desired {
    /// Reads the database.
    pub fn read(db: &Replica) -> Desired {
        let Some(root) = Row::only(db, "Open_vSwitch") else { return Desired::default() };
        let bridges = root
            .references("bridges", "Bridge")
            .iter()
            .map(BridgeConfig::read)
            .map(|b| (b.name.clone(), b))
            .collect();
        Desired {
            root: Some(root.uuid),
            next_cfg: root.opt_int("next_cfg").unwrap_or(0),
            other_config: root.map("other_config"),
            ssl: root.references("ssl", "SSL").first().map(SslConfig::read),
            bridges,
            datapaths: root
                .str_references("datapaths", "Datapath")
                .iter()
                .map(|(kind, row)| ((*kind).to_owned(), DatapathConfig::read(row)))
                .collect(),
            ofports: ofports(db),
        }
    }
}

fn ofports(db: &Replica) -> BTreeMap<Uuid, OfPort> {
    let number = |row: &ovsdb::replica::RowRef<'_>| {
        let value = row.datum("ofport")?.first()?.as_integer()?;
        u16::try_from(value).ok().map(OfPort).filter(|port| port.is_ordinary())
    };
    db.rows("Interface").filter_map(|row| Some((row.uuid(), number(&row)?))).collect()
}
