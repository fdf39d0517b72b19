//! LACP on ports (`bond::lacp` has the protocol).

pub mod port_rows;
