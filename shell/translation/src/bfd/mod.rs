//! The sessions of BFD (`bridge::bfd` has the protocol) and the sending of their messages.
//!
//! | file | what | threads |
//! |---|---|---|
//! | `sessions.rs` | the sessions of a datapath | any, one at a time |
//! | `send.rs` | sends the messages that are due | timers, or the main loop in dummy mode |

pub mod sessions;
