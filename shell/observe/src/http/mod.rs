//! A small HTTP server: one thread, one request per connection, limits for everything.
//!
//! | what | bound |
//! |---|---|
//! | connections | [`server::TCP_MAX`] by TCP, [`server::UNIX_MAX`] at the Unix socket, so that neither can block the other |
//! | a request | [`http_request::REQUEST_MAX`] bytes, [`conn::READ_TIME`] |
//! | an answer | [`conn::WRITE_TIME`]; answers that are being sent have at most [`server::BODIES_MAX`] bytes together |
//! | input after the request | is discarded, for [`conn::LINGER_TIME`] after the answer, so that the answer is not lost |
//! | CPU time | [`server::CPU`] of a core: a client that sends requests without a pause must wait |
//!
//! If all connections of a socket are in use, a connection of the host with the most connections is closed (`eviction.rs`).
//! Only `GET` and `HEAD` are accepted. Paths are compared with a fixed list; no files are served. Requests of pages of other
//! sites are refused ([`http_request::Origin`]).

pub mod conn;
mod eviction;
pub mod server;
