//! Look-up of OpenFlow rules, with wildcards, and look-up of megaflows.

pub mod megaflow;
pub mod of;
