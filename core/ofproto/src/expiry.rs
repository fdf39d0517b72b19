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

/// Maximum number of flows that one call of [`Ofproto::expire`] looks at; it takes about 10 ms if all have expired.
const VISITS_MAX: usize = 4096;

impl Ofproto {
    /// Removes expired flows. If many have expired at once, some remain for the next call
    /// ([`Ofproto::has_more_to_expire`]).
    pub fn expire(&mut self, now: Millis) -> TableChanges {
        let mut expired = Vec::new();
        self.has_more_to_expire = true;
        for _ in 0..VISITS_MAX {
            let first = self.state.expirable.first();
            let Some((_, rule)) = first.filter(|(deadline, _)| *deadline < now) else {
                self.has_more_to_expire = false;
                break;
            };
            let rule = Arc::clone(rule);
            match expiry_reason(&rule, now) {
                // The flow is removed below; until then it must not be found again here.
                Some(reason) => {
                    self.state.expirable.remove(rule.id());
                    expired.push((rule, reason));
                }
                None => self.state.expirable.insert(&rule),
            }
        }
        self.change(now, |c| {
            expired.into_iter().for_each(|(rule, reason)| c.remove(rule, reason));
            Ok(())
        })
        .unwrap_or_default()
    }

    /// Whether the last call of `expire` has left flows that may have expired.
    pub fn has_more_to_expire(&self) -> bool {
        self.has_more_to_expire
    }

    /// No flow expires before this time; `Millis::NEVER` while no flow has a timeout.
    pub fn next_deadline(&self) -> Millis {
        self.state.expirable.first().map_or(Millis::NEVER, |(deadline, _)| deadline + Millis(1))
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
            self.state.expirable.insert(rule);
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

#[cfg(test)]
mod tests {
    use super::*;
    use flow::{Flow, Match};
    use openflow::flow_mod::FlowMod;
    use std::collections::BTreeSet;

    fn add(in_port: u32) -> FlowMod {
        let mask = Flow { in_port: u32::MAX, ..Flow::ZERO };
        FlowMod { matching: Match::new(&Flow { in_port, ..Flow::ZERO }, &mask), ..FlowMod::default() }
    }

    /// A naive model: after any changes and uses, the flows that expire are those whose deadlines have passed.
    #[test]
    fn flows_expire_as_in_a_scan_of_all() {
        let mut state = 7_u64;
        let mut next = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let mut o = Ofproto::new(Millis(0), 0);
        let mut gone = 0;
        for step in 0..3000 {
            let now = Millis(step * 97);
            let flow = FlowMod {
                idle_timeout: next(4) as u16 * 3,
                hard_timeout: next(3) as u16 * 5,
                ..add(next(500) as u32)
            };
            match next(4) {
                0 | 1 => drop(o.handle_flow_mod(&flow, now).unwrap()),
                2 => o.all_rules().filter(|_| next(40) == 0).for_each(|rule| rule.credit(1, 60, now)),
                _ => {
                    let rules: Vec<_> = o.all_rules().filter(|_| next(90) == 0).cloned().collect();
                    rules.iter().for_each(|rule| o.reduce_timeouts(rule, next(3) as u16, next(4) as u16));
                }
            }
            let has_expired = |rule: &Rule| rule.has_timeout() && rule.deadline() < now;
            let wanted: BTreeSet<u64> = o.all_rules().filter(|r| has_expired(r)).map(|r| r.id()).collect();
            assert!(wanted.is_empty() || o.next_deadline() <= now);
            let expired: BTreeSet<u64> = o.expire(now).flows.iter().map(|c| c.rule().id()).collect();
            gone += expired.len();
            assert_eq!(expired, wanted);
        }
        assert!(gone > 500);
    }

    #[test]
    fn many_flows_expire_in_several_calls() {
        let mut o = Ofproto::new(Millis(0), 0);
        let internal = o.all_rules().count();
        for n in 0..10_000 {
            o.handle_flow_mod(&FlowMod { hard_timeout: 1, ..add(n) }, Millis(0)).unwrap();
        }
        let mut calls = 0;
        while calls == 0 || o.has_more_to_expire() {
            assert!(o.expire(Millis(5000)).flows.len() <= 5000);
            calls += 1;
        }
        assert!(o.all_rules().count() == internal && calls == 3);
    }
}
