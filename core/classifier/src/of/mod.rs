//! OpenFlow table look-up: which rule does a packet match, and which of its bits decided that.
//!
//! **Tuple space search.** Rules with one mask form a [`subtable`]: a hash table over the masked bits. A look-up visits
//! the subtables from the highest rule priority down and stops when no later one can hold a better rule.
//!
//! **Un-wildcarding.** A look-up adds to a mask the bits that it examined; the caller makes a megaflow of them. One bit
//! too many costs a few misses; one too few forwards packets wrongly. So every shortcut here obeys one law: *any flow that is
//! equal to this one under the returned mask would have taken the same way*. Three shortcuts keep the masks wide:
//! - *stages* ([`stage`]): metadata, L2, L3 and L4 bits are hashed one after the other, and a miss in an early stage
//!   leaves the later ones wildcarded;
//! - *prefixes* ([`prefix`], [`trie`]): a trie over all address prefixes of the table tells that a subtable cannot
//!   match by looking at the few leading bits that tell it;
//! - *ports*: each subtable has a trie over its L4 ports, for the final stage.
//!
//! **Snapshots.** All parts are persistent (shared until written): `clone` copies one pointer a subtable, translators read the
//! clone without locks, and the owner goes on changing its own. Changes between two clones are made in place.
//!
//! **Memo.** What a search has found is noted with the bits that decided it, and serves flows that agree in them: [`memo`].
//!
//! **Conjunctive matches** are soft: see [`lookup`].
//!
//! Which bits are examined in which order is visible to users (`dpctl/dump-flows`, `ofproto/trace`), so stages, the
//! order of subtables and the rules of the tries are those of Open vSwitch.

mod bucket;
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

pub use classifier::{Classified, Classifier, Conjunction};
pub use prefix::PrefixField;
pub use sparse::{SparseMask, SparseMatch};
