//! The sessions of BFD (`bridge::bfd` has the protocol).

pub mod sessions;
