//! `Tables`: one immutable version of everything that translation needs to know of a bridge's OpenFlow state.
//!
//! The owner (`Ofproto`) publishes a new one after each change that readers are to see. Readers keep the `Arc` for as long as they
//! like; a megaflow remembers the version that it was made from.

use crate::criteria::Criteria;
use crate::group::Group;
use crate::rule::Rule;
use crate::state::State;
use crate::table::Table;
use flow::{Flow, TlvTable};
use openflow::error::OfError;
use std::sync::Arc;

/// How many tables a bridge has.
pub const N_TABLES: usize = 255;
/// The table of the switch itself: what a miss means, and the end of recirculation.
pub const TABLE_INTERNAL: u8 = 254;
/// "Any table" in requests (`OFPTT_ALL`).
pub const TABLE_ALL: u8 = 255;

/// Rules that the switch itself made, to be credited when no other decides.
#[derive(Clone, Debug)]
pub struct InternalRules {
    /// A miss that goes to the controller.
    pub miss: Arc<Rule>,
    /// A miss that does not go to the controller.
    pub no_packet_in: Arc<Rule>,
    /// IP fragments that are dropped.
    pub drop_frags: Arc<Rule>,
}

/// One version of a bridge's OpenFlow state.
#[derive(Clone, Debug)]
pub struct Tables {
    pub(crate) version: u64,
    pub(crate) state: State,
    pub(crate) internal: InternalRules,
}

impl Tables {
    /// Grows with every publication.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The best rule of a table that matches. Adds the bits that decided it to `wildcards`.
    /// `None` also for table 255, which does not exist.
    pub fn lookup(&self, table: u8, flow: &Flow, wildcards: Option<&mut Flow>) -> Option<&Arc<Rule>> {
        self.table(table)?.lookup(flow, wildcards)
    }

    /// A table.
    pub fn table(&self, table: u8) -> Option<&Arc<Table>> {
        self.state.tables.get(usize::from(table))
    }

    /// The flows that a request means, table by table in the order in which they were added.
    pub fn rules(&self, criteria: &Criteria) -> Result<Vec<Arc<Rule>>, OfError> {
        Ok(criteria.select(&self.state)?.into_iter().cloned().collect())
    }

    /// A group.
    pub fn group(&self, id: u32) -> Option<&Arc<Group>> {
        self.state.groups.get(&id)
    }

    /// Which tunnel options are which fields.
    pub fn tlv(&self) -> &TlvTable {
        &self.state.tlv
    }

    /// The switch's own rules.
    pub fn internal(&self) -> &InternalRules {
        &self.internal
    }
}
