//! OpenFlow tables with un-wildcarding, and megaflow look-up.

pub mod of;
