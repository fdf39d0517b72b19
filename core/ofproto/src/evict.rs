//! Eviction: chooses the flow that a full table removes to make space.
//!
//! Only flows with a timeout are evicted, since they would expire anyway. Flows with equal values in the table's
//! eviction fields form a group. The least important flow of the largest group is evicted; of equally important flows, the
//! flow that would expire first.

use crate::rule::Rule;
use flow::Subfield;
use rpds::{HashTrieMapSync, RedBlackTreeMapSync};
use std::cmp::Reverse;
use std::sync::Arc;
use units::Millis;

/// Sort key of eviction: the flow with the lowest key is evicted first.
type EvictionKey = (u16, Millis, u64);
/// The values of the eviction fields in the match of a flow.
type GroupKey = Arc<[u128]>;
/// The flows of a group.
type GroupFlows = RedBlackTreeMapSync<EvictionKey, Arc<Rule>>;
/// Sort key of a group: number of flows, then the key of the flow to evict first. The group with the highest rank loses a flow.
type GroupRank = (usize, Reverse<EvictionKey>);

/// The flows of a table that may be evicted, sorted. The containers are persistent, like those of the table.
///
/// **Invariant**: the key under which a flow is stored is at most its present key. A packet moves the
/// deadline of its flow to a later time, which increases the key. This index is not updated then; `first`
/// corrects the stored keys that it reads. Code that moves a deadline to an earlier time must call `update`.
#[derive(Clone, Debug)]
pub(crate) struct Evictable {
    fields: Vec<Subfield>,
    groups: HashTrieMapSync<GroupKey, GroupFlows>,
    ranks: RedBlackTreeMapSync<GroupRank, GroupKey>,
    /// Where each flow is stored, by its id.
    places: HashTrieMapSync<u64, (GroupKey, EvictionKey)>,
}

impl Evictable {
    /// Sorts flows. `fields`: flows with equal values in these fields form a group.
    pub(crate) fn new<'a>(fields: &[Subfield], rules: impl Iterator<Item = &'a Arc<Rule>>) -> Evictable {
        let mut new = Evictable {
            fields: fields.to_vec(),
            groups: HashTrieMapSync::new_sync(),
            ranks: RedBlackTreeMapSync::new_sync(),
            places: HashTrieMapSync::new_sync(),
        };
        rules.for_each(|rule| new.insert(rule));
        new
    }

    /// Adds a flow; one without a timeout cannot be evicted and is not stored.
    pub(crate) fn insert(&mut self, rule: &Arc<Rule>) {
        if rule.has_timeout() {
            let (group, key) = (self.group_of(rule), eviction_key(rule));
            self.places.insert_mut(rule.id(), (Arc::clone(&group), key));
            self.change_group(group, |flows| flows.insert_mut(key, Arc::clone(rule)));
        }
    }

    /// Removes a flow, if it is stored.
    pub(crate) fn remove(&mut self, rule: &Rule) {
        if let Some((group, key)) = self.places.get(&rule.id()).cloned() {
            self.places.remove_mut(&rule.id());
            self.change_group(group, |flows| {
                flows.remove_mut(&key);
            });
        }
    }

    /// Stores a flow under its present key.
    pub(crate) fn update(&mut self, rule: &Arc<Rule>) {
        self.remove(rule);
        self.insert(rule);
    }

    /// The flow to evict first; `None` if no flow may be evicted.
    pub(crate) fn first(&mut self) -> Option<Arc<Rule>> {
        // Other threads can move deadlines at any time, so the number of corrections is limited to the number
        // of flows.
        for _ in 0..self.places.size() {
            let rule = self.first_stored()?;
            if self.places.get(&rule.id()).is_some_and(|(_, key)| *key == eviction_key(&rule)) {
                break;
            }
            self.update(&rule);
        }
        self.first_stored()
    }

    fn first_stored(&self) -> Option<Arc<Rule>> {
        let (_, group) = self.ranks.last()?;
        Some(Arc::clone(self.groups.get(group)?.first()?.1))
    }

    fn change_group(&mut self, group: GroupKey, change: impl FnOnce(&mut GroupFlows)) {
        if !self.groups.contains_key(&group) {
            self.groups.insert_mut(Arc::clone(&group), GroupFlows::new_sync());
        }
        let Some(flows) = self.groups.get_mut(&group) else { return };
        if let Some(old) = rank(flows) {
            self.ranks.remove_mut(&old);
        }
        change(flows);
        match rank(flows) {
            Some(new) => self.ranks.insert_mut(new, group),
            None => {
                self.groups.remove_mut(&group);
            }
        }
    }

    fn group_of(&self, rule: &Rule) -> GroupKey {
        if self.fields.is_empty() {
            // Expanding the match would take most of the time.
            return Arc::default();
        }
        let flow = rule.matching.expand_flow();
        let value = |f: &Subfield| if f.field.prereqs_ok(&flow) { f.get(&flow) } else { 0 };
        self.fields.iter().map(value).collect()
    }
}

fn rank(flows: &GroupFlows) -> Option<GroupRank> {
    flows.first().map(|(key, _)| (flows.size(), Reverse(*key)))
}

fn eviction_key(rule: &Rule) -> EvictionKey {
    (rule.importance, rule.deadline(), rule.id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ofproto::Ofproto;
    use crate::table::TableSettings;
    use flow::{FieldId, Flow, Match};
    use openflow::flow_mod::FlowMod;
    use std::collections::HashMap;

    /// Numbers below the argument, from a linear congruential generator.
    fn generator(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed;
        move |n| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        }
    }

    /// A table of flows with varying importance, timeouts and groups.
    fn filled(seed: u64, fields: &[&str]) -> Ofproto {
        let mut o = Ofproto::new(Millis(0), 0);
        let field = |name: &&str| Subfield::whole(FieldId::from_name(name).unwrap());
        let settings = TableSettings {
            evict: true,
            eviction_fields: fields.iter().map(field).collect(),
            ..TableSettings::default()
        };
        o.configure_table(0, &settings, Millis(0));
        let mut next = generator(seed);
        for i in 0..200 {
            let flow = Flow { in_port: next(6) as u32, nw_dst: i, ..Flow::ZERO };
            let matching = Match::new(
                &Flow { dl_type: 0x800, ..flow },
                &Flow { in_port: u32::MAX, dl_type: 0xffff, nw_dst: u32::MAX, ..Flow::ZERO },
            );
            let fm = FlowMod {
                matching,
                importance: next(3) as u16,
                idle_timeout: next(4) as u16 * 10,
                hard_timeout: next(2) as u16 * 7,
                ..FlowMod::default()
            };
            o.handle_flow_mod(&fm, Millis(1000 * next(5))).unwrap();
        }
        o
    }

    /// The victim by the definition: the largest group, then the lowest key.
    fn naive_victim(o: &Ofproto, fields: &[&str]) -> Option<u64> {
        let group = |rule: &Rule| {
            let flow = rule.matching.expand_flow();
            fields.iter().map(|f| FieldId::from_name(f).unwrap().get(&flow)).collect::<Vec<_>>()
        };
        let rules = || o.table(0).unwrap().classifier().iter().filter(|r| r.has_timeout());
        let mut sizes = HashMap::new();
        rules().for_each(|r| *sizes.entry(group(r)).or_insert(0) += 1);
        rules().min_by_key(|r| (Reverse(sizes[&group(r)]), eviction_key(r))).map(|r| r.id())
    }

    /// Flows are evicted, used, and get shorter timeouts; the victim is that of the definition each time.
    #[test]
    fn the_victim_is_the_least_flow_of_the_largest_group() {
        for seed in 0..4 {
            for fields in [&[][..], &["in_port"], &["in_port", "nw_dst"]] {
                let mut o = filled(seed, fields);
                let mut next = generator(seed);
                let mut evicted = 0;
                while let Some(wanted) = naive_victim(&o, fields) {
                    let victim = o.state.table_mut(0).victim().unwrap();
                    assert_eq!(victim.id(), wanted);
                    match next(3) {
                        0 => victim.credit(1, 60, Millis(6000 + next(20_000))),
                        1 => o.reduce_timeouts(&victim, next(9) as u16, 0),
                        _ => {}
                    }
                    if next(2) == 0 {
                        assert!(o.state.remove(&victim));
                        evicted += 1;
                    }
                }
                assert!(evicted > 100 && o.state.table_mut(0).victim().is_none());
            }
        }
    }

    #[test]
    fn a_full_table_evicts_one_flow_for_each_new_one() {
        let mut o = filled(1, &["in_port"]);
        let n = o.table(0).unwrap().classifier().len();
        let settings = TableSettings { max_flows: Some(150), evict: true, ..TableSettings::default() };
        assert_eq!(o.configure_table(0, &settings, Millis(0)).flows.len(), n - 150);
        for i in 0..100 {
            let flow = Flow { dl_type: 0x806, in_port: i, ..Flow::ZERO };
            let mask = Flow { in_port: u32::MAX, dl_type: 0xffff, ..Flow::ZERO };
            let fm = FlowMod { matching: Match::new(&flow, &mask), hard_timeout: 1, ..FlowMod::default() };
            assert_eq!(o.handle_flow_mod(&fm, Millis(0)).unwrap().flows.len(), 2);
            assert_eq!(o.table(0).unwrap().classifier().len(), 150);
        }
    }

    #[test]
    fn a_table_that_does_not_evict_has_no_victims() {
        let mut o = filled(1, &[]);
        assert!(o.state.table_mut(0).victim().is_some());
        o.configure_table(0, &TableSettings::default(), Millis(0));
        assert!(o.state.table_mut(0).victim().is_none());
    }
}
