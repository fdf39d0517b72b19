//! The cache of flows, ordered by the time of their first sample.

use super::record::Counts;
use super::sample::Key;
use super::template::Template;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use units::Millis;

/// A flow of the cache.
pub(super) struct Entry {
    pub(super) template: Template,
    pub(super) counts: Counts,
    /// When the first sample of the flow was added.
    pub(super) since: Millis,
}

/// The cache of flows.
#[derive(Default)]
pub(super) struct Cache {
    by_key: HashMap<Arc<Key>, Entry>,
    /// The keys in the order of the flows' first samples.
    order: VecDeque<Arc<Key>>,
}

impl Cache {
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Adds a sample to its flow. Returns true if the flow is new.
    pub(super) fn add(&mut self, key: Key, entry: Entry) -> bool {
        if let Some(known) = self.by_key.get_mut(&key) {
            known.counts.merge(&entry.counts);
            return false;
        }
        let key = Arc::new(key);
        self.order.push_back(Arc::clone(&key));
        self.by_key.insert(key, entry);
        true
    }

    /// When the first sample of the oldest flow was added.
    pub(super) fn oldest(&self) -> Option<Millis> {
        Some(self.by_key.get(self.order.front()?)?.since)
    }

    /// Removes and returns the oldest flow.
    pub(super) fn take_oldest(&mut self) -> Option<(Arc<Key>, Entry)> {
        let key = self.order.pop_front()?;
        let entry = self.by_key.remove(&key)?;
        Some((key, entry))
    }
}
