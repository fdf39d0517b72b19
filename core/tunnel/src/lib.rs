//! Outer headers of tunnels: builds, adds, checks and removes them.
//!
//! [`build()`] makes the bytes of a header from a tunnel's configuration and the fields of a flow, once for each megaflow. [`Template`]
//! adds these bytes to packets and fills in the fields that differ from packet to packet. [`pop()`] checks and reads a received header; for
//! any bytes it returns the header's fields or the reason why the header is refused.
//!
//! VXLAN: RFC 7348, generic protocol extension: draft-ietf-nvo3-vxlan-gpe, group policy: draft-smith-vxlan-group-policy.
//! Geneve: RFC 8926. GRE: RFC 2784, RFC 2890. ERSPAN: draft-foschiano-erspan. GTP-U: 3GPP TS 29.281. SRv6: RFC 8754.

mod build;
mod checks;
mod fast_pop;
mod fast_push;
mod kind;
mod outer;
mod pop;
mod pop_kinds;
mod popped;
mod template;
mod wire;

pub use build::{BuildError, BuiltHeader, FlowLabel, HeaderConfig, Request, build};
pub use checks::ChecksumCounts;
pub use fast_pop::{FastChecksumCounts, FastGeneve, FastPop, FastVxlan, HeaderLengths};
pub use fast_push::{BatchSourcePorts, FastPush, add_to_id};
pub use kind::Kind;
pub use pop::{pop, pop_counted};
pub use popped::{PopError, Popped};
pub use template::{PerPacket, Template};

#[cfg(test)]
mod tests;
