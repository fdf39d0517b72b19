//! Sessions of protocols on ports (BFD, CFM): they follow rows and devices (`translation` runs them), and ports follow their
//! reports.
//!
//! | file | what |
//! |---|---|
//! | `configure.rs` | applies rows to sessions |
//! | `bfd_settings.rs`, `cfm_settings.rs` | read the columns |
//! | `follow.rs` | counts and addresses for the sessions, and their reports for ports |

mod bfd_settings;
mod cfm_settings;
mod configure;
mod follow;

pub(crate) use configure::{configure, forget, forget_all};
