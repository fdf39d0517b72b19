//! Maps of which several versions exist at the same time.

use rpds::RedBlackTreeMapSync;

/// A map whose clones share memory.
pub type SharedMap<K, V> = RedBlackTreeMapSync<K, V>;
