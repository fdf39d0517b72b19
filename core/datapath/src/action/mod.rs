//! Operations that change one packet. They do nothing to a packet that lacks the header to be changed.

pub mod address;
pub mod ether;
pub mod hash;
pub mod helper;
pub mod icmp;
pub mod mpls;
pub mod nat;
pub mod nsh;
pub mod set_field;
pub mod transport;
pub mod vlan;

#[cfg(test)]
mod tests;
