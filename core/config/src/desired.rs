//! The desired state that the database describes.

use crate::bridge::BridgeConfig;
use crate::controller::is_in_band;
use crate::datapath::DatapathConfig;
use crate::row::Row;
use crate::shared_map::SharedMap;
use crate::ssl::SslConfig;
use ovsdb::replica::RowRef;
use ovsdb::{Replica, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use units::OfPort;

/// The desired state of the switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// UUID of the only row of `Open_vSwitch`; `None` until `ovs-vsctl init` has created it.
    pub root: Option<Uuid>,
    /// `next_cfg`; the switch copies it to `cur_cfg` once it has applied the configuration.
    pub next_cfg: i64,
    /// `Open_vSwitch.other_config`
    pub other_config: BTreeMap<String, String>,
    /// The row of table SSL, if any.
    pub ssl: Option<SslConfig>,
    /// Targets of the database's managers that are reached through bridges (in-band).
    pub in_band_managers: BTreeSet<String>,
    /// Bridges by name.
    pub bridges: SharedMap<String, BridgeConfig>,
    /// Datapaths by type.
    pub datapaths: BTreeMap<String, DatapathConfig>,
    /// The OpenFlow port numbers in `Interface` rows (column `ofport`). A new port gets its number from here, so that
    /// numbers survive a restart. The switch itself writes this column, so it is not a part of `InterfaceConfig`: a
    /// change of it must not cause a step.
    pub ofports: SharedMap<Uuid, OfPort>,
}

impl Desired {
    /// Reads the desired state from the database.
    pub fn read(db: &Replica) -> Desired {
        let Some(root) = Row::only(db, "Open_vSwitch") else { return Desired::default() };
        let bridges = root.references("bridges", "Bridge");
        let number = |row: RowRef<'_>| Some((row.uuid(), ofport(&row)?));
        Desired {
            bridges: bridges.iter().map(BridgeConfig::read).map(|b| (b.name.clone(), b)).collect(),
            ofports: db.rows("Interface").filter_map(number).collect(),
            ..Desired::of_root(&root)
        }
    }

    /// The columns of the `Open_vSwitch` row itself, without bridges and port numbers.
    pub(crate) fn of_root(root: &Row<'_>) -> Desired {
        Desired {
            root: Some(root.uuid),
            next_cfg: root.opt_int("next_cfg").unwrap_or(0),
            other_config: root.map("other_config"),
            ssl: root.references("ssl", "SSL").first().map(SslConfig::read),
            in_band_managers: root
                .references("manager_options", "Manager")
                .iter()
                .filter(|manager| is_in_band(manager))
                .map(|manager| manager.str("target").to_owned())
                .collect(),
            datapaths: root
                .str_references("datapaths", "Datapath")
                .iter()
                .map(|(kind, row)| ((*kind).to_owned(), DatapathConfig::read(row)))
                .collect(),
            ..Desired::default()
        }
    }
}

/// The OpenFlow port number in a row of `Interface`, if any.
pub(crate) fn ofport(row: &RowRef<'_>) -> Option<OfPort> {
    let value = row.datum("ofport")?.first()?.as_integer()?;
    u16::try_from(value).ok().map(OfPort).filter(|port| port.is_ordinary())
}
