//! BFD on ports: sessions (`translation::bfd`) follow rows and devices; ports follow the sessions' reports.
//!
//! | file | what |
//! |---|---|
//! | `settings.rs` | reads column `bfd` |
//! | `follow.rs` | applies rows and devices to sessions, and reports to ports |

mod follow;
mod settings;

pub(crate) use follow::{configure, forget, forget_all};
