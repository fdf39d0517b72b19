//! The table of rules: changes, exact searches and iteration. Module `lookup` looks up packets.

use super::memo::Memo;
use super::prefix::{PREFIX_FIELDS_MAX, PrefixField};
use super::rule::ClassifierRule;
use super::sparse::{SparseMask, SparseMatch};
use super::subtable::{MaskInfo, Subtable};
use super::trie::Trie;
use cpu::KeyedHash64;
use std::sync::Arc;

/// A subtable, with the values by which it is ordered and found.
#[derive(Debug)]
pub(super) struct Slot<R> {
    pub(super) max_priority: u32,
    mask_hash: u64,
    pub(super) table: Arc<Subtable<R>>,
}

impl<R> Clone for Slot<R> {
    fn clone(&self) -> Self {
        Slot { max_priority: self.max_priority, mask_hash: self.mask_hash, table: Arc::clone(&self.table) }
    }
}

/// A table of rules by priority. A clone is an immutable snapshot and costs one pointer per subtable.
#[derive(Debug)]
pub struct Classifier<R> {
    /// The subtables, the highest maximum priority first. Among equal priorities, a subtable whose maximum has risen comes last, and
    /// a subtable whose maximum has fallen comes first.
    pub(super) slots: Vec<Slot<R>>,
    pub(super) tries: Vec<(PrefixField, Trie)>,
    pub(super) memo: Memo<R>,
    /// Hashes the values of rules and packets. With `learn`, packets determine both, so the hash has secrets.
    chain: KeyedHash64,
    len: usize,
}

impl<R> Clone for Classifier<R> {
    fn clone(&self) -> Self {
        Classifier {
            slots: self.slots.clone(),
            tries: self.tries.clone(),
            memo: Memo::default(),
            chain: self.chain,
            len: self.len,
        }
    }
}

/// An empty table with fixed secrets, for tests.
impl<R: ClassifierRule> Default for Classifier<R> {
    fn default() -> Self {
        Classifier::new(&PrefixField::DEFAULT, KeyedHash64::new(0))
    }
}

impl<R: ClassifierRule> Classifier<R> {
    /// Makes an empty table that tracks prefixes of `fields` (at most four). `chain` contains secrets of the process.
    pub fn new(fields: &[PrefixField], chain: KeyedHash64) -> Self {
        let tries = fields.iter().take(PREFIX_FIELDS_MAX).map(|&f| (f, Trie::default())).collect();
        Classifier { slots: Vec::new(), tries, memo: Memo::default(), chain, len: 0 }
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of different masks.
    pub fn n_masks(&self) -> usize {
        self.slots.len()
    }

    /// The fields whose prefixes are tracked.
    pub fn prefix_fields(&self) -> Vec<PrefixField> {
        self.tries.iter().map(|(f, _)| *f).collect()
    }

    /// Sets the tracked fields. If they differ from the present fields, rebuilds the table and returns true.
    pub fn set_prefix_fields(&mut self, fields: &[PrefixField]) -> bool {
        let mut wanted: Vec<PrefixField> = Vec::new();
        for &f in fields {
            if !wanted.contains(&f) && wanted.len() < PREFIX_FIELDS_MAX {
                wanted.push(f);
            }
        }
        if self.prefix_fields() == wanted {
            return false;
        }
        let mut new = Classifier::new(&wanted, self.chain);
        for rule in self.iter() {
            new.insert(Arc::clone(rule));
        }
        *self = new;
        true
    }

    /// Makes an empty table with the same configuration.
    pub fn emptied(&self) -> Self {
        Classifier::new(&self.prefix_fields(), self.chain)
    }

    /// If a rule of the table has the same mask as `matching`, lets `matching` share the mask of that rule.
    pub fn share_mask(&self, matching: &mut SparseMatch) {
        let Some(at) = self.slot_of(matching.mask()) else { return };
        let own = &self.slots[at].table.mask_info.mask;
        // Nearly always `matching` shares it already. Then the reference counter, which other threads change as well, is not
        // touched.
        if !Arc::ptr_eq(own, matching.mask()) {
            matching.share_mask(own);
        }
    }

    /// Adds a rule. Replaces and returns a rule with the same match and priority.
    pub fn insert(&mut self, rule: Arc<R>) -> Option<Arc<R>> {
        self.memo = Memo::default();
        let mask = rule.matching().mask();
        let at = self.slot_of(mask).unwrap_or_else(|| self.add_slot(mask));
        let flow = rule.matching().expand_flow();
        let table = Arc::make_mut(&mut self.slots[at].table);
        let old = table.insert(rule, &flow);
        if old.is_none() {
            self.len += 1;
            let mask_info = Arc::clone(&table.mask_info);
            for ((field, trie), used) in
                self.tries.iter_mut().zip(&mask_info.prefixes).filter(|(_, u)| u.len > 0)
            {
                trie.insert(field.value(&flow), used.len);
            }
            self.reorder(at);
        }
        old
    }

    /// Removes the rule with exactly this match and priority.
    pub fn remove(&mut self, m: &SparseMatch, priority: u32) -> Option<Arc<R>> {
        let at = self.slot_of(m.mask())?;
        let flow = m.expand_flow();
        self.slots[at].table.find(m, &flow, priority)?;
        self.memo = Memo::default();
        let table = Arc::make_mut(&mut self.slots[at].table);
        let rule = table.remove(m, &flow, priority)?;
        self.len -= 1;
        let mask_info = Arc::clone(&table.mask_info);
        for ((field, trie), used) in self.tries.iter_mut().zip(&mask_info.prefixes).filter(|(_, u)| u.len > 0)
        {
            trie.remove(field.value(&flow), used.len);
        }
        if self.slots[at].table.len() == 0 {
            self.slots.remove(at);
        } else {
            self.reorder(at);
        }
        Some(rule)
    }

    /// The rule with exactly this match and priority.
    pub fn find_exact(&self, m: &SparseMatch, priority: u32) -> Option<&Arc<R>> {
        self.slots[self.slot_of(m.mask())?].table.find(m, &m.expand_flow(), priority)
    }

    /// All rules, grouped by mask.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<R>> {
        self.slots.iter().flat_map(|s| s.table.iter())
    }

    /// The rules whose packets all match `m`: the rules that a non-strict request with `m` selects.
    pub fn iter_within<'a, 'm>(
        &'a self,
        m: &'m SparseMatch,
    ) -> impl Iterator<Item = &'a Arc<R>> + use<'a, 'm, R> {
        self.slots
            .iter()
            .filter(|s| s.table.mask_info.mask.covers(m.mask()))
            .flat_map(|s| s.table.iter())
            .filter(|r| r.matching().within(m))
    }

    /// The rules with exactly this priority that overlap `m`.
    pub fn iter_overlapping<'a, 'm>(
        &'a self,
        m: &'m SparseMatch,
        priority: u32,
    ) -> impl Iterator<Item = &'a Arc<R>> + use<'a, 'm, R> {
        self.slots
            .iter()
            .take_while(move |s| s.max_priority >= priority)
            .flat_map(|s| s.table.iter())
            .filter(move |r| r.priority() == priority && r.matching().overlaps(m))
    }

    fn slot_of(&self, mask: &SparseMask) -> Option<usize> {
        let hash = mask.hash_value();
        self.slots.iter().position(|s| s.mask_hash == hash && *s.table.mask_info.mask == *mask)
    }

    fn add_slot(&mut self, mask: &Arc<SparseMask>) -> usize {
        let fields = self.prefix_fields();
        let table = Arc::new(Subtable::new(MaskInfo::new(Arc::clone(mask), &fields, self.chain)));
        self.slots.push(Slot { max_priority: 0, mask_hash: mask.hash_value(), table });
        self.slots.len() - 1
    }

    /// Moves a subtable to its position in the order, after its highest priority may have changed.
    fn reorder(&mut self, at: usize) {
        let new = self.slots[at].table.max_priority();
        self.slots[at].max_priority = new;
        let before = self.slots[..at].iter().rposition(|s| s.max_priority >= new).map_or(0, |i| i + 1);
        if before < at {
            self.slots[before..=at].rotate_right(1);
            return;
        }
        let behind = self.slots[at + 1..].iter().take_while(|s| s.max_priority > new).count();
        self.slots[at..=at + behind].rotate_left(1);
    }
}
