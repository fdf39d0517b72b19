//! The control socket of a daemon (`ovs-appctl`): JSON-RPC server and client.
//!
//! The server handles one request of a connection at a time, in order. The daemon may answer a request much later
//! (`time/warp`, `revalidator/wait`). The daemon implements the commands; `ctl` defines their names and numbers of
//! arguments.

mod client;
mod conn;
mod format;
mod long_text;
mod server;

pub use client::Client;
pub use conn::{Request, RequestId};
pub use format::{Format, Reply};
pub use long_text::LongText;
pub use server::Server;
