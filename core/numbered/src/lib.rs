//! A table by small numbers, in their order, whose copies share what they have in common: a snapshot is published beside the
//! one before it, and a change of one of 10,000 ports copies the few that lie beside it.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use units::{OfPort, PortNo};

/// What is a small number.
pub trait Number: Copy {
    /// The number.
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

/// So many neighbours are copied when one of them changes.
const CHUNK: usize = 64;

type Chunk<V> = [Option<Arc<V>>; CHUNK];

/// See the module.
pub struct Numbered<K, V> {
    chunks: Arc<Vec<Option<Arc<Chunk<V>>>>>,
    len: usize,
    keys: PhantomData<K>,
}

impl<K, V> Clone for Numbered<K, V> {
    fn clone(&self) -> Self {
        Numbered { chunks: Arc::clone(&self.chunks), len: self.len, keys: PhantomData }
    }
}

impl<K, V> Default for Numbered<K, V> {
    fn default() -> Self {
        Numbered { chunks: Arc::default(), len: 0, keys: PhantomData }
    }
}

impl<K: Number, V> Numbered<K, V> {
    /// What has that number.
    #[inline]
    pub fn get(&self, key: &K) -> Option<&V> {
        self.get_shared(key).map(|value| &**value)
    }

    /// The same, to be kept.
    #[inline]
    pub fn get_shared(&self, key: &K) -> Option<&Arc<V>> {
        let at = key.index();
        self.chunks.get(at / CHUNK)?.as_ref()?[at % CHUNK].as_ref()
    }

    /// Something has that number.
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// All, by number.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.chunks.iter().flatten().flat_map(|chunk| chunk.iter().flatten()).map(|value| &**value)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn place(&mut self, key: K) -> &mut Option<Arc<V>> {
        let at = key.index();
        let chunks = Arc::make_mut(&mut self.chunks);
        if chunks.len() <= at / CHUNK {
            chunks.resize(at / CHUNK + 1, None);
        }
        let chunk = chunks[at / CHUNK].get_or_insert_with(|| Arc::new([const { None }; CHUNK]));
        &mut Arc::make_mut(chunk)[at % CHUNK]
    }

    /// Gives a number to something, in the place of what had it.
    pub fn insert(&mut self, key: K, value: V) {
        let old = self.place(key).replace(Arc::new(value));
        self.len += usize::from(old.is_none());
    }

    /// Takes away what has a number.
    pub fn remove(&mut self, key: &K) {
        if self.contains_key(key) {
            *self.place(*key) = None;
            self.len -= 1;
        }
    }
}

impl<K: Number, V> FromIterator<(K, V)> for Numbered<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(items: I) -> Self {
        let mut all = Numbered::default();
        items.into_iter().for_each(|(key, value)| all.insert(key, value));
        all
    }
}

impl<K: Number, V: fmt::Debug> fmt::Debug for Numbered<K, V> {
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
        /// It does what a map does, and what was copied stays as it was.
        #[test]
        fn a_map_whose_copies_stay(steps in prop::collection::vec((any::<bool>(), 0..200u16, any::<u8>()), 0..100)) {
            let mut kept: Vec<(Numbered<OfPort, u8>, BTreeMap<u16, u8>)> = Vec::new();
            let (mut tested, mut model) = (Numbered::default(), BTreeMap::new());
            for (insert, key, value) in steps {
                // Some are far away, as the local port is.
                let key = if key > 190 { key + 65_000 } else { key };
                kept.push((tested.clone(), model.clone()));
                if insert {
                    tested.insert(OfPort(key), value);
                    model.insert(key, value);
                } else {
                    tested.remove(&OfPort(key));
                    model.remove(&key);
                }
            }
            for (tested, model) in kept.iter().chain([&(tested, model)]) {
                prop_assert!(tested.values().eq(model.values()));
                prop_assert_eq!((tested.len(), tested.is_empty()), (model.len(), model.is_empty()));
                let keys = (0..260).chain(65_100..65_300);
                prop_assert!(keys.into_iter().all(|key| tested.get(&OfPort(key)) == model.get(&key)));
            }
        }
    }
}
