//! A small HTTP server: one thread, one request for each connection, everything bounded.
//!
//! | what | bound |
//! |---|---|
//! | connections | [`server::TCP_MAX`] by TCP, [`server::UNIX_MAX`] at the Unix socket, so that one cannot keep the other out |
//! | a request | [`http_request::REQUEST_MAX`] bytes, [`conn::READ_TIME`] |
//! | an answer | [`conn::WRITE_TIME`]; answers that are being sent have [`server::BODIES_MAX`] bytes together |
//!
//! If all connections of a socket are in use, the oldest that has not sent a whole request makes room. Only `GET` and `HEAD` exist, and
//! paths are compared with a fixed list: there are no files.

pub mod conn;
pub mod server;
