//! Workers that stay inside a guest's rings.

use super::backend::LIMIT;
use crate::blocked_writes;
use crate::log::{Level, say};
use crate::port_state::PortState;
use std::time::Instant;

/// What to do about workers that stay.
#[derive(Debug, Default)]
pub struct Verdict {
    /// The connection must end.
    pub close: bool,
    /// Threads that the guest blocked: to be interrupted once the connection has ended.
    pub blocked: Vec<i32>,
}

/// Judges the accesses of `threads` to the rings of a guest, which have lasted since `since` at least, and were already
/// in progress at the previous check.
pub fn judge(port: &PortState, threads: impl Iterator<Item = i32>, since: Instant, now: Instant) -> Verdict {
    let path = &port.path;
    let stuck = now - since >= LIMIT && port.set_stuck(true);
    if stuck {
        let limit = LIMIT.as_secs();
        let what = "a worker has been blocked in its rings";
        say(Level::Error, &format!("vhost '{path}': {what} for {limit} s: out of service"));
    }
    let blocked: Vec<_> = threads.filter(|thread| blocked_writes::is_writing(*thread)).collect();
    if !blocked.is_empty() {
        let what = "a worker was blocked by a notification that the guest did not read";
        say(Level::Error, &format!("vhost '{path}': {what}"));
    }
    Verdict { close: stuck || !blocked.is_empty(), blocked }
}
