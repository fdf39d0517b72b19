//! BFD on ports: sessions (`translation::bfd`) follow rows and devices; ports follow the sessions' reports.
//!
//! | file | what |
//! |---|---|
//! | `settings.rs` | from the row's map to settings |
//! | `follow.rs` | sessions follow rows and devices, ports follow sessions |

mod follow;
mod settings;

pub(crate) use follow::{configure, forget, forget_all};
