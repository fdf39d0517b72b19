//! LACP on ports (`bond::lacp` has the protocol).

pub mod groups;
