//! What a packet means: flow keys, masks, matches, extraction and the table of match fields.

pub mod flow;

pub use flow::{FLOW_WORDS, Flow, Mac, Tunnel, VLAN_CFI, Vlan};
