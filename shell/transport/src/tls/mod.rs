//! TLS 1.2 and 1.3 streams (`ssl:`, `pssl:`): identity, trusted authorities, and the protocol.
//!
//! As in Open vSwitch, a process has one identity (private key, certificate) and one set of trusted authorities, and both
//! peers send a certificate. Only the certificate chain is verified, not the peer's name: switches are identified by their
//! addresses, which their certificates do not contain.
//!
//! * [`identity`]: the configuration, built from files, and again when they change.
//! * `options`: the TLS options of all programs.
//! * `versions_and_ciphers`: versions and ciphers.
//! * `subject`: the name in a certificate.
//! * [`session`]: one connection: handshake, reading, writing, and storing the authority's certificate. Never blocks.

pub mod identity;
mod options;
pub(crate) mod session;
mod subject;
mod trust;
mod versions_and_ciphers;

pub use identity::{Files, TlsSettings, configure};
pub use options::option;
