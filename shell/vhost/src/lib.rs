//! Guests by vhost-user.
pub mod blocked_writes;
pub mod bounds;
mod copy;
pub mod descriptors;
mod device;
pub mod feature;
mod guest;
pub mod log;
pub mod lost_memory;
mod memory;
pub mod memory_table;
pub mod message;
mod notify;
pub mod path;
mod port_state;
mod ring;
pub mod rules;
pub mod server;

pub use device::from_guest::FromGuest;
pub use device::socket::Socket;
pub use device::to_guest::{Sending, ToGuest};
pub use guest::{Guest, Received};
pub use notify::Notify;
pub use port_state::PortState;
