//! A persistent binary trie of prefixes, with edges compressed.
//!
//! It answers, for a value, which prefix lengths of the stored prefixes contain it, and how many leading bits had to be
//! examined to know that. Values are left-aligned in 128 bits, so one trie serves IPv4, IPv6 and the ports.

use std::sync::Arc;

/// What a look-up found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Bit `n - 1` is set when a stored prefix of length `n` contains the value.
    pub lengths: u128,
    /// So many leading bits decide it: every value that begins with them has the same `lengths`.
    pub bits: u32,
}

impl Found {
    /// A stored prefix of this length contains the value.
    pub fn has_length(&self, len: u32) -> bool {
        len != 0 && self.lengths >> (len - 1) & 1 != 0
    }
}

/// The trie. A clone shares all nodes.
#[derive(Clone, Debug, Default)]
pub struct Trie {
    root: Link,
}

type Link = Option<Arc<Node>>;

/// **Invariant**: a node holds rules or has two children; a child's prefix extends its parent's, and the first bit
/// after the parent's length is the child's place.
#[derive(Clone, Debug)]
struct Node {
    prefix: u128,
    len: u32,
    rules: u32,
    children: [Link; 2],
}

fn bit(value: u128, at: u32) -> usize {
    (value >> (127 - at) & 1) as usize
}

fn top_bits(value: u128, len: u32) -> u128 {
    if len == 0 { 0 } else { value & (u128::MAX << (128 - len)) }
}

fn common(a: u128, b: u128, at_most: u32) -> u32 {
    (a ^ b).leading_zeros().min(at_most)
}

impl Trie {
    /// No prefix is stored.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Counts one rule more with the prefix `value/len`; `len` is 1 to 128.
    pub fn insert(&mut self, value: u128, len: u32) {
        insert(&mut self.root, top_bits(value, len), len);
    }

    /// Counts one rule less with this prefix, which has been inserted before.
    pub fn remove(&mut self, value: u128, len: u32) {
        remove(&mut self.root, top_bits(value, len), len);
    }

    /// Which lengths contain `value`.
    pub fn lookup(&self, value: u128) -> Found {
        let mut found = Found::default();
        let mut link = &self.root;
        while let Some(node) = link {
            let same = common(node.prefix, value, node.len);
            if same < node.len {
                found.bits = same + 1;
                return found;
            }
            found.bits = node.len;
            if node.rules > 0 && node.len > 0 {
                found.lengths |= 1 << (node.len - 1);
            }
            if node.len == 128 {
                return found;
            }
            link = &node.children[bit(value, node.len)];
            if link.is_none() && node.children.iter().any(Option::is_some) {
                // The other branch exists: the bit that excludes it was examined too.
                found.bits = node.len + 1;
            }
        }
        found
    }
}

fn insert(link: &mut Link, prefix: u128, len: u32) {
    let Some(arc) = link else {
        *link = Some(Arc::new(Node { prefix, len, rules: 1, children: [None, None] }));
        return;
    };
    let same = common(arc.prefix, prefix, arc.len.min(len));
    if same < arc.len {
        let below = bit(arc.prefix, same);
        let mut fork = Node { prefix: top_bits(prefix, same), len: same, rules: 0, children: [None, None] };
        fork.children[below] = link.take();
        *link = Some(Arc::new(fork));
        return insert(link, prefix, len);
    }
    let node = Arc::make_mut(arc);
    if node.len == len {
        node.rules += 1;
    } else {
        insert(&mut node.children[bit(prefix, node.len)], prefix, len);
    }
}

fn remove(link: &mut Link, prefix: u128, len: u32) {
    let Some(arc) = link else { return };
    if arc.len > len || common(arc.prefix, prefix, arc.len) < arc.len {
        return;
    }
    let node = Arc::make_mut(arc);
    if node.len == len {
        node.rules = node.rules.saturating_sub(1);
    } else {
        remove(&mut node.children[bit(prefix, node.len)], prefix, len);
    }
    if node.rules == 0 {
        let only = match &mut node.children {
            [None, child] | [child, None] => child.take(),
            [Some(_), Some(_)] => return,
        };
        *link = only;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn v4(a: u8, b: u8, c: u8, d: u8) -> u128 {
        u128::from(u32::from_be_bytes([a, b, c, d])) << 96
    }

    #[test]
    fn examined_bits() {
        let mut t = Trie::default();
        assert_eq!(t.lookup(v4(10, 0, 0, 1)), Found::default());
        t.insert(v4(10, 0, 0, 0), 8);
        assert_eq!(t.lookup(v4(10, 9, 9, 9)), Found { lengths: 1 << 7, bits: 8 });
        // 0x0a against 0x14: they differ in the fourth bit.
        assert_eq!(t.lookup(v4(20, 0, 0, 1)), Found { lengths: 0, bits: 4 });
        t.insert(v4(10, 1, 2, 0), 24);
        assert_eq!(t.lookup(v4(10, 1, 2, 3)), Found { lengths: 1 << 7 | 1 << 23, bits: 24 });
        assert_eq!(t.lookup(v4(10, 128, 0, 0)), Found { lengths: 1 << 7, bits: 9 });
        t.remove(v4(10, 1, 2, 0), 24);
        t.remove(v4(10, 0, 0, 0), 8);
        assert!(t.is_empty());
    }

    fn naive(set: &[(u128, u32)], value: u128) -> Found {
        let mut f = Found::default();
        for &(p, len) in set {
            let same = common(p, value, len);
            if same == len {
                f.lengths |= 1 << (len - 1);
                f.bits = f.bits.max(len);
            } else {
                f.bits = f.bits.max(same + 1);
            }
        }
        f
    }

    proptest! {
        #[test]
        fn agrees_with_a_list(
            mut ops in prop::collection::vec((any::<bool>(), 0u32..64, 1u32..7), 0..60),
            probes in prop::collection::vec(0u32..64, 10),
        ) {
            let mut t = Trie::default();
            let mut set: Vec<(u128, u32)> = Vec::new();
            for (add, v, len) in ops.drain(..) {
                let p = top_bits(u128::from(v) << 122, len);
                if add {
                    t.insert(p, len);
                    set.push((p, len));
                } else if let Some(i) = set.iter().position(|e| *e == (p, len)) {
                    let before = t.clone();
                    t.remove(p, len);
                    prop_assert_eq!(before.lookup(p), naive(&set, p));
                    set.remove(i);
                }
                for &v in &probes {
                    let v = u128::from(v) << 122;
                    prop_assert_eq!(t.lookup(v), naive(&set, v));
                }
            }
        }
    }
}
