//! Random tables and packets through Sluice and the stock switch: both get the same flows and packets, and what they say
//! (`ofproto/trace`, datapath flows, counters, the learning table) and do (packets that leave) is compared.
//!
//! A case is its seed: tables and packets come from it alone. The stock switch is the oracle; where it is of an older version than
//! the text we speak, the caller may leave the words of a trace out of the comparison.

pub mod actions;
pub mod bounds;
pub mod change;
pub mod check;
pub mod expected;
pub mod groups;
pub mod kind;
pub mod minimise;
pub mod normal;
pub mod packet;
pub mod pools;
pub mod reshape;
pub mod rng;
pub mod sent;
pub mod switch;
pub mod table;
