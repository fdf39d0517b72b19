//! The control socket of a daemon (`ovs-appctl`): JSON-RPC server and client.
//!
//! A connection is served one request at a time and in order; an answer may come much later than its request
//! (`time/warp`, `revalidator/wait`). The daemon implements the commands; their names and argument counts
//! come from `ctl`.

mod client;
mod conn;
mod format;
mod long;
mod server;

pub use client::Client;
pub use conn::{Request, RequestId};
pub use format::{Format, Reply};
pub use long::LongText;
pub use server::Server;
