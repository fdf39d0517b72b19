//! The service from outside: what it keeps, and what clients see. One program, so that it
//! links once.

mod changes;
mod common;
mod durability;
mod jobs;
mod protocol;
