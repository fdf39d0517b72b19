//! All that the database wants.

use crate::bridge::BridgeConfig;
use crate::row::{Database, Row};
use std::collections::BTreeMap;
use uuid::Uuid;

/// The desired state of the whole switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// The one row of `Open_vSwitch`; `None` until `ovs-vsctl init` has made it.
    pub root: Option<Uuid>,
    /// `next_cfg`: what `cur_cfg` follows.
    pub next_cfg: i64,
    /// `Open_vSwitch.other_config`
    pub other_config: BTreeMap<String, String>,
    /// Bridges by name.
    pub bridges: BTreeMap<String, BridgeConfig>,
}

impl Desired {
    /// Reads the database.
    pub fn read(db: &dyn Database) -> Desired {
        let Some(uuid) = db.rows("Open_vSwitch").into_iter().next() else { return Desired::default() };
        let root = Row::new(db, "Open_vSwitch", uuid);
        let bridges = root
            .references("bridges", "Bridge")
            .iter()
            .map(BridgeConfig::read)
            .map(|b| (b.name.clone(), b))
            .collect();
        Desired {
            root: Some(uuid),
            next_cfg: root.opt_int("next_cfg").unwrap_or(0),
            other_config: root.map("other_config"),
            bridges,
        }
    }
}
