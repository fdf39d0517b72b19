//! OpenFlow table look-up: finds the rule that a packet matches, and the bits of the packet that decided it.
//!
//! **Tuple space search.** Rules with the same mask form a [`subtable`]: a hash table over the masked bits. A look-up
//! visits the subtables from the highest rule priority down and stops when no later one can contain a better rule.
//!
//! **Un-wildcarding.** A look-up adds the bits that it examined to a mask, from which the caller makes a megaflow.
//! One bit too many costs some misses; one too few forwards packets wrongly. So every shortcut obeys one rule: *a
//! flow that equals this one under the returned mask would have the same result*. Three shortcuts keep the masks
//! wide:
//! - *stages* ([`stage`]): metadata, L2, L3 and L4 bits are hashed one after the other, and a miss in an early stage leaves the
//!   later ones wildcarded;
//! - *prefixes* ([`prefix`], [`trie`]): a trie over all address prefixes of the table excludes subtables by examining only a few
//!   leading bits;
//! - *ports*: each subtable has a trie over its L4 ports, for the final stage.
//!
//! **Snapshots.** All parts are persistent (shared until written): `clone` copies one pointer per subtable,
//! translations read the clone without locks, and the owner continues to change its own copy. Changes between two
//! clones are made in place.
//!
//! **Memo.** Results of searches are stored with the bits that decided them, and reused for flows that are equal in
//! these bits: [`memo`].
//!
//! **Conjunctive matches** are soft: see [`lookup`].
//!
//! Users see which bits are examined (`dpctl/dump-flows`, `ofproto/trace`), so stages, the order of subtables and the
//! rules of the tries are those of Open vSwitch.

mod bucket;
mod classified;
pub mod classifier;
mod hashed;
pub mod lookup;
mod memo;
pub mod prefix;
pub mod sparse;
pub mod stage;
pub mod subtable;
pub mod trie;

#[cfg(test)]
mod tests;

pub use classified::{Classified, Conjunction};
pub use classifier::Classifier;
pub use prefix::PrefixField;
pub use sparse::{SparseMask, SparseMatch};
