//! Makes the switch visible: metrics for Prometheus, JSON, and a web page, served by a thread of its own.
//!
//! | where | what |
//! |---|---|
//! | `handle.rs`, `build_view.rs` | the main thread: publishes a view of what it owns, at most once a second and only after a request |
//! | `view.rs`, `shared.rs` | the view, and how it gets to the server |
//! | `samples/` | from the view to samples of metrics (crate `metrics`); counters of poll threads are read in place |
//! | `http/` | the server |
//! | `api.rs`, `drops.rs`, `megaflows.rs` | what it serves |
//! | `page/` | the web page |
//!
//! Nothing here changes the switch, and no poll thread waits for it.

mod api;
mod budget;
mod build_view;
mod drops;
mod handle;
pub mod http;
mod log;
mod megaflows;
mod samples;
mod shared;
mod view;

pub use handle::Observe;
pub use shared::{Question, Trace};
