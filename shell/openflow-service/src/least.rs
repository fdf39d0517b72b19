//! The minimum of a changing set of values.

use std::collections::{BTreeMap, BTreeSet};

/// Values by key, and in order of value.
#[derive(Clone, Debug)]
pub struct Least<K, V> {
    by_key: BTreeMap<K, V>,
    in_order: BTreeSet<(V, K)>,
}

impl<K, V> Default for Least<K, V> {
    fn default() -> Self {
        Least { by_key: BTreeMap::new(), in_order: BTreeSet::new() }
    }
}

impl<K: Ord + Clone, V: Ord + Clone> Least<K, V> {
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
        fn least(values: &Least<&'static str, u32>) -> Option<(&'static str, u32)> {
            values.iter().next().map(|(key, value)| (*key, *value))
        }
        let mut values = Least::default();
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
