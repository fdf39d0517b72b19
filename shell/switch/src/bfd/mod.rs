//! BFD on ports (`bridge::bfd` has the protocol): sessions follow the rows of interfaces, messages go out on time, what
//! sessions say goes to the database, to controllers and to who translates.
//!
//! | file | what | threads |
//! |---|---|---|
//! | `settings.rs` | from the row's map to settings | main loop |
//! | `sessions.rs` | the sessions of a datapath | any, one at a time |
//! | `send.rs` | sends the messages that are due | timers, or the main loop in dummy mode |
//! | `follow.rs` | sessions follow rows and devices, ports follow sessions | main loop |

mod follow;
mod send;
mod sessions;
mod settings;

pub use follow::PortBfd;
pub(crate) use follow::{configure, forget, forget_all};
pub(crate) use send::send_due;
pub use sessions::Sessions;
