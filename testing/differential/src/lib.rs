//! Compares Sluice with the stock switch on random tables and packets. Both switches get the same flows and packets; their
//! traces, megaflows, counters, learning tables and sent frames must be equal.
//!
//! A case depends only on its seed. The stock switch is the reference. If it is an older version, the text of traces and the
//! megaflows can be excluded from the comparison.

pub mod actions;
pub mod bounds;
pub mod change;
pub mod check;
pub mod checksum;
pub mod expected;
pub mod groups;
pub mod inner;
pub mod kind;
pub mod labels;
pub mod load;
pub mod minimise;
pub mod normalize;
pub mod outer;
pub mod packet;
pub mod pair;
pub mod pools;
pub mod reshape;
pub mod rng;
pub mod same_bucket;
pub mod select;
pub mod sent;
pub mod switch;
pub mod table;
pub mod tunnels;
pub mod version10;
