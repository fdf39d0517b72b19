//! Numbers of flows by cookie, for `learn` actions with a limit.
//!
//! Each packet that learns a flow compares the number of flows of a table that have a cookie with the limit. So the flows are counted when they
//! are added and removed, but only those with a cookie that a rule with such an action names.

use crate::rule::Rule;
use rpds::HashTrieMapSync;

/// A cookie, and the table of the learned flows.
pub(crate) type CookieInTable = (u64, u8);

#[derive(Clone, Copy, Debug)]
struct Count {
    /// Number of rules whose `learn` actions with a limit name the cookie and the table.
    learners: u32,
    /// Number of flows of the table with the cookie, without hidden flows.
    flows: u32,
}

/// See the module documentation. The container is persistent, as those of the other state.
#[derive(Clone, Debug)]
pub(crate) struct LearnLimits {
    counts: HashTrieMapSync<CookieInTable, Count>,
}

impl LearnLimits {
    pub(crate) fn new() -> LearnLimits {
        LearnLimits { counts: HashTrieMapSync::new_sync() }
    }

    /// The number of flows; `None`: no rule has a `learn` action with a limit for this cookie and table.
    pub(crate) fn flows(&self, key: CookieInTable) -> Option<u32> {
        self.counts.get(&key).map(|count| count.flows)
    }

    /// Records that a rule with such an action was added. `count` counts the flows of the table with the cookie.
    pub(crate) fn add_learner(&mut self, key: CookieInTable, count: impl FnOnce() -> u32) {
        let old = self.counts.get(&key).copied().unwrap_or_else(|| Count { learners: 0, flows: count() });
        self.counts.insert_mut(key, Count { learners: old.learners + 1, ..old });
    }

    /// Records that a rule with such an action was removed.
    pub(crate) fn remove_learner(&mut self, key: CookieInTable) {
        match self.counts.get(&key).copied() {
            Some(old) if old.learners > 1 => {
                self.counts.insert_mut(key, Count { learners: old.learners - 1, ..old })
            }
            _ => _ = self.counts.remove_mut(&key),
        }
    }

    /// Counts a rule that was added or removed.
    pub(crate) fn count(&mut self, rule: &Rule, added: bool) {
        if self.counts.is_empty() || rule.is_hidden() {
            return;
        }
        if let Some(count) = self.counts.get_mut(&(rule.cookie, rule.table)) {
            count.flows = if added { count.flows + 1 } else { count.flows.saturating_sub(1) };
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Criteria, Ofproto};
    use flow::{FieldId, Match};
    use openflow::action::{Action, Learn};
    use openflow::flow_mod::{FlowCommand, FlowMod};
    use proptest::prelude::*;
    use units::{Millis, OfPort};

    /// A flow with a cookie below 3 in one of two tables, which may learn flows with a limit.
    fn flow() -> impl Strategy<Value = FlowMod> {
        let learn = (0..3u64, 0..2u8, 0..3u32).prop_map(|(cookie, table, limit)| Learn {
            cookie,
            table,
            limit,
            ..Learn::default()
        });
        let command = prop_oneof![
            4 => Just(FlowCommand::Add),
            1 => Just(FlowCommand::Modify),
            1 => Just(FlowCommand::DeleteStrict),
            1 => Just(FlowCommand::Delete),
        ];
        (command, 0..2u8, 0..3u64, 0..6u128, prop::option::of(learn)).prop_map(
            |(command, table, new_cookie, metadata, learn)| {
                let mut matching = Match::CATCHALL;
                matching.set(FieldId::Metadata, metadata);
                let actions = vec![match learn {
                    Some(learn) => Action::Learn(Box::new(learn)),
                    None => Action::output(OfPort(1)),
                }];
                FlowMod { command, table, new_cookie, matching, actions, ..FlowMod::default() }
            },
        )
    }

    proptest! {
        /// The counts are those of a search of the table.
        #[test]
        fn flows_are_counted(mods in prop::collection::vec(flow(), 1..60)) {
            let mut o = Ofproto::new(Millis(0), 0);
            for fm in mods {
                o.handle_flow_mod(&fm, Millis(1)).unwrap();
                for (cookie, table) in (0..3).flat_map(|cookie| [(cookie, 0), (cookie, 1)]) {
                    let within = Criteria::within(table, &Match::CATCHALL);
                    let flows = o.rules(&Criteria { cookie, cookie_mask: u64::MAX, ..within }).unwrap().len();
                    let learns = |a: &Action| matches!(a, Action::Learn(l) if l.limit != 0 && (l.cookie, l.table) == (cookie, table));
                    let is_limited = o.rules(&Criteria::all()).unwrap().iter().any(|r| r.actions.iter().any(learns));
                    prop_assert_eq!(o.state.learn_limits.flows((cookie, table)), is_limited.then_some(flows as u32));
                }
            }
        }
    }
}
