//! A subtable: the rules with the same mask, in a persistent hash table, with the data for the shortcuts of a look-up.

use super::bucket::Bucket;
use super::hash_trie::HashTrie;
use super::prefix::{PREFIX_FIELDS_MAX, PrefixField};
use super::rule::ClassifierRule;
use super::sparse::{SparseMask, SparseMatch};
use super::stage::Stage;
use super::trie::Trie;
use cpu::KeyedHash64;
use flow::Flow;
use rpds::RedBlackTreeMapSync;
use std::sync::Arc;

/// How a subtable uses one of the classifier's prefix tries.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PrefixUse {
    /// The length of the prefix that the mask matches; 0: the trie is not used.
    pub(super) len: u32,
    /// The stage that contains the field.
    pub(super) stage: usize,
}

/// The data of a subtable that depends only on its mask.
#[derive(Debug)]
pub(super) struct MaskInfo {
    pub(super) chain: KeyedHash64,
    pub(super) mask: Arc<SparseMask>,
    pub(super) stages: Vec<Stage>,
    pub(super) prefixes: [PrefixUse; PREFIX_FIELDS_MAX],
    /// The stages in which tries are used, as a bit set.
    trie_stages: u8,
    /// The mask of `tp_src << 16 | tp_dst`.
    pub(super) ports_mask: u32,
}

impl MaskInfo {
    pub(super) fn new(mask: Arc<SparseMask>, fields: &[PrefixField], chain: KeyedHash64) -> MaskInfo {
        let stages = Stage::split(&mask);
        let mut prefixes = [PrefixUse::default(); PREFIX_FIELDS_MAX];
        for (p, field) in prefixes.iter_mut().zip(fields) {
            let len = field.prefix_len(&mask);
            let stage = stages.iter().position(|s| s.touches(&field.mask())).unwrap_or(0);
            *p = PrefixUse { len, stage };
        }
        let used = prefixes.iter().filter(|p| p.len > 0);
        let trie_stages = used.fold(0, |bits, p| bits | 1 << p.stage);
        let ports_mask = ports(&mask.expand());
        MaskInfo { chain, mask, stages, prefixes, trie_stages, ports_mask }
    }

    /// Returns whether a trie is used for a field of this stage.
    pub(super) fn uses_tries(&self, stage: usize) -> bool {
        self.trie_stages >> stage & 1 != 0
    }

    /// Length of the shortest prefix of the ports that contains all matched bits.
    fn ports_len(&self) -> u32 {
        32 - self.ports_mask.trailing_zeros()
    }

    pub(super) fn hash(&self, flow: &Flow) -> u64 {
        self.stages.iter().fold(self.chain.start(), |h, s| s.hash(&self.chain, h, flow))
    }
}

/// The source and destination port as one number.
pub(super) fn ports(flow: &Flow) -> u32 {
    u32::from(flow.tp_src) << 16 | u32::from(flow.tp_dst)
}

/// The rules with the same mask. A clone shares all data.
#[derive(Debug)]
pub(super) struct Subtable<R> {
    pub(super) mask_info: Arc<MaskInfo>,
    rules: HashTrie<Bucket<R>>,
    /// For every stage but the last: the number of rules by their hash up to that stage.
    indices: Vec<HashTrie<u32>>,
    /// Prefixes of the ports that the rules match.
    pub(super) ports: Trie,
    /// Number of rules of each priority.
    priorities: RedBlackTreeMapSync<u32, u32>,
    len: usize,
}

impl<R> Clone for Subtable<R> {
    fn clone(&self) -> Self {
        Subtable {
            mask_info: Arc::clone(&self.mask_info),
            rules: self.rules.clone(),
            indices: self.indices.clone(),
            ports: self.ports.clone(),
            priorities: self.priorities.clone(),
            len: self.len,
        }
    }
}

impl<R: ClassifierRule> Subtable<R> {
    pub(super) fn new(mask_info: MaskInfo) -> Self {
        let indices = (1..mask_info.stages.len()).map(|_| HashTrie::default()).collect();
        Subtable {
            mask_info: Arc::new(mask_info),
            rules: HashTrie::default(),
            indices,
            ports: Trie::default(),
            priorities: RedBlackTreeMapSync::new_sync(),
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The highest priority of a rule; 0 if there are no rules.
    pub(super) fn max_priority(&self) -> u32 {
        self.priorities.last().map_or(0, |(p, _)| *p)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<R>> {
        self.rules.values().flat_map(Bucket::as_slice)
    }

    /// The rules whose masked bits have this hash, the highest priority first.
    pub(super) fn bucket(&self, hash: u64) -> &[Arc<R>] {
        self.rules.get(hash).map_or(&[], Bucket::as_slice)
    }

    /// Returns whether some rule has this hash after stage `stage`, which is not the last.
    pub(super) fn index_has(&self, stage: usize, hash: u64) -> bool {
        self.indices[stage].get(hash).is_some()
    }

    /// The rule with this match and priority; `flow` is the expanded match.
    pub(super) fn find(&self, m: &SparseMatch, flow: &Flow, priority: u32) -> Option<&Arc<R>> {
        let hash = self.mask_info.hash(flow);
        let bucket = self.rules.get(hash)?;
        bucket.position(m, priority).map(|at| &bucket.as_slice()[at])
    }

    /// Adds a rule, whose expanded match is `flow`. Replaces and returns a rule with the same match and priority.
    pub(super) fn insert(&mut self, rule: Arc<R>, flow: &Flow) -> Option<Arc<R>> {
        let priority = rule.priority();
        let hash = self.mask_info.hash(flow);
        match self.rules.get_mut(hash) {
            Some(bucket) => {
                if let Some(old) = bucket.insert(rule) {
                    return Some(old);
                }
            }
            None => self.rules.insert(hash, Bucket::One(rule)),
        }
        self.update_counts(flow, priority, true);
        None
    }

    pub(super) fn remove(&mut self, m: &SparseMatch, flow: &Flow, priority: u32) -> Option<Arc<R>> {
        let hash = self.mask_info.hash(flow);
        let bucket = self.rules.get_mut(hash)?;
        let single = matches!(bucket, Bucket::One(_));
        let rule = bucket.remove(m, priority)?;
        if single {
            self.rules.remove(hash);
        }
        self.update_counts(flow, priority, false);
        Some(rule)
    }

    /// Updates indices, ports and priorities for a rule that was added or removed.
    fn update_counts(&mut self, flow: &Flow, priority: u32, added: bool) {
        self.len = if added { self.len + 1 } else { self.len - 1 };
        adjust_ordered_count(&mut self.priorities, priority, added);
        let mask_info = Arc::clone(&self.mask_info);
        let mut hash = mask_info.chain.start();
        for (stage, index) in mask_info.stages.iter().zip(&mut self.indices) {
            hash = stage.hash(&mask_info.chain, hash, flow);
            adjust_hashed_count(index, hash, added);
        }
        if mask_info.ports_mask != 0 {
            let value = u128::from(ports(flow)) << 96;
            match added {
                true => self.ports.insert(value, mask_info.ports_len()),
                false => self.ports.remove(value, mask_info.ports_len()),
            }
        }
    }
}

fn adjust_ordered_count(map: &mut RedBlackTreeMapSync<u32, u32>, key: u32, add: bool) {
    match map.get_mut(&key) {
        Some(n) if add => *n += 1,
        Some(n) if *n > 1 => *n -= 1,
        Some(_) => drop(map.remove_mut(&key)),
        None => map.insert_mut(key, 1),
    }
}

fn adjust_hashed_count(map: &mut HashTrie<u32>, key: u64, add: bool) {
    match map.get_mut(key) {
        Some(n) if add => *n += 1,
        Some(n) if *n > 1 => *n -= 1,
        Some(_) => map.remove(key),
        None => map.insert(key, 1),
    }
}
