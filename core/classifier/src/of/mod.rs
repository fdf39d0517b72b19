//! OpenFlow table look-up: finds the rule that a packet matches, and the bits of the packet on which the result depends.
//!
//! **Tuple space search.** Rules with the same mask form a [`subtable`]: a hash table over the masked bits. A look-up
//! visits the subtables in the order of their highest rule priority, and stops when no later subtable can contain a better
//! rule.
//!
//! **Un-wildcarding.** A look-up adds the bits that it examined to a mask, from which the caller makes a megaflow.
//! One bit too many costs some misses; one bit too few forwards packets wrongly. So every shortcut obeys one rule: *a
//! flow that equals this one under the returned mask would have the same result*. Three shortcuts keep the number of
//! examined bits small:
//! - *stages* ([`stage`]): metadata, L2, L3 and L4 bits are hashed one after the other, and a miss in an early stage leaves the
//!   bits of later stages wildcarded;
//! - *prefixes* ([`prefix`], [`trie`]): a trie over all address prefixes of the table excludes subtables by examining only a few
//!   leading bits;
//! - *ports*: each subtable has a trie over its L4 ports, for the final stage.
//!
//! **Snapshots.** All parts are persistent (shared until written): `clone` copies one pointer per subtable,
//! translations read the clone without locks, and the owner continues to change the original. Changes between two
//! clones are made in place.
//!
//! **Memo.** Results of searches are stored with the examined bits, and reused for flows that are equal in these bits:
//! [`memo`].
//!
//! **Conjunctive matches**: see [`lookup`].
//!
//! Users see which bits are examined (`dpctl/dump-flows`, `ofproto/trace`), so the stages, the order of subtables and the
//! use of the tries are those of Open vSwitch.

mod bucket;
pub mod classifier;
mod hash_trie;
pub mod lookup;
mod memo;
pub mod prefix;
mod rule;
pub mod sparse;
pub mod stage;
pub mod subtable;
pub mod trie;

#[cfg(test)]
mod tests;

pub use classifier::Classifier;
pub use prefix::PrefixField;
pub use rule::{ClassifierRule, Conjunction};
pub use sparse::{SparseMask, SparseMatch};
