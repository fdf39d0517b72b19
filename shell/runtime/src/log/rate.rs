//! The rate limit of log messages: a token bucket, and the report of dropped messages.

use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Tokens that one message costs. Every millisecond `rate` tokens are added, so `rate` is in messages per minute.
const MESSAGE_TOKENS: u64 = 60_000;

#[derive(Debug)]
struct Bucket {
    tokens: u64,
    /// When tokens were last added, in ms.
    filled: Option<u64>,
    dropped: Dropped,
}

/// A rate limit: at most `rate` messages per minute, and `burst` messages at once.
#[derive(Debug)]
pub struct RateLimit {
    rate: u64,
    burst: u64,
    bucket: Mutex<Bucket>,
}

/// The number of messages that were dropped since the last report, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dropped {
    n: u32,
    /// The first drop: in a bucket, its time in seconds; in a report, how many seconds ago it was.
    first_secs: u64,
    /// The last drop, in the same form.
    last_secs: u64,
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Dropped {} log messages in last {} seconds (most recently, {} seconds ago) \
             due to excessive rate",
            self.n, self.first_secs, self.last_secs
        )
    }
}

impl RateLimit {
    /// A rate limit, for a static.
    pub const fn new(rate: u32, burst: u32) -> RateLimit {
        let dropped = Dropped { n: 0, first_secs: 0, last_secs: 0 };
        RateLimit {
            rate: rate as u64,
            burst: burst as u64 * MESSAGE_TOKENS,
            bucket: Mutex::new(Bucket { tokens: 0, filled: None, dropped }),
        }
    }

    /// Removes the tokens of a message from the bucket. `None`: drop the message. `Some(report)`: log the message; if there
    /// is a report, log the report first.
    pub(super) fn admit(&self, now_ms: u64) -> Option<Option<Dropped>> {
        let mut b = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = b.filled.map_or(u64::MAX, |t| now_ms.saturating_sub(t));
        b.tokens = b.tokens.saturating_add(elapsed.saturating_mul(self.rate)).min(self.burst);
        b.filled = Some(now_ms);
        let secs = now_ms / 1000;
        if b.tokens < MESSAGE_TOKENS {
            if b.dropped.n == 0 {
                b.dropped.first_secs = secs;
            }
            b.dropped.last_secs = secs;
            b.dropped.n = b.dropped.n.saturating_add(1);
            return None;
        }
        b.tokens -= MESSAGE_TOKENS;
        let d = b.dropped;
        b.dropped.n = 0;
        Some((d.n > 0).then(|| Dropped {
            n: d.n,
            first_secs: secs.saturating_sub(d.first_secs),
            last_secs: secs.saturating_sub(d.last_secs),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_and_reports() {
        let rl = RateLimit::new(60, 2);
        assert_eq!(rl.admit(1000), Some(None));
        assert_eq!(rl.admit(1000), Some(None));
        assert_eq!(rl.admit(1000), None);
        let report = rl.admit(3000).unwrap().unwrap().to_string();
        assert_eq!(
            report,
            "Dropped 1 log messages in last 2 seconds (most recently, 2 seconds ago) \
             due to excessive rate"
        );
    }
}
