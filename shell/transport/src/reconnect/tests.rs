//! Tests the state machine in virtual time.

use super::*;
use proptest::prelude::*;

fn refused() -> io::Error {
    io::Error::from_raw_os_error(111)
}

fn lines(r: &mut Reconnect) -> Vec<String> {
    r.take_lines().into_iter().filter(|l| l.level < Level::Dbg).map(|l| l.text).collect()
}

/// Runs at each deadline up to `until` and fails every attempt; returns the times of the attempts.
fn fail_until(r: &mut Reconnect, mut now: Millis, until: u64) -> Vec<u64> {
    let mut attempts = Vec::new();
    while now.0 <= until {
        if r.run(now) == Some(Action::Connect) {
            attempts.push(now.0);
            r.connect_failed(now, &refused());
        }
        now = r.deadline(now).unwrap();
    }
    attempts
}

#[test]
fn waits_grow_to_the_maximum_and_the_log_falls_silent() {
    let mut r = Reconnect::new("tcp:a", Wording::Ovsdb, Millis(0));
    assert_eq!(fail_until(&mut r, Millis(0), 40_000), [0, 1000, 3000, 7000, 15_000, 23_000, 31_000, 39_000]);
    assert_eq!(
        lines(&mut r),
        [
            "tcp:a: connecting...",
            "tcp:a: connection attempt failed (Connection refused)",
            "tcp:a: connecting...",
            "tcp:a: connection attempt failed (Connection refused)",
            "tcp:a: waiting 2 seconds before reconnect",
            "tcp:a: connecting...",
            "tcp:a: connection attempt failed (Connection refused)",
            "tcp:a: waiting 4 seconds before reconnect",
            "tcp:a: connecting...",
            "tcp:a: connection attempt failed (Connection refused)",
            "tcp:a: continuing to reconnect in the background but suppressing further logging",
        ]
    );
    assert_eq!(r.last_error(), Some("Connection refused"));
    r.run(Millis(47_000));
    r.connected(Millis(47_000));
    assert_eq!(lines(&mut r), ["tcp:a: connected"]);
    assert_eq!((r.attempts(), r.successes(), r.last_error()), (9, 1, None));
}

#[test]
fn openflow_has_its_own_words() {
    let mut r = Reconnect::new("br0<->tcp:a", Wording::OpenFlow, Millis(0));
    r.set_max_backoff(2000);
    fail_until(&mut r, Millis(0), 3_000);
    assert_eq!(
        lines(&mut r),
        [
            "br0<->tcp:a: connecting...",
            "br0<->tcp:a: connection failed (Connection refused)",
            "br0<->tcp:a: connecting...",
            "br0<->tcp:a: connection failed (Connection refused)",
            "br0<->tcp:a: continuing to retry connections in the background but suppressing further logging",
        ]
    );
}

#[test]
fn a_silent_peer_is_probed_and_then_dropped() {
    let mut r = Reconnect::new("x", Wording::Ovsdb, Millis(0));
    assert_eq!(r.run(Millis(0)), Some(Action::Connect));
    r.connected(Millis(10));
    assert_eq!(r.run(Millis(5009)), None);
    r.activity(Millis(5009));
    assert_eq!(r.deadline(Millis(5009)), Some(Millis(10_009)));
    assert_eq!(r.run(Millis(10_009)), Some(Action::Probe));
    assert_eq!(r.state(), State::Idle);
    r.activity(Millis(10_100));
    assert_eq!(r.state(), State::Active);
    assert_eq!(r.run(Millis(15_100)), Some(Action::Probe));
    lines(&mut r);
    assert_eq!(r.run(Millis(20_100)), Some(Action::Disconnect));
    assert_eq!(
        lines(&mut r),
        ["x: no response to inactivity probe after 5 seconds, disconnecting", "x: connection dropped"]
    );
    assert_eq!((r.state().name(), r.backoff_ms()), ("BACKOFF", 1000));
    assert_eq!(r.sec_since_disconnect(Millis(22_100)), Some(2));
    assert_eq!(r.sec_since_connect(Millis(22_100)), Some(22));
}

#[test]
fn an_attempt_times_out_after_the_wait_but_not_before_a_second() {
    let mut r = Reconnect::new("x", Wording::Ovsdb, Millis(0));
    assert_eq!(r.run(Millis(0)), Some(Action::Connect));
    assert_eq!(r.run(Millis(999)), None);
    assert_eq!(r.run(Millis(1000)), Some(Action::Disconnect));
    assert_eq!(lines(&mut r), ["x: connecting...", "x: connection attempt timed out"]);
    assert_eq!(r.run(Millis(2000)), Some(Action::Connect));
    assert_eq!(r.last_error(), Some("Connection timed out"));
}

#[test]
fn a_connection_that_does_not_last_keeps_the_wait_growing() {
    let mut r = Reconnect::new("x", Wording::Ovsdb, Millis(0));
    let mut now = Millis(0);
    let mut waits = Vec::new();
    for _ in 0..4 {
        assert_eq!(r.run(now), Some(Action::Connect));
        r.connected(now);
        r.disconnected(now, DisconnectReason::Closed);
        waits.push(r.backoff_ms());
        now = r.deadline(now).unwrap();
    }
    assert_eq!(waits, [1000, 2000, 4000, 8000]);
    assert_eq!(r.run(now), Some(Action::Connect));
    r.connected(now);
    now = Millis(now.0 + 8000);
    r.activity(now);
    r.disconnected(now, DisconnectReason::Error("Connection reset by peer".into()));
    assert_eq!(r.backoff_ms(), 1000);
    assert_eq!(lines(&mut r).last().unwrap(), "x: connection dropped (Connection reset by peer)");
}

#[test]
fn an_accepted_connection_is_not_made_again() {
    let mut r = Reconnect::accepted("unix#0", Wording::OpenFlow, Millis(0));
    r.connected(Millis(10));
    assert_eq!(r.run(Millis(5010)), Some(Action::Probe));
    r.disconnected(Millis(5011), DisconnectReason::Closed);
    assert_eq!((r.state(), r.deadline(Millis(9999))), (State::Void, None));
    assert!(lines(&mut r).is_empty());
}

#[test]
fn an_accepted_connection_has_a_second_to_say_hello() {
    let mut r = Reconnect::accepted("unix#0", Wording::OpenFlow, Millis(0));
    assert_eq!(r.deadline(Millis(0)), Some(Millis(1000)));
    assert_eq!(r.run(Millis(1000)), Some(Action::Disconnect));
    assert_eq!((r.state(), lines(&mut r)), (State::Void, vec!["unix#0: connection timed out".to_owned()]));
}

#[test]
fn forcing_and_disabling() {
    let mut r = Reconnect::new("x", Wording::OpenFlow, Millis(0));
    r.run(Millis(0));
    r.connected(Millis(0));
    r.force_reconnect();
    assert_eq!(r.run(Millis(1)), Some(Action::Disconnect));
    assert_eq!(lines(&mut r).last().unwrap(), "x: disconnecting");
    assert_eq!(r.state(), State::Backoff);
    r.disable(Millis(2));
    assert_eq!(r.run(Millis(99_999)), None);
    r.enable(Millis(100_000));
    assert_eq!(r.run(Millis(100_000)), Some(Action::Connect));
}

#[test]
fn seconds_have_three_digits() {
    let shown = [5000, 5012, 12_345, 500, 123_456].map(three_digits);
    assert_eq!(shown, ["5", "5.01", "12.3", "0.5", "123"]);
}

proptest! {
    /// For any sequence of events, the wait is within its limits, and an enabled connection is attempted again.
    #[test]
    fn it_never_gets_stuck(events in prop::collection::vec((0u8..6, 0u64..20_000), 0..60)) {
        let mut r = Reconnect::new("x", Wording::Ovsdb, Millis(0));
        let mut now = Millis(0);
        for (event, after) in events {
            now = Millis(now.0 + after);
            match event {
                0 => r.connected(now),
                1 => r.connect_failed(now, &refused()),
                2 => r.disconnected(now, DisconnectReason::Closed),
                3 => r.activity(now),
                4 => r.force_reconnect(),
                _ => _ = r.run(now),
            }
            prop_assert!(r.backoff_ms() <= 8000);
        }
        let mut connects = 0;
        for _ in 0..8 {
            now = now.max(r.deadline(now).unwrap());
            connects += u32::from(r.run(now) == Some(Action::Connect));
        }
        prop_assert!(connects >= 1);
    }
}
