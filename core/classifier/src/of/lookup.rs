//! Finds the rule that a packet matches, and the bits on which the result depends.
//!
//! **Conjunctive matches.** A rule with conjunctions is a *soft* match: it means that one clause is met, and has no actions. The other rules are
//! *hard* matches. The look-up collects the soft matches with a higher priority than the best hard match. If the soft matches of one priority
//! meet all clauses of a conjunction, it looks up once more with `conj_id` set, for hard matches only. A rule that this finds is the result.
//! Otherwise each of these soft matches is replaced by the next rule with the same match and a lower priority, and the search continues. All
//! visited subtables have added their bits to the mask by then, so the mask covers the result in either case.

use super::classifier::Classifier;
use super::memo::MemoResult;
use super::prefix::{PREFIX_FIELDS_MAX, PrefixField};
use super::rule::{ClassifierRule, Conjunction};
use super::subtable::{Subtable, ports};
use super::trie::{PrefixMatches, Trie};
use flow::Flow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// The prefix tries, and their results for one look-up: each trie is searched at most once, and only when needed.
struct Prefixes<'a> {
    tries: &'a [(PrefixField, Trie)],
    found: [Option<PrefixMatches>; PREFIX_FIELDS_MAX],
    /// Whether the resulting mask is not the only possible one: for another flow that is equal under this mask, another trie might
    /// exclude a subtable, which gives another mask. Both masks are right, but such a result is not stored in the memo.
    ambiguous: bool,
}

impl Prefixes<'_> {
    /// Returns whether a trie excludes all rules of `table` by a field of stage `stage`. If so, adds the
    /// prefix that excludes them to `wildcards`.
    fn exclude<R>(&mut self, table: &Subtable<R>, stage: usize, flow: &Flow, wildcards: &mut Flow) -> bool {
        let prefixes = table.mask_info.prefixes.iter();
        let mut tried_another = false;
        for (((field, trie), found), prefix) in self.tries.iter().zip(&mut self.found).zip(prefixes) {
            if prefix.len == 0 || prefix.stage != stage || !field.applies(flow) {
                continue;
            }
            let found = *found.get_or_insert_with(|| trie.lookup(field.value(flow)));
            if found.has_length(prefix.len) {
                tried_another = true;
                continue;
            }
            // The trie contains the prefixes of all subtables, so it may have examined more bits than this subtable matches.
            // Then it is better to search the subtable, unless these bits are in the mask already.
            let fits = found.bits <= prefix.len;
            self.ambiguous |= tried_another || !fits;
            if fits {
                field.set_prefix(wildcards, found.bits);
                return true;
            }
            if field.value(wildcards).leading_ones() >= found.bits {
                return true;
            }
            tried_another = true;
        }
        false
    }
}

/// What a search reports besides its result.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SearchReport {
    /// The mask is not the only possible one; see [`Prefixes`].
    ambiguous: bool,
    /// Number of subtables that were searched, including the searches with a `conj_id`, plus the number of
    /// conjunctions that were examined.
    work: usize,
}

/// A soft match: a rule, given by its bucket and its index there. The bucket also has the rules with the same match and a lower
/// priority.
struct SoftMatch<'a, R> {
    bucket: &'a [Arc<R>],
    at: usize,
}

impl<'a, R: ClassifierRule> SoftMatch<'a, R> {
    fn rule(&self) -> &'a Arc<R> {
        &self.bucket[self.at]
    }

    /// The rule with the same match and the next lower priority.
    fn next(&self) -> Option<SoftMatch<'a, R>> {
        let m = self.rule().matching();
        let rest = &self.bucket[self.at + 1..];
        rest.iter()
            .position(|r| r.matching() == m)
            .map(|i| SoftMatch { bucket: self.bucket, at: self.at + 1 + i })
    }
}

impl<R: ClassifierRule> Classifier<R> {
    /// The rule with the highest priority that matches `flow`. Adds the bits on which the result depends to `wildcards`, a
    /// mask of examined bits. If two rules with the same priority match, either may be returned.
    pub fn lookup(&self, flow: &Flow, wildcards: Option<&mut Flow>) -> Option<&Arc<R>> {
        match wildcards {
            Some(wildcards) => self.lookup_with_work(flow, wildcards, &mut 0),
            None => self.search(flow, None, true, None, &mut SearchReport::default()),
        }
    }

    /// Does the same as [`lookup`](Self::lookup), and adds to `work` the number of subtables that were searched and of conjunctions that
    /// were examined. A controller can make both large: each rule can have a mask of its own, and up to 4,000 conjunctions.
    pub fn lookup_with_work(&self, flow: &Flow, wildcards: &mut Flow, work: &mut usize) -> Option<&Arc<R>> {
        match self.memo.get(flow, wildcards) {
            MemoResult::Found(rule) => return rule,
            MemoResult::Full => return self.search_with_work(flow, wildcards, None, work).0,
            MemoResult::Miss => {}
        }
        let mut examined = Flow::ZERO;
        let (rule, ambiguous) = self.search_with_work(flow, &mut examined, None, work);
        if ambiguous {
            self.memo.count_unstorable();
            return self.search_with_work(flow, wildcards, None, work).0;
        }
        self.memo.store(flow, &examined, rule);
        for (word, bits) in wildcards.words_mut().iter_mut().zip(examined.words()) {
            *word |= bits;
        }
        rule
    }

    /// Does the same as [`lookup_with_work`](Self::lookup_with_work), without the memo. Adds the rules whose conjunctions led to the
    /// result to `conjunctive_rules`.
    pub fn lookup_with_conjunctive_rules<'a>(
        &'a self,
        flow: &Flow,
        wildcards: &mut Flow,
        conjunctive_rules: &mut Vec<&'a Arc<R>>,
        work: &mut usize,
    ) -> Option<&'a Arc<R>> {
        self.search_with_work(flow, wildcards, Some(conjunctive_rules), work).0
    }

    /// Returns the result of a search with soft matches, and whether the mask is not the only possible one.
    fn search_with_work<'a>(
        &'a self,
        flow: &Flow,
        wildcards: &mut Flow,
        conjunctive_rules: Option<&mut Vec<&'a Arc<R>>>,
        work: &mut usize,
    ) -> (Option<&'a Arc<R>>, bool) {
        let mut report = SearchReport::default();
        let rule = self.search(flow, Some(wildcards), true, conjunctive_rules, &mut report);
        *work += report.work;
        (rule, report.ambiguous)
    }

    /// Searches the subtables. `conjunctive`: soft matches count.
    pub(super) fn search<'a>(
        &'a self,
        flow: &Flow,
        mut wildcards: Option<&mut Flow>,
        conjunctive: bool,
        conjunctive_rules: Option<&mut Vec<&'a Arc<R>>>,
        report: &mut SearchReport,
    ) -> Option<&'a Arc<R>> {
        let mut prefixes =
            Prefixes { tries: &self.tries, found: [None; PREFIX_FIELDS_MAX], ambiguous: false };
        let mut hard: Option<&Arc<R>> = None;
        let mut soft: Vec<SoftMatch<'_, R>> = Vec::new();
        for slot in &self.slots {
            if hard.is_some_and(|h| h.priority() >= slot.max_priority) {
                break;
            }
            report.work += 1;
            let found = match wildcards.as_deref_mut() {
                Some(w) => find_with_wildcards(&slot.table, flow, &mut prefixes, w),
                None => find(slot.table.bucket(slot.table.mask_info.hash(flow)), flow),
            };
            let Some(found) = found else { continue };
            let rule = found.rule();
            if hard.is_some_and(|h| h.priority() >= rule.priority()) {
                continue;
            }
            if rule.conjunctions().is_empty() {
                hard = Some(rule);
            } else if conjunctive {
                soft.push(found);
            }
        }
        report.ambiguous |= prefixes.ambiguous;
        if soft.is_empty() {
            return hard;
        }
        self.resolve(flow, wildcards, (hard, soft), conjunctive_rules, report)
    }

    /// Chooses between the best hard match and the soft matches.
    fn resolve<'a>(
        &'a self,
        flow: &Flow,
        mut wildcards: Option<&mut Flow>,
        (mut hard, mut soft): (Option<&'a Arc<R>>, Vec<SoftMatch<'a, R>>),
        mut conjunctive_rules: Option<&mut Vec<&'a Arc<R>>>,
        report: &mut SearchReport,
    ) -> Option<&'a Arc<R>> {
        loop {
            soft.retain(|s| hard.is_none_or(|h| s.rule().priority() > h.priority()));
            let Some(priority) = soft.iter().map(|s| s.rule().priority()).max() else { return hard };
            let (top, rest): (Vec<_>, Vec<_>) =
                soft.into_iter().partition(|s| s.rule().priority() == priority);
            report.work += top.iter().map(|s| s.rule().conjunctions().len()).sum::<usize>();
            for id in complete_conjunctions(top.iter().map(|s| s.rule().conjunctions())) {
                let with_id = Flow { conj_id: id, ..*flow };
                if let Some(rule) = self.search(&with_id, wildcards.as_deref_mut(), false, None, report) {
                    if let Some(conjunctive_rules) = conjunctive_rules.as_deref_mut() {
                        let takes_part =
                            |s: &&SoftMatch<'a, R>| s.rule().conjunctions().iter().any(|c| c.id == id);
                        conjunctive_rules.extend(top.iter().filter(takes_part).map(SoftMatch::rule));
                    }
                    return Some(rule);
                }
            }
            soft = rest;
            for lower in top.iter().filter_map(SoftMatch::next) {
                let rule = lower.rule();
                if !rule.conjunctions().is_empty() {
                    soft.push(lower);
                } else if hard.is_none_or(|h| rule.priority() > h.priority()) {
                    hard = Some(rule);
                }
            }
        }
    }
}

/// The ids of the conjunctions whose clauses are all in the sets, in the order in which they become complete.
fn complete_conjunctions<'a>(sets: impl Iterator<Item = &'a [Conjunction]>) -> Vec<u32> {
    // For each conjunction, a bit for each clause that is met.
    let mut met: HashMap<u32, u64> = HashMap::new();
    let mut out = Vec::new();
    for c in sets.flatten() {
        let clause = 1 << (c.clause & 63);
        let (before, now) = match met.entry(c.id) {
            // Bits of clauses that the conjunction does not have are set from the beginning.
            Entry::Vacant(new) => {
                let absent = u64::MAX.checked_shl(u32::from(c.n_clauses)).unwrap_or(0);
                (0, *new.insert(absent | clause))
            }
            Entry::Occupied(mut known) => {
                let before = *known.get();
                *known.get_mut() |= clause;
                (before, *known.get())
            }
        };
        if now == u64::MAX && before != u64::MAX {
            out.push(c.id);
        }
    }
    out
}

/// The first rule of a bucket that matches. It has the highest priority of the matching rules, because the bucket is sorted.
fn find<'a, R: ClassifierRule>(bucket: &'a [Arc<R>], flow: &Flow) -> Option<SoftMatch<'a, R>> {
    bucket.iter().position(|r| r.matching().matches(flow)).map(|at| SoftMatch { bucket, at })
}

/// The matching rule of a subtable with the highest priority. Adds the bits on which the result depends to `wildcards`.
fn find_with_wildcards<'a, R: ClassifierRule>(
    table: &'a Subtable<R>,
    flow: &Flow,
    prefixes: &mut Prefixes<'_>,
    wildcards: &mut Flow,
) -> Option<SoftMatch<'a, R>> {
    let (stages, chain) = (&table.mask_info.stages, &table.mask_info.chain);
    let last = stages.len() - 1;
    let mut hash = chain.start();
    for (i, stage) in stages.iter().enumerate() {
        // If a trie excludes the subtable, the bits of this stage and of later stages are not added to the mask, except for the prefix.
        if table.mask_info.uses_tries(i) && prefixes.exclude(table, i, flow, wildcards) {
            return None;
        }
        hash = stage.hash(chain, hash, flow);
        if i < last {
            stage.add_mask_to(wildcards);
            if !table.index_has(i, hash) {
                return None;
            }
        }
    }
    let found = find(table.bucket(hash), flow);
    let ports_before = (wildcards.tp_src, wildcards.tp_dst);
    stages[last].add_mask_to(wildcards);
    if found.is_none() && table.mask_info.ports_mask != 0 {
        // Leading bits of the ports may exclude all rules of this subtable; then only these bits are added.
        let mask = table.mask_info.ports_mask;
        let bits = table.ports.lookup(u128::from(ports(flow) & mask) << 96).bits;
        let examined = mask & if bits == 0 { 0 } else { u32::MAX << (32 - bits) };
        wildcards.tp_src = ports_before.0 | (examined >> 16) as u16;
        wildcards.tp_dst = ports_before.1 | examined as u16;
    }
    found
}
