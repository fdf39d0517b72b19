//! A small HTTP server: one thread, one request for each connection, everything bounded.
//!
//! | what | bound |
//! |---|---|
//! | connections | [`server::TCP_MAX`] by TCP, [`server::UNIX_MAX`] at the Unix socket, so that one cannot keep the other out |
//! | a request | [`http_request::REQUEST_MAX`] bytes, [`conn::READ_TIME`] |
//! | an answer | [`conn::WRITE_TIME`]; answers that are being sent have [`server::BODIES_MAX`] bytes together |
//! | what a client sends after its request | is dropped, for [`conn::LINGER_TIME`] after the answer, so that the answer is not lost |
//!
//! | CPU time | [`server::CPU`] of a core: a client that asks without a pause waits |
//!
//! If all connections of a socket are in use, one of the host with the most connections is closed (`eviction.rs`). Only `GET` and `HEAD` are
//! accepted. Paths are compared with a fixed list; no files are served. Pages of other sites get no answer ([`http_request::Origin`]).

pub mod conn;
mod eviction;
pub mod server;
