//! A persistent binary trie of prefixes, with path compression.
//!
//! A look-up of a value returns the lengths of the stored prefixes that contain the value, and how many leading bits of the
//! value determine this. Values are left-aligned in 128 bits, so one implementation serves IPv4, IPv6 and the transport
//! ports.

use std::sync::Arc;

/// Result of a look-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefixMatches {
    /// Bit `n - 1` is set if a stored prefix of length `n` contains the value.
    pub lengths: u128,
    /// Number of leading bits that determine the result: every value with the same leading bits has the same `lengths`.
    pub bits: u32,
}

impl PrefixMatches {
    /// Returns whether a stored prefix of this length contains the value.
    pub fn has_length(&self, len: u32) -> bool {
        len != 0 && self.lengths >> (len - 1) & 1 != 0
    }
}

/// A set of prefixes. Clones share all nodes.
#[derive(Clone, Debug, Default)]
pub struct Trie {
    root: Link,
}

/// A prefix, and the number of rules that have it; 0 for a prefix that is stored only because two longer prefixes branch there.
#[derive(Clone, Copy, Debug)]
struct Prefix {
    /// The bits of the prefix, in four parts: the alignment of a `u128` would make the structure longer.
    parts: [u32; 4],
    len: u8,
    rules: u32,
}

/// The child for a bit. Most prefixes have no children and are stored in their parent.
#[derive(Clone, Debug, Default)]
enum Link {
    #[default]
    Nothing,
    Leaf(Prefix),
    Fork(Arc<Node>),
}

/// A prefix with longer prefixes below it. **Invariant**: a node has at least one child, and two children if its prefix has no
/// rules. A child's prefix extends its parent's prefix; the first bit after the parent's length is the child's index.
#[derive(Clone, Debug)]
struct Node {
    prefix: Prefix,
    children: [Link; 2],
}

impl Prefix {
    fn new(bits: u128, len: u32, rules: u32) -> Prefix {
        let parts = [96, 64, 32, 0].map(|shift| (bits >> shift) as u32);
        Prefix { parts, len: len as u8, rules }
    }

    fn bits(&self) -> u128 {
        self.parts.iter().fold(0, |bits, part| bits << 32 | u128::from(*part))
    }

    fn len(&self) -> u32 {
        u32::from(self.len)
    }
}

impl Link {
    fn prefix(&self) -> Option<&Prefix> {
        match self {
            Link::Nothing => None,
            Link::Leaf(prefix) => Some(prefix),
            Link::Fork(node) => Some(&node.prefix),
        }
    }

    fn is_nothing(&self) -> bool {
        matches!(self, Link::Nothing)
    }
}

fn bit(value: u128, at: u32) -> usize {
    (value >> (127 - at) & 1) as usize
}

fn top_bits(value: u128, len: u32) -> u128 {
    if len == 0 { 0 } else { value & (u128::MAX << (128 - len)) }
}

/// Number of equal leading bits, up to `at_most`.
fn common(a: u128, b: u128, at_most: u32) -> u32 {
    (a ^ b).leading_zeros().min(at_most)
}

impl Trie {
    /// Returns whether no prefix is stored.
    pub fn is_empty(&self) -> bool {
        self.root.is_nothing()
    }

    /// Adds one rule with the prefix `value/len`; `len` is 1 to 128.
    pub fn insert(&mut self, value: u128, len: u32) {
        insert(&mut self.root, top_bits(value, len), len);
    }

    /// Removes one rule with this prefix, which must exist.
    pub fn remove(&mut self, value: u128, len: u32) {
        remove(&mut self.root, top_bits(value, len), len);
    }

    /// Returns the lengths of the prefixes that contain `value`.
    pub fn lookup(&self, value: u128) -> PrefixMatches {
        let mut found = PrefixMatches::default();
        let mut link = &self.root;
        while let Some(prefix) = link.prefix() {
            let same = common(prefix.bits(), value, prefix.len());
            if same < prefix.len() {
                found.bits = same + 1;
                return found;
            }
            found.bits = prefix.len();
            if prefix.rules > 0 && prefix.len > 0 {
                found.lengths |= 1 << (prefix.len - 1);
            }
            let Link::Fork(node) = link else { return found };
            link = &node.children[bit(value, prefix.len())];
            if link.is_nothing() {
                // The other child exists, so the bit that selects the child was examined.
                found.bits = prefix.len() + 1;
            }
        }
        found
    }
}

fn insert(link: &mut Link, bits: u128, len: u32) {
    let Some(stored) = link.prefix().copied() else {
        *link = Link::Leaf(Prefix::new(bits, len, 1));
        return;
    };
    let same = common(stored.bits(), bits, stored.len().min(len));
    if same < stored.len() {
        // Adds a node above the existing one, with the common prefix of both.
        let mut children = [Link::Nothing, Link::Nothing];
        children[bit(stored.bits(), same)] = std::mem::take(link);
        let prefix = Prefix::new(top_bits(bits, same), same, 0);
        *link = Link::Fork(Arc::new(Node { prefix, children }));
        return insert(link, bits, len);
    }
    match link {
        Link::Leaf(leaf) if stored.len() == len => leaf.rules += 1,
        Link::Leaf(leaf) => {
            let mut children = [Link::Nothing, Link::Nothing];
            insert(&mut children[bit(bits, stored.len())], bits, len);
            *link = Link::Fork(Arc::new(Node { prefix: *leaf, children }));
        }
        Link::Fork(node) => {
            let node = Arc::make_mut(node);
            match stored.len() == len {
                true => node.prefix.rules += 1,
                false => insert(&mut node.children[bit(bits, stored.len())], bits, len),
            }
        }
        Link::Nothing => {}
    }
}

fn remove(link: &mut Link, bits: u128, len: u32) {
    let Some(stored) = link.prefix().copied() else { return };
    if stored.len() > len || common(stored.bits(), bits, stored.len()) < stored.len() {
        return;
    }
    match link {
        Link::Leaf(leaf) if stored.len() == len => {
            leaf.rules = leaf.rules.saturating_sub(1);
            if leaf.rules == 0 {
                *link = Link::Nothing;
            }
        }
        Link::Fork(node) => {
            let node = Arc::make_mut(node);
            match stored.len() == len {
                true => node.prefix.rules = node.prefix.rules.saturating_sub(1),
                false => remove(&mut node.children[bit(bits, stored.len())], bits, len),
            }
            shrink(link);
        }
        Link::Leaf(_) | Link::Nothing => {}
    }
}

/// Restores the invariant of a node after rules or a child were removed.
fn shrink(link: &mut Link) {
    let Link::Fork(node) = link else { return };
    let node = Arc::make_mut(node);
    let prefix = node.prefix;
    match &mut node.children {
        [Link::Nothing, Link::Nothing] if prefix.rules > 0 => *link = Link::Leaf(prefix),
        [Link::Nothing, only] | [only, Link::Nothing] if prefix.rules == 0 => *link = std::mem::take(only),
        _ => {}
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
        assert_eq!(t.lookup(v4(10, 0, 0, 1)), PrefixMatches::default());
        t.insert(v4(10, 0, 0, 0), 8);
        assert_eq!(t.lookup(v4(10, 9, 9, 9)), PrefixMatches { lengths: 1 << 7, bits: 8 });
        // 0x0a against 0x14: they differ in the fourth bit.
        assert_eq!(t.lookup(v4(20, 0, 0, 1)), PrefixMatches { lengths: 0, bits: 4 });
        t.insert(v4(10, 1, 2, 0), 24);
        assert_eq!(t.lookup(v4(10, 1, 2, 3)), PrefixMatches { lengths: 1 << 7 | 1 << 23, bits: 24 });
        assert_eq!(t.lookup(v4(10, 128, 0, 0)), PrefixMatches { lengths: 1 << 7, bits: 9 });
        t.remove(v4(10, 1, 2, 0), 24);
        t.remove(v4(10, 0, 0, 0), 8);
        assert!(t.is_empty());
    }

    fn naive(set: &[(u128, u32)], value: u128) -> PrefixMatches {
        let mut f = PrefixMatches::default();
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
