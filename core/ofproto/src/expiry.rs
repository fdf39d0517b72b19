//! Expiry of flows.
//!
//! A flow expires when more time than its timeout has passed, as in Open vSwitch; exactly at the timeout it still
//! exists. Idle timeouts depend on the time of last use, so before [`Ofproto::expire`] the caller must add the datapath's counters
//! to the rules.

use crate::ofproto::Ofproto;
use crate::rule::Rule;
use crate::table_changes::TableChanges;
use openflow::flow_mod::RemovedReason;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use units::Millis;

impl Ofproto {
    /// Removes all expired flows.
    pub fn expire(&mut self, now: Millis) -> TableChanges {
        let expired: Vec<_> = self
            .state
            .expirable
            .values()
            .filter_map(|r| Some((Arc::clone(r), expiry_reason(r, now)?)))
            .collect();
        self.change(now, |c| {
            expired.into_iter().for_each(|(rule, reason)| c.remove(rule, reason));
            Ok(())
        })
        .unwrap_or_default()
    }

    /// The earliest time at which `expire` could remove a flow; `Millis::NEVER` while no flow has a timeout.
    pub fn next_deadline(&self) -> Millis {
        let first = self.state.expirable.values().map(|r| r.deadline()).min();
        first.map_or(Millis::NEVER, |d| d + Millis(1))
    }

    /// Shortens the timeouts of a flow (`fin_timeout`); 0 leaves a timeout unchanged.
    pub fn reduce_timeouts(&mut self, rule: &Arc<Rule>, idle: u16, hard: u16) {
        let reduce = |to: u16, timeout: &AtomicU16| {
            let old = timeout.load(Relaxed);
            if to != 0 && (old == 0 || to < old) {
                timeout.store(to, Relaxed);
            }
        };
        reduce(idle, &rule.idle_timeout);
        reduce(hard, &rule.hard_timeout);
        let there = self.state.tables[rule.table].classifier().find_exact(&rule.matching, rule.priority);
        if there.is_some_and(|r| r.id() == rule.id()) {
            self.state.watch_timeouts(rule);
            self.state.table_mut(rule.table).timeouts_changed(rule);
            self.generation += 1;
        }
    }
}

fn expiry_reason(rule: &Rule, now: Millis) -> Option<RemovedReason> {
    let past = |timeout: u16, since: Millis| timeout != 0 && now > since + Millis::from_secs(timeout.into());
    if past(rule.hard_timeout(), rule.modified()) {
        Some(RemovedReason::HardTimeout)
    } else if past(rule.idle_timeout(), rule.used()) {
        Some(RemovedReason::IdleTimeout)
    } else {
        None
    }
}
