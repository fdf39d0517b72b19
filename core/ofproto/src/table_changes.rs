//! The changes that a request makes in the tables, as they are needed for messages to controllers, flow monitors, and the revalidation of megaflows.

use crate::rule::Rule;
use openflow::flow_mod::{FlowRemoved, RemovedReason};
use std::sync::Arc;
use units::Millis;

/// A change of one flow.
#[derive(Clone, Debug)]
pub enum FlowChange {
    /// The flow was added.
    Added(Arc<Rule>),
    /// The flow replaced another one with the same match and priority, by an addition or by a modification.
    Replaced {
        /// The flow before.
        old: Arc<Rule>,
        /// The flow after.
        new: Arc<Rule>,
        /// Whether a request to add a flow caused the replacement; otherwise a modification did.
        added: bool,
    },
    /// The flow was removed.
    Removed {
        /// The flow before.
        rule: Arc<Rule>,
        /// The reason.
        reason: RemovedReason,
    },
}

impl FlowChange {
    /// Whether a flow-removed message must be sent.
    fn sends_removed(&self) -> bool {
        matches!(self, FlowChange::Removed { rule, .. } if rule.flags.send_flow_rem)
    }

    /// The flow after the change, or before it if it was removed.
    pub fn rule(&self) -> &Arc<Rule> {
        match self {
            FlowChange::Added(r)
            | FlowChange::Replaced { new: r, .. }
            | FlowChange::Removed { rule: r, .. } => r,
        }
    }
}

/// All changes of one request or bundle, in order.
#[derive(Clone, Debug, Default)]
pub struct TableChanges {
    /// Changed flows.
    pub flows: Vec<FlowChange>,
    /// Groups that were added, modified or deleted.
    pub groups: Vec<u32>,
    /// Meters that were added, modified or deleted.
    pub meters: Vec<u32>,
    /// Whether at least one flow-removed message must be sent.
    flow_removed_due: bool,
}

impl TableChanges {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty() && self.groups.is_empty() && self.meters.is_empty()
    }

    /// Whether at least one flow-removed message must be sent.
    pub fn sends_flow_removed(&self) -> bool {
        self.flow_removed_due
    }

    /// Adds the change of a flow.
    pub(crate) fn push(&mut self, change: FlowChange) {
        self.flow_removed_due |= change.sends_removed();
        self.flows.push(change);
    }

    /// The flow-removed messages.
    pub fn flows_removed(&self, now: Millis) -> impl Iterator<Item = FlowRemoved> {
        let changes = if self.flow_removed_due { self.flows.as_slice() } else { &[] };
        changes.iter().filter(|c| c.sends_removed()).filter_map(move |c| match c {
            FlowChange::Removed { rule, reason } => rule.removed(*reason, now),
            _ => None,
        })
    }
}
