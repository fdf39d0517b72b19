//! Eviction: chooses the flow that a full table removes to make space.
//!
//! Only flows with a timeout are evicted, since they would expire anyway. Flows with equal values in the table's
//! eviction fields form a group. The least important flow of the largest group is evicted; of equally important flows, the
//! flow that would expire first.

use crate::rule::Rule;
use crate::table::Table;
use classifier::of::Classified;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::Millis;

/// Returns the flow to evict; `None` if the table does not evict, or no flow may be evicted.
pub(crate) fn choose_victim(table: &Table) -> Option<Arc<Rule>> {
    if !table.config.evicts() {
        return None;
    }
    let mut groups: BTreeMap<Vec<u128>, (usize, &Arc<Rule>)> = BTreeMap::new();
    for rule in table.classifier.iter().filter(|r| r.has_timeout()) {
        let (n, first) = groups.entry(group_of(table, rule)).or_insert((0, rule));
        *n += 1;
        if eviction_key(rule) < eviction_key(first) {
            *first = rule;
        }
    }
    let largest = groups
        .values()
        .max_by(|a, b| a.0.cmp(&b.0).then_with(|| eviction_key(b.1).cmp(&eviction_key(a.1))))?;
    Some(Arc::clone(largest.1))
}

/// Sort key of eviction: the flow with the lowest key is evicted first.
fn eviction_key(rule: &Rule) -> (u16, Millis, u64) {
    (rule.importance, rule.deadline(), rule.id())
}

/// The values of the table's eviction fields in the match of the rule; rules with equal values form a group.
fn group_of(table: &Table, rule: &Rule) -> Vec<u128> {
    let flow = rule.matching().expand_flow();
    let value = |f: &flow::Subfield| if f.field.prereqs_ok(&flow) { f.get(&flow) } else { 0 };
    table.config.eviction_fields.iter().map(value).collect()
}
