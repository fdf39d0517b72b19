//! Makes the switch visible: metrics for Prometheus, JSON, and a web page, served by a thread of its own.
//!
//! | where | what |
//! |---|---|
//! | `handle.rs`, `build_view.rs` | the main thread: publishes a view of its state, at most once a second and only after a request |
//! | `view.rs`, `shared.rs` | the view, and how it is passed to the server |
//! | `samples/` | builds samples of metrics (crate `metrics`) from the view; counters of workers are read directly |
//! | `http/` | the server |
//! | `api.rs`, `drops.rs`, `megaflows.rs` | the content that it serves |
//! | `page/` | the web page |
//!
//! Nothing in this crate changes the switch, and no worker waits for it.

mod api;
mod build_view;
mod drops;
mod handle;
pub mod http;
mod log;
mod megaflows;
mod samples;
mod shared;
mod token_bucket;
mod view;

pub use handle::MetricsServer;
pub use shared::{PendingQuestion, Question};
