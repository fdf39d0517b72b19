//! OpenFlow tables with un-wildcarding, and megaflow look-up.

pub mod megaflow;
pub mod of;
