//! Runs random tables and packets through Sluice and the stock switch. Both get the same flows and packets. Their
//! outputs are compared: traces, megaflows, counters, learning tables, and the frames that they send.
//!
//! A case depends only on its seed. The stock switch is the reference; if it is of an older version, the caller may
//! exclude the text of traces from the comparison.

pub mod actions;
pub mod bounds;
pub mod change;
pub mod check;
pub mod checksum;
pub mod expected;
pub mod groups;
pub mod kind;
pub mod labels;
pub mod minimise;
pub mod normal;
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
