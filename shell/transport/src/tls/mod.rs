//! TLS beneath a stream (`ssl:`, `pssl:`): who we are, whom we trust, and the bytes on the wire.
//!
//! As in Open vSwitch, a process has one identity (private key, certificate) and one set of trusted authorities, and both
//! ends show a certificate. What is checked is the chain, not a host name: a switch is known by address, which its
//! certificate does not hold. TLS 1.2 and 1.3.
//!
//! * [`identity`]: files to configuration, read anew when they change; bootstrap of the authority's certificate.
//! * `options`: what the command lines of all programs have for it.
//! * `choice`: versions and ciphers.
//! * `subject`: the name in a certificate.
//! * [`session`]: one connection: handshake, reading, writing, all without waiting.

mod choice;
pub mod identity;
mod options;
pub(crate) mod session;
mod subject;
mod trust;

pub use identity::{Files, Names, configure};
pub use options::option;
