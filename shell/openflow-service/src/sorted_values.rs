//! Values by key, sorted by value, so that the minimum of a changing set is known.

use std::collections::{BTreeMap, BTreeSet};

/// Values by key, sorted by value.
#[derive(Clone, Debug)]
pub struct SortedValues<K, V> {
    by_key: BTreeMap<K, V>,
    in_order: BTreeSet<(V, K)>,
}

impl<K, V> Default for SortedValues<K, V> {
    fn default() -> Self {
        SortedValues { by_key: BTreeMap::new(), in_order: BTreeSet::new() }
    }
}

impl<K: Ord + Clone, V: Ord + Clone> SortedValues<K, V> {
    /// Sets or removes the value of a key.
    pub fn set(&mut self, key: &K, value: Option<V>) {
        let old = match &value {
            Some(value) => self.by_key.insert(key.clone(), value.clone()),
            None => self.by_key.remove(key),
        };
        if let Some(old) = old {
            self.in_order.remove(&(old, key.clone()));
        }
        self.in_order.extend(value.map(|value| (value, key.clone())));
    }

    /// All values, the smallest first.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.in_order.iter().map(|(value, key)| (key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_follows_its_values() {
        fn least(values: &SortedValues<&'static str, u32>) -> Option<(&'static str, u32)> {
            values.iter().next().map(|(key, value)| (*key, *value))
        }
        let mut values = SortedValues::default();
        assert_eq!(least(&values), None);
        for (key, value) in [("a", 5), ("b", 3), ("c", 3)] {
            values.set(&key, Some(value));
        }
        assert_eq!(least(&values), Some(("b", 3)));
        values.set(&"b", Some(9));
        assert_eq!(least(&values), Some(("c", 3)));
        values.set(&"c", None);
        assert_eq!(least(&values), Some(("a", 5)));
        values.set(&"c", None);
        assert_eq!(values.iter().count(), 2);
    }
}
