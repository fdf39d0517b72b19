//! Durations in OpenFlow messages.

use openflow::flow_mod::Duration;
use units::Millis;

/// The time since `then` as seconds and nanoseconds, as in OpenFlow messages.
pub fn duration(then: Millis, now: Millis) -> Duration {
    let ms = now.since(then).0;
    Duration { sec: u32::try_from(ms / 1000).unwrap_or(u32::MAX), nsec: (ms % 1000) as u32 * 1_000_000 }
}
