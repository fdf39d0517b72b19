//! The database service: connections, the durable file, monitors.
//!
//! A [`Server`] serves one database file and `_Server`, which describes it, on Unix and TCP
//! sockets. It is one thread around `poll`; a daemon embeds it with [`Server::spawn`], a
//! program may call [`Server::run`].
//!
//! Promises: a transaction is on disk before it is answered or shown to a monitor; when it
//! cannot be stored it is answered with an `I/O error`, memory goes back to the state before
//! it and the file to its last good record. A client that sends too much, or reads too
//! little, loses its own connection and nothing else.

mod batch;
mod file;
mod listener;
mod lockfile;
mod request;
mod server;
mod session;

pub use file::OpenError;
pub use server::{Handle, Server};
