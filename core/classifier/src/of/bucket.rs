//! The rules of one subtable whose masked bits have the same hash, the highest priority first.

use super::rule::ClassifierRule;
use super::sparse::SparseMatch;
use std::sync::Arc;

/// The rules of a bucket. Nearly always there is one; there are several if rules differ only in priority, or if hashes
/// collide.
#[derive(Debug)]
pub(super) enum Bucket<R> {
    One(Arc<R>),
    /// Behind an `Arc`, so that the enum has only 16 bytes.
    Many(Arc<Vec<Arc<R>>>),
}

impl<R> Clone for Bucket<R> {
    fn clone(&self) -> Self {
        match self {
            Bucket::One(r) => Bucket::One(Arc::clone(r)),
            Bucket::Many(v) => Bucket::Many(Arc::clone(v)),
        }
    }
}

impl<R: ClassifierRule> Bucket<R> {
    pub(super) fn as_slice(&self) -> &[Arc<R>] {
        match self {
            Bucket::One(r) => std::slice::from_ref(r),
            Bucket::Many(v) => v,
        }
    }

    /// Adds a rule. Returns the rule with the same match and priority that it replaces, if any.
    pub(super) fn insert(&mut self, rule: Arc<R>) -> Option<Arc<R>> {
        if let Some(at) = self.position(rule.matching(), rule.priority()) {
            return match self {
                Bucket::One(r) => Some(std::mem::replace(r, rule)),
                Bucket::Many(v) => Some(std::mem::replace(&mut Arc::make_mut(v)[at], rule)),
            };
        }
        let mut rules = self.as_slice().to_vec();
        let at = rules.partition_point(|r| r.priority() >= rule.priority());
        rules.insert(at, rule);
        *self = Bucket::Many(Arc::new(rules));
        None
    }

    /// Removes and returns a rule. If the bucket is `One`, it stays unchanged, and the caller must drop the bucket.
    pub(super) fn remove(&mut self, m: &SparseMatch, priority: u32) -> Option<Arc<R>> {
        let at = self.position(m, priority)?;
        match self {
            Bucket::One(r) => Some(Arc::clone(r)),
            Bucket::Many(v) => {
                let v = Arc::make_mut(v);
                let rule = v.remove(at);
                if let [only] = v.as_slice() {
                    *self = Bucket::One(Arc::clone(only));
                }
                Some(rule)
            }
        }
    }

    /// Index of the rule with this match and priority.
    pub(super) fn position(&self, m: &SparseMatch, priority: u32) -> Option<usize> {
        self.as_slice().iter().position(|r| r.priority() == priority && r.matching() == m)
    }
}
