//! Replies to statistics requests about flows.

use crate::criteria::Criteria;
use crate::duration::duration;
use crate::rule::Rule;
use crate::state::State;
use openflow::error::OfError;
use openflow::flow_mod::{FlowRemoved, RemovedReason};
use openflow::stats::{AggregateStats, FlowStats};
use units::Millis;

/// Whole seconds since `then`, limited to 16 bits.
fn age(then: Millis, now: Millis) -> u32 {
    (now.since(then).0 / 1000).min(u16::MAX.into()) as u32
}

impl Rule {
    /// The flow with its counters. The priority of a hidden rule exceeds 16 bits and is reported as 65535.
    pub fn stats(&self, now: Millis) -> FlowStats {
        FlowStats {
            table: self.table,
            matching: self.full_match(),
            cookie: self.cookie,
            priority: self.wire_priority(),
            idle_timeout: self.idle_timeout(),
            hard_timeout: self.hard_timeout(),
            importance: self.importance,
            flags: self.flags,
            duration: duration(self.created, now),
            idle_age: Some(age(self.used(), now)),
            hard_age: Some(age(self.modified(), now)),
            packets: self.packets(),
            bytes: self.bytes(),
            actions: self.actions.to_vec(),
        }
    }

    /// The flow-removed message; `None` for hidden rules.
    pub fn removed(&self, reason: RemovedReason, now: Millis) -> Option<FlowRemoved> {
        (!self.is_hidden()).then(|| FlowRemoved {
            matching: self.full_match(),
            priority: self.wire_priority(),
            cookie: self.cookie,
            reason,
            table: self.table,
            duration: duration(self.created, now),
            idle_timeout: self.idle_timeout(),
            hard_timeout: self.hard_timeout(),
            packets: self.packets(),
            bytes: self.bytes(),
        })
    }

    fn wire_priority(&self) -> u16 {
        u16::try_from(self.priority).unwrap_or(u16::MAX)
    }
}

impl State {
    pub(crate) fn aggregate(&self, criteria: &Criteria) -> Result<AggregateStats, OfError> {
        let mut sum = AggregateStats::default();
        for rule in criteria.select(self)? {
            sum.packets += rule.packets();
            sum.bytes += rule.bytes();
            sum.flows += 1;
        }
        Ok(sum)
    }
}
