//! Maps with several versions at the same time, which share memory.

use rpds::RedBlackTreeMapSync;

/// A map whose clones share memory.
pub type SharedMap<K, V> = RedBlackTreeMapSync<K, V>;
