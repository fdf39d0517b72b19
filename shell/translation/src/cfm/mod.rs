//! The sessions of CFM (`bridge::cfm` has the protocol).

pub mod sessions;
