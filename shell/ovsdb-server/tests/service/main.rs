//! The service tested from outside: durability, and the protocol. One program, so that it is linked only
//! once.

mod changes;
mod common;
mod durability;
mod jobs;
mod protocol;
