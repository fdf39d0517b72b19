//! TLS streams (`ssl:`, `pssl:`): identity, trusted authorities, and the protocol.
//!
//! As in Open vSwitch, a process has one identity (private key, certificate) and one set of trusted
//! authorities, and both ends send a certificate. Only the chain is verified, not a host name: a switch is
//! known by its address, which its certificate does not contain. TLS 1.2 and 1.3.
//!
//! * [`identity`]: builds the configuration from files, and again when they change; bootstrap of the
//!   authority's certificate.
//! * `options`: the TLS options of all programs.
//! * `choice`: versions and ciphers.
//! * `subject`: the name in a certificate.
//! * [`session`]: one connection: handshake, reading, writing; never blocks.

mod choice;
pub mod identity;
mod options;
pub(crate) mod session;
mod subject;
mod trust;

pub use identity::{Files, Names, configure};
pub use options::option;
