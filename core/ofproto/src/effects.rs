//! What a change did: for messages to controllers, for monitors, and for the revalidation of megaflows.

use crate::rule::Rule;
use openflow::flow_mod::{FlowRemoved, RemovedReason};
use std::sync::Arc;
use units::Millis;

/// One flow changed.
#[derive(Clone, Debug)]
pub enum Change {
    /// It is new.
    Added(Arc<Rule>),
    /// It takes the place of another with the same match and priority: added over it, or a modification.
    Replaced {
        /// What was.
        old: Arc<Rule>,
        /// What is.
        new: Arc<Rule>,
        /// By an addition.
        added: bool,
    },
    /// It is gone.
    Removed {
        /// What was.
        rule: Arc<Rule>,
        /// Why.
        reason: RemovedReason,
    },
}

impl Change {
    /// A flow went whose owner wants to know.
    fn is_told(&self) -> bool {
        matches!(self, Change::Removed { rule, .. } if rule.flags.send_flow_rem)
    }

    /// The flow as it is now, or was last.
    pub fn rule(&self) -> &Arc<Rule> {
        match self {
            Change::Added(r) | Change::Replaced { new: r, .. } | Change::Removed { rule: r, .. } => r,
        }
    }
}

/// Everything that one request or bundle did, in order.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// Flows.
    pub flows: Vec<Change>,
    /// Groups that were added, modified or deleted.
    pub groups: Vec<u32>,
    /// Meters that were.
    pub meters: Vec<u32>,
    /// The owner of a flow that went wants to know.
    told: bool,
}

impl Effects {
    /// Nothing changed.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty() && self.groups.is_empty() && self.meters.is_empty()
    }

    /// There is a message about a flow that went.
    pub fn tells(&self) -> bool {
        self.told
    }

    /// A flow changed.
    pub(crate) fn push(&mut self, change: Change) {
        self.told |= change.is_told();
        self.flows.push(change);
    }

    /// The messages about flows that went and whose owner wants to know.
    pub fn flows_removed(&self, now: Millis) -> impl Iterator<Item = FlowRemoved> {
        let changes = if self.told { self.flows.as_slice() } else { &[] };
        changes.iter().filter(|c| c.is_told()).filter_map(move |c| match c {
            Change::Removed { rule, reason } => rule.removed(*reason, now),
            _ => None,
        })
    }
}
