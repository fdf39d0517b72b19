//! The sessions of LLDP (`bridge::lldp` has the protocol).

pub mod sessions;
