//! RFC 7047 without I/O: values, schema, operations, transactions, monitors, log records, client replica.
//!
//! Both sides of the protocol are plain data structures: the server's ([`Database`], [`Monitor`],
//! [`LockTable`], [`log`]) and the client's ([`replica`], [`operation`]). This crate reads no clock, file or
//! socket; random UUIDs and the time are arguments, so every run can be repeated.
//!
//! Rows are shared (`Arc`) in persistent maps, so a snapshot costs one clone per table. A transaction works
//! on a snapshot; to roll it back, the snapshot is dropped.

mod atomic_type;
pub mod client_message;
pub mod condition;
pub mod convert;
pub mod database;
pub mod error;
pub mod integrity;
pub mod json;
pub mod jsonrpc;
pub mod lock;
pub mod log;
pub mod members;
pub mod monitor;
pub mod mutation;
pub mod operation;
pub mod rbac;
pub mod replica;
pub mod schema;
pub mod stream;
pub mod transaction;
pub mod types;
pub mod value;

pub use client_message::{ClientMessage, Parameters};
pub use database::{Changes, Commit, Database, Row, RowChange};
pub use error::Error;
pub use jsonrpc::Message;
pub use lock::LockTable;
pub use monitor::Monitor;
pub use operation::Operation;

pub use replica::Replica;
pub use schema::Schema;
pub use serde_json::Value as Json;
pub use stream::Splitter;
pub use transaction::{Context, Outcome, Prepared};
pub use uuid::Uuid;
pub use value::{Atom, Datum};
