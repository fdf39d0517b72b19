//! Guests by vhost-user.
pub mod blocked_writes;
pub mod bounds;
pub mod descriptors;
pub mod feature;
mod guest;
pub mod log;
pub mod lost_memory;
pub mod memory_table;
pub mod message;
mod notify;
pub mod path;
mod port_state;
pub mod rules;
pub mod server;

pub use guest::{Guest, Received};
pub use notify::Notify;
pub use port_state::PortState;
