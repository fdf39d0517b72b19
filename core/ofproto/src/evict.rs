//! Eviction: chooses the flow that a full table removes to make space.
//!
//! Only flows with a timeout are evicted, since they would expire anyway. Flows with equal values in the table's
//! eviction fields form a group. The least important flow of the largest group is evicted; of equally important flows, the
//! flow that would expire first.

use crate::rule::Rule;
use crate::table::Table;
use classifier::of::Classified;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use units::Millis;

/// Sort key of eviction: the flow with the lowest key is evicted first.
type EvictionKey = (u16, Millis, u64);
/// A flow that may be evicted, with its key, so that a sorted list ends with the flow to evict next.
type Candidate<'a> = (Reverse<EvictionKey>, &'a Arc<Rule>);

/// Returns the flow to evict; `None` if the table does not evict, or no flow may be evicted. Visits all flows of the table.
pub(crate) fn choose_victim(table: &Table) -> Option<Arc<Rule>> {
    let mut groups: BTreeMap<Vec<u128>, (usize, EvictionKey, &Arc<Rule>)> = BTreeMap::new();
    for rule in candidates(table) {
        let key = eviction_key(rule);
        let (n, lowest, first) = groups.entry(group_of(table, rule)).or_insert((0, key, rule));
        *n += 1;
        if key < *lowest {
            (*lowest, *first) = (key, rule);
        }
    }
    let largest = groups.values().max_by_key(|(n, lowest, _)| (*n, Reverse(*lowest)))?;
    Some(Arc::clone(largest.2))
}

/// Returns up to `n` flows to evict, in the order in which `choose_victim` would choose them one after another. Sorts all flows once.
pub(crate) fn choose_victims(table: &Table, n: usize) -> Vec<Arc<Rule>> {
    let mut groups: BTreeMap<Vec<u128>, Vec<Candidate>> = BTreeMap::new();
    for rule in candidates(table) {
        groups.entry(group_of(table, rule)).or_default().push((Reverse(eviction_key(rule)), rule));
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.iter_mut().for_each(|g| g.sort_unstable_by_key(|(key, _)| *key));
    let rank = |g: &[Candidate]| g.last().map(|(key, _)| (g.len(), *key));
    let mut heap: BinaryHeap<_> = groups.iter().enumerate().map(|(at, g)| (rank(g), at)).collect();
    let mut victims = Vec::new();
    while victims.len() < n
        && let Some((_, at)) = heap.pop()
        && let Some((_, rule)) = groups[at].pop()
    {
        victims.push(Arc::clone(rule));
        heap.push((rank(&groups[at]), at));
    }
    victims
}

/// The flows that may be evicted.
fn candidates(table: &Table) -> impl Iterator<Item = &Arc<Rule>> {
    let evicts = table.config.evicts();
    table.classifier.iter().filter(move |r| evicts && r.has_timeout())
}

fn eviction_key(rule: &Rule) -> EvictionKey {
    (rule.importance, rule.deadline(), rule.id())
}

/// The values of the table's eviction fields in the match of the rule; rules with equal values form a group.
fn group_of(table: &Table, rule: &Rule) -> Vec<u128> {
    let fields = &table.config.eviction_fields;
    if fields.is_empty() {
        // Expanding the match would take most of the time of a table with many flows.
        return Vec::new();
    }
    let flow = rule.matching().expand_flow();
    let value = |f: &flow::Subfield| if f.field.prereqs_ok(&flow) { f.get(&flow) } else { 0 };
    fields.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ofproto::Ofproto;
    use crate::table::TableSettings;
    use flow::{FieldId, Flow, Match, Subfield};
    use openflow::flow_mod::FlowMod;

    /// A table of flows with varying importance, timeouts and groups; a linear congruential generator makes the numbers.
    fn filled(seed: u64, fields: &[&str]) -> Ofproto {
        let mut o = Ofproto::new(Millis(0), 0);
        let field = |name: &&str| Subfield::whole(FieldId::from_name(name).unwrap());
        let settings = TableSettings {
            evict: true,
            eviction_fields: fields.iter().map(field).collect(),
            ..TableSettings::default()
        };
        o.configure_table(0, &settings, Millis(0));
        let mut state = seed;
        let mut next = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
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

    fn remove(table: &mut Table, rule: &Rule) {
        table.classifier.remove(&rule.matching, rule.priority);
    }

    #[test]
    fn all_victims_at_once_are_those_that_come_one_by_one() {
        for seed in 0..20 {
            for fields in [&[][..], &["in_port"], &["in_port", "nw_dst"]] {
                let o = filled(seed, fields);
                let mut table = o.table(0).unwrap().clone();
                let mut wanted = Vec::new();
                let at_once =
                    |n| choose_victims(o.table(0).unwrap(), n).iter().map(|r| r.id()).collect::<Vec<_>>();
                while let Some(rule) = choose_victim(&table) {
                    remove(&mut table, &rule);
                    wanted.push(rule.id());
                }
                assert!(wanted.len() > 100);
                assert_eq!(at_once(usize::MAX), wanted);
                assert_eq!(at_once(50), wanted[..50]);
            }
        }
    }

    /// The choice by its definition: the largest group, then the lowest key.
    #[test]
    fn the_victim_is_the_least_flow_of_the_largest_group() {
        for seed in 0..20 {
            let o = filled(seed, &["in_port"]);
            let table = o.table(0).unwrap();
            let size = |rule: &Rule| {
                candidates(table).filter(|r| group_of(table, r) == group_of(table, rule)).count()
            };
            let wanted = candidates(table).min_by_key(|r| (Reverse(size(r)), eviction_key(r))).unwrap();
            assert_eq!(choose_victim(table).unwrap().id(), wanted.id());
        }
    }

    #[test]
    fn a_table_that_does_not_evict_has_no_victims() {
        let mut o = filled(1, &[]);
        o.configure_table(0, &TableSettings::default(), Millis(0));
        let table = o.table(0).unwrap();
        assert!(choose_victim(table).is_none() && choose_victims(table, 5).is_empty());
    }
}
