//! Maps that are kept beside later versions of themselves.

use rpds::RedBlackTreeMapSync;

/// A map whose copies share what they have in common.
pub type SharedMap<K, V> = RedBlackTreeMapSync<K, V>;
