//! A safe interface to DPDK.
//!
//! `eal` initializes DPDK's environment, once per process. Before that, or without it, the functions here return errors
//! or `None` and do not crash in C code. A thread that uses packet buffers should hold a `thread::Registration`.

pub mod args;
mod bring_up;
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
mod offload_request;
pub mod settings;
pub mod thread;
pub mod trial_start;
pub mod vhost;

pub use settings::{Settings, settings};
