//! The database service: connections, durable files, monitors, and the program `ovsdb-server`.
//!
//! A [`Server`] serves database files, and `_Server`, which describes them, on Unix, TCP and TLS sockets, or
//! by connecting to its clients. It is a single thread around `poll`: a daemon embeds it with
//! [`Server::spawn`], a program calls [`Server::run`] in its own loop, as [`program`] does.
//!
//! Guarantees: a transaction is in its file before it is answered or sent to a monitor; it is on disk then if
//! it asked for that (`durable`), or else soon after. A transaction that cannot be stored gets an `I/O
//! error`; memory is reset to the state before it and the file to its last valid record. A client that sends
//! too much, or reads too little, loses its own connection only. Long work is done by jobs ([`core`],
//! [`jobs`]), so that probes of other clients are answered meanwhile.
//! other clients are answered meanwhile.

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
mod jobs;
mod limits;
mod lockfile;
pub mod program;
mod remote_options;
mod remotes;
mod request;
mod server;
mod session;
mod syncer;
mod thread;
mod tls_names;
mod weight;

pub use databases::AddError;
pub use file::{DatabaseFile, OpenError, now_ms, read};
pub use limits::Limits;
pub use remotes::{RemoteNames, RemoteOptions};
pub use server::{Readable, Server, Waits};
pub use thread::Handle;
pub use tls_names::TlsNames;
