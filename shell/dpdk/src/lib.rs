//! DPDK, safe to call.
//!
//! `eal` brings the environment up, once per process; before that (or without it) everything here says so instead of
//! failing in C. Threads that touch packet buffers hold a `thread::Registration`.

pub mod args;
pub mod cycles;
pub mod dump;
pub mod eal;
pub mod ethdev;
pub mod log;
mod machine;
mod mbuf;
mod memory_headroom;
pub mod mempool;
mod memstream;
pub mod rehearsal;
pub mod settings;
pub mod thread;
mod undone;
pub mod vhost;

pub use settings::{Settings, settings};
