//! BFD, CFM and LLDP sessions of ports: their configuration from rows, and their effects on ports. `translation` runs the sessions.
//!
//! | file | what |
//! |---|---|
//! | `configure.rs` | creates, changes and removes sessions from rows |
//! | `bfd_settings.rs`, `cfm_settings.rs` | read the columns of an interface |
//! | `lldp.rs` | what LLDP announces, and the VLANs of auto-attach |
//! | `run.rs` | passes packet counts and addresses to sessions, and applies their reports to ports |

mod bfd_settings;
mod cfm_settings;
mod configure;
mod lldp;
mod run;

pub(crate) use configure::{configure, forget, forget_all};
pub(crate) use lldp::trunk_row;
