//! A table indexed by small numbers. Clones share their memory: a change of one of 10,000 ports copies only the 64 entries of its chunk and
//! the list of chunks.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use units::{OfPort, PortNo};

/// A key that is converted to a small number.
pub trait Number: Copy {
    /// The index of the entry in the table.
    fn index(self) -> usize;
}

impl Number for OfPort {
    fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl Number for PortNo {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Number of entries of a chunk; they are copied when one of them changes.
const CHUNK: usize = 64;

type Chunk<V> = [Option<Arc<V>>; CHUNK];

/// A table indexed by small numbers. Clones share memory.
pub struct NumberedTable<K, V> {
    chunks: Arc<Vec<Option<Arc<Chunk<V>>>>>,
    len: usize,
    keys: PhantomData<K>,
}

impl<K, V> Clone for NumberedTable<K, V> {
    fn clone(&self) -> Self {
        NumberedTable { chunks: Arc::clone(&self.chunks), len: self.len, keys: PhantomData }
    }
}

impl<K, V> Default for NumberedTable<K, V> {
    fn default() -> Self {
        NumberedTable { chunks: Arc::default(), len: 0, keys: PhantomData }
    }
}

impl<K: Number, V> NumberedTable<K, V> {
    /// The entry with this number.
    #[inline]
    pub fn get(&self, key: &K) -> Option<&V> {
        self.get_shared(key).map(|value| &**value)
    }

    /// The entry with this number, as an `Arc` that can be cloned.
    #[inline]
    pub fn get_shared(&self, key: &K) -> Option<&Arc<V>> {
        let at = key.index();
        self.chunks.get(at / CHUNK)?.as_ref()?[at % CHUNK].as_ref()
    }

    /// Returns whether there is an entry with this number.
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// All entries, ordered by number.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.chunks.iter().flatten().flat_map(|chunk| chunk.iter().flatten()).map(|value| &**value)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slot of a number, in memory that no clone shares.
    fn slot(&mut self, key: K) -> &mut Option<Arc<V>> {
        let at = key.index();
        let chunks = Arc::make_mut(&mut self.chunks);
        if chunks.len() <= at / CHUNK {
            chunks.resize(at / CHUNK + 1, None);
        }
        let chunk = chunks[at / CHUNK].get_or_insert_with(|| Arc::new([const { None }; CHUNK]));
        &mut Arc::make_mut(chunk)[at % CHUNK]
    }

    /// Inserts or replaces an entry.
    pub fn insert(&mut self, key: K, value: V) {
        let old = self.slot(key).replace(Arc::new(value));
        self.len += usize::from(old.is_none());
    }

    /// Removes an entry.
    pub fn remove(&mut self, key: &K) {
        if self.contains_key(key) {
            *self.slot(*key) = None;
            self.len -= 1;
        }
    }
}

impl<K: Number, V> FromIterator<(K, V)> for NumberedTable<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(items: I) -> Self {
        let mut all = NumberedTable::default();
        items.into_iter().for_each(|(key, value)| all.insert(key, value));
        all
    }
}

impl<K: Number, V: fmt::Debug> fmt::Debug for NumberedTable<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.values()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// The table behaves like a map, and clones do not change.
        #[test]
        fn a_map_whose_copies_stay(steps in prop::collection::vec((any::<bool>(), 0..200u16, any::<u8>()), 0..100)) {
            let mut clones: Vec<(NumberedTable<OfPort, u8>, BTreeMap<u16, u8>)> = Vec::new();
            let (mut tested, mut model) = (NumberedTable::default(), BTreeMap::new());
            for (insert, key, value) in steps {
                // Some numbers are much larger, such as the number of the local port.
                let key = if key > 190 { key + 65_000 } else { key };
                clones.push((tested.clone(), model.clone()));
                if insert {
                    tested.insert(OfPort(key), value);
                    model.insert(key, value);
                } else {
                    tested.remove(&OfPort(key));
                    model.remove(&key);
                }
            }
            for (tested, model) in clones.iter().chain([&(tested, model)]) {
                prop_assert!(tested.values().eq(model.values()));
                prop_assert_eq!((tested.len(), tested.is_empty()), (model.len(), model.is_empty()));
                let keys = (0..260).chain(65_100..65_300);
                prop_assert!(keys.into_iter().all(|key| tested.get(&OfPort(key)) == model.get(&key)));
            }
        }
    }
}
