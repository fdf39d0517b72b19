//! Finds the rule that a packet matches, and the bits that decided it.
//!
//! **Conjunctive matches.** A rule with conjunctions is a *soft* match: it states that one clause is met, and has no
//! actions. The look-up collects soft matches with a higher priority than the best hard one. If those of one priority
//! meet all clauses of a conjunction, it looks up once more with `conj_id` set, for hard matches only. Otherwise each
//! soft match is replaced by the next lower rule with the same match, and the search continues. All visited subtables
//! have added their bits to the mask already, so the mask covers both results.

use super::classified::{Classified, Conjunction};
use super::classifier::Classifier;
use super::memo::Recalled;
use super::prefix::{PREFIX_FIELDS_MAX, PrefixField};
use super::subtable::{Subtable, ports};
use super::trie::{Found, Trie};
use flow::Flow;
use std::sync::Arc;

/// The prefix tries for one look-up: each is searched at most once, and only when needed.
struct Prefixes<'a> {
    tries: &'a [(PrefixField, Trie)],
    found: [Option<Found>; PREFIX_FIELDS_MAX],
    /// Whether an equal flow might have been excluded by other bits, so that the mask is not the only right one.
    by_chance: bool,
}

impl Prefixes<'_> {
    /// Returns whether the tries exclude stage `stage` of `table`. The bits that exclude it are added to `wildcards`.
    fn exclude<R>(&mut self, table: &Subtable<R>, stage: usize, flow: &Flow, wildcards: &mut Flow) -> bool {
        let uses = table.shape.prefixes.iter();
        let mut another = false;
        for (((field, trie), found), used) in self.tries.iter().zip(&mut self.found).zip(uses) {
            if used.len == 0 || used.stage != stage || !field.applies(flow) {
                continue;
            }
            let found = *found.get_or_insert_with(|| trie.lookup(field.value(flow)));
            if found.has_length(used.len) {
                another = true;
                continue;
            }
            // The trie contains all subtables, so it may have examined more bits than this subtable matches. Then it saves
            // nothing, unless those bits have been examined anyway.
            let fits = found.bits <= used.len;
            self.by_chance |= another || !fits;
            if fits {
                field.set_prefix(wildcards, found.bits);
                return true;
            }
            if field.value(wildcards).leading_ones() >= found.bits {
                return true;
            }
            another = true;
        }
        false
    }
}

/// A part of a conjunctive match: the rules with the same match, and the current one of them.
struct Soft<'a, R> {
    bucket: &'a [Arc<R>],
    at: usize,
}

impl<'a, R: Classified> Soft<'a, R> {
    fn rule(&self) -> &'a Arc<R> {
        &self.bucket[self.at]
    }

    /// The next lower rule with the same match.
    fn next(&self) -> Option<Soft<'a, R>> {
        let m = self.rule().matching();
        let rest = &self.bucket[self.at + 1..];
        rest.iter().position(|r| r.matching() == m).map(|i| Soft { bucket: self.bucket, at: self.at + 1 + i })
    }
}

impl<R: Classified> Classifier<R> {
    /// The rule with the highest priority that matches `flow`. The bits that decided it are added to `wildcards`, a
    /// mask of examined bits. If two rules of one priority match, either may be returned.
    pub fn lookup(&self, flow: &Flow, wildcards: Option<&mut Flow>) -> Option<&Arc<R>> {
        let mut by_chance = false;
        let Some(wildcards) = wildcards else { return self.search(flow, None, true, None, &mut by_chance) };
        match self.memo.get(flow, wildcards) {
            Recalled::Found(rule) => return rule,
            Recalled::Missing => return self.search(flow, Some(wildcards), true, None, &mut by_chance),
            Recalled::Storable => {}
        }
        let mut examined = Flow::ZERO;
        let rule = self.search(flow, Some(&mut examined), true, None, &mut by_chance);
        if by_chance {
            self.memo.count_unstorable();
            return self.search(flow, Some(wildcards), true, None, &mut by_chance);
        }
        self.memo.store(flow, &examined, rule);
        for (word, bits) in wildcards.words_mut().iter_mut().zip(examined.words()) {
            *word |= bits;
        }
        rule
    }

    /// As `lookup`; adds the rules whose conjunctions led to the result to `parts`.
    pub fn lookup_with_parts<'a>(
        &'a self,
        flow: &Flow,
        wildcards: Option<&mut Flow>,
        parts: &mut Vec<&'a Arc<R>>,
    ) -> Option<&'a Arc<R>> {
        self.search(flow, wildcards, true, Some(parts), &mut false)
    }

    /// Sets `by_chance` if an equal flow might get another mask; both masks are right.
    pub(super) fn search<'a>(
        &'a self,
        flow: &Flow,
        mut wildcards: Option<&mut Flow>,
        conjunctive: bool,
        parts: Option<&mut Vec<&'a Arc<R>>>,
        by_chance: &mut bool,
    ) -> Option<&'a Arc<R>> {
        let mut prefixes =
            Prefixes { tries: &self.tries, found: [None; PREFIX_FIELDS_MAX], by_chance: false };
        let mut hard: Option<&Arc<R>> = None;
        let mut soft: Vec<Soft<'_, R>> = Vec::new();
        for slot in &self.slots {
            if hard.is_some_and(|h| h.priority() >= slot.max_priority) {
                break;
            }
            let found = match wildcards.as_deref_mut() {
                Some(w) => find_wc(&slot.table, flow, &mut prefixes, w),
                None => find(slot.table.bucket(slot.table.shape.hash(flow)), flow),
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
        *by_chance |= prefixes.by_chance;
        if soft.is_empty() {
            return hard;
        }
        self.resolve(flow, wildcards, (hard, soft), parts, by_chance)
    }

    /// Decides between the best hard match and the soft matches.
    fn resolve<'a>(
        &'a self,
        flow: &Flow,
        mut wildcards: Option<&mut Flow>,
        (mut hard, mut soft): (Option<&'a Arc<R>>, Vec<Soft<'a, R>>),
        mut parts: Option<&mut Vec<&'a Arc<R>>>,
        by_chance: &mut bool,
    ) -> Option<&'a Arc<R>> {
        loop {
            soft.retain(|s| hard.is_none_or(|h| s.rule().priority() > h.priority()));
            let Some(priority) = soft.iter().map(|s| s.rule().priority()).max() else { return hard };
            let (top, rest): (Vec<_>, Vec<_>) =
                soft.into_iter().partition(|s| s.rule().priority() == priority);
            for id in complete(top.iter().map(|s| s.rule().conjunctions())) {
                let with_id = Flow { conj_id: id, ..*flow };
                if let Some(rule) = self.search(&with_id, wildcards.as_deref_mut(), false, None, by_chance) {
                    if let Some(parts) = parts.as_deref_mut() {
                        let takes_part =
                            |s: &&Soft<'a, R>| s.rule().conjunctions().iter().any(|c| c.id == id);
                        parts.extend(top.iter().filter(takes_part).map(Soft::rule));
                    }
                    return Some(rule);
                }
            }
            soft = rest;
            for lower in top.iter().filter_map(Soft::next) {
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

/// The conjunctions that have every clause in one of the sets, in the order in which they become complete.
fn complete<'a>(sets: impl Iterator<Item = &'a [Conjunction]>) -> Vec<u32> {
    let mut met: Vec<(u32, u64)> = Vec::new();
    let mut out = Vec::new();
    for c in sets.flatten() {
        let at = met.iter().position(|(id, _)| *id == c.id).unwrap_or_else(|| {
            // Bits of clauses that the conjunction does not have are set from the start.
            met.push((c.id, u64::MAX.checked_shl(u32::from(c.n_clauses)).unwrap_or(0)));
            met.len() - 1
        });
        met[at].1 |= 1 << (c.clause & 63);
        if met[at].1 == u64::MAX && !out.contains(&c.id) {
            out.push(c.id);
        }
    }
    out
}

/// The best rule of a bucket that matches.
fn find<'a, R: Classified>(bucket: &'a [Arc<R>], flow: &Flow) -> Option<Soft<'a, R>> {
    bucket.iter().position(|r| r.matching().matches(flow)).map(|at| Soft { bucket, at })
}

/// The best rule of a subtable that matches, and the bits that decided it.
fn find_wc<'a, R: Classified>(
    table: &'a Subtable<R>,
    flow: &Flow,
    prefixes: &mut Prefixes<'_>,
    wildcards: &mut Flow,
) -> Option<Soft<'a, R>> {
    let (stages, chain) = (&table.shape.stages, &table.shape.chain);
    let last = stages.len() - 1;
    let mut hash = chain.start();
    for (i, stage) in stages.iter().enumerate() {
        // A trie that excludes the subtable has examined the field of this stage; the bits of earlier stages have
        // been added.
        if table.shape.asks_tries(i) && prefixes.exclude(table, i, flow, wildcards) {
            return None;
        }
        hash = stage.hash(chain, hash, flow);
        if i < last {
            stage.fold_into(wildcards);
            if !table.index_has(i, hash) {
                return None;
            }
        }
    }
    let found = find(table.bucket(hash), flow);
    let ports_before = (wildcards.tp_src, wildcards.tp_dst);
    stages[last].fold_into(wildcards);
    if found.is_none() && table.shape.ports_mask != 0 {
        // The leading bits of the ports may exclude all rules of this subtable.
        let mask = table.shape.ports_mask;
        let bits = table.ports.lookup(u128::from(ports(flow) & mask) << 96).bits;
        let examined = mask & if bits == 0 { 0 } else { u32::MAX << (32 - bits) };
        wildcards.tp_src = ports_before.0 | (examined >> 16) as u16;
        wildcards.tp_dst = ports_before.1 | examined as u16;
    }
    found
}
