//! `Tables`: an immutable version of a bridge's OpenFlow state, for translations.
//!
//! The owner (`Ofproto`) publishes a new version after each change that readers must see. Readers may keep
//! the `Arc` for any time; a megaflow records the version with which it was translated.

use crate::criteria::Criteria;
use crate::group::Group;
use crate::meter::Meter;
use crate::rule::Rule;
use crate::state::State;
use crate::table::Table;
use flow::{Flow, TlvTable};
use openflow::error::OfError;
use std::sync::Arc;

/// The switch's own rules. They count the packets that no rule of a controller handles.
#[derive(Clone, Debug)]
pub struct InternalRules {
    /// Rule of misses that are sent to the controller.
    pub miss: Arc<Rule>,
    /// Rule of misses that are not sent to the controller.
    pub no_packet_in: Arc<Rule>,
    /// Rule of IP fragments that are dropped.
    pub drop_frags: Arc<Rule>,
}

/// A version of a bridge's OpenFlow state.
#[derive(Clone, Debug)]
pub struct Tables {
    pub(crate) version: u64,
    pub(crate) state: State,
    pub(crate) internal: InternalRules,
}

impl Tables {
    /// The version number; increases with every publication.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the matching rule of highest priority in a table. Adds the bits on which the look-up depends to
    /// `wildcards`. Returns `None` also for table 255, which does not exist.
    pub fn lookup(&self, table: u8, flow: &Flow, wildcards: Option<&mut Flow>) -> Option<&Arc<Rule>> {
        self.table(table)?.lookup(flow, wildcards)
    }

    /// A table.
    pub fn table(&self, table: u8) -> Option<&Arc<Table>> {
        self.state.tables.get(table)
    }

    /// The flows that a request selects, sorted by table, then by the order in which they were added.
    pub fn rules(&self, criteria: &Criteria) -> Result<Vec<Arc<Rule>>, OfError> {
        Ok(criteria.select(&self.state)?.into_iter().cloned().collect())
    }

    /// A group.
    pub fn group(&self, id: u32) -> Option<&Arc<Group>> {
        self.state.groups.get(&id)
    }

    /// A meter. The meters of packet-ins and of the slow path have reserved numbers.
    pub fn meter(&self, id: u32) -> Option<&Arc<Meter>> {
        self.state.meters.get(&id)
    }

    /// The mapping of tunnel options to fields.
    pub fn tlv(&self) -> &TlvTable {
        &self.state.tlv
    }

    /// The switch's own rules.
    pub fn internal(&self) -> &InternalRules {
        &self.internal
    }
}
