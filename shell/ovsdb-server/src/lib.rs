//! The database service: connections, durable files, monitors, and the program `ovsdb-server`.
//!
//! A [`Server`] serves database files, and the database `_Server`, which describes them. It listens on Unix, TCP and TLS
//! sockets, or connects to its clients. A single thread serves all sockets with `poll`: a daemon starts it with
//! [`Server::spawn`], a program calls [`Server::run`] in its own loop, as [`program`] does.
//!
//! Guarantees: a transaction is in its file before it is answered or sent to a monitor. With `durable` it is also on disk
//! by then; otherwise it is synced a fraction of a second later. A transaction that cannot be stored gets an `I/O error`;
//! the database in memory is reset to its state before the transaction, and the file to its last valid record. A client
//! that sends too much, or reads too little, only loses its own connection. Jobs ([`core`], [`jobs`]) execute long
//! requests, so that probes of other clients are answered meanwhile.

mod batch;
mod columns;
mod conn;
mod core;
mod databases;
mod disk;
#[cfg(test)]
mod faults;
mod file;
mod identity;
mod job_decision;
mod jobs;
mod limits;
mod lockfile;
pub mod program;
mod remote_options;
mod remotes;
mod request;
mod retries;
mod server;
mod session;
mod syncer;
mod thread;
mod tls_names;

pub use databases::AddError;
pub use file::{DatabaseFile, OpenError, now_ms, read};
pub use limits::Limits;
pub use remotes::{RemoteNames, RemoteOptions};
pub use server::{Readable, Server, Waits};
pub use thread::Handle;
pub use tls_names::TlsNames;
