//! Tests of sockets that a thread serves, alone or in turn with the main loop.

use super::SocketThread;
use crate::tests::{Peer, TestBridge, message};
use crate::{Connections, Parts};
use openflow::{Body, Dialect, Message, Version, Xid};
use runtime::{Clock, PollLoop, WaitSet};
use std::io::{ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A bridge whose sockets a thread serves, and the waker of its main loop.
fn served(name: &str) -> (TestBridge, SocketThread, PollLoop) {
    let poll = PollLoop::new(Clock::new()).unwrap();
    let serving = SocketThread::start(poll.clock().clone(), poll.waker()).unwrap();
    let mut test = TestBridge::with(name, &["punix:ctl"], Connections::served_by("br0", &serving));
    test.now = poll.clock().now();
    (test, serving, poll)
}

impl TestBridge {
    /// One turn; each request is answered with `reply`. Returns the number of requests.
    fn answer(&mut self, reply: &Body) -> usize {
        self.connections.run(self.now);
        let mut n = 0;
        while let Some(request) = self.connections.next_request(self.now) {
            self.connections.session(request.conn).unwrap().send(message(&request).reply(reply.clone()));
            n += 1;
        }
        self.connections.flush(self.now);
        n
    }

    /// Turns of the main loop, which sleeps in between, until `done`.
    fn turns(&mut self, poll: &PollLoop, mut turn: impl FnMut(&mut TestBridge) -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !turn(self) {
            assert!(Instant::now() < end, "nothing happens");
            let mut set = WaitSet::new();
            self.connections.wait(&mut set, self.now);
            poll.block(set);
        }
    }
}

impl Peer {
    /// Waits for messages.
    fn wait(&mut self) -> Vec<Message> {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let got = self.receive();
            if !got.is_empty() {
                return got;
            }
            assert!(Instant::now() < end, "no answer");
            std::thread::yield_now();
        }
    }

    /// Waits for this number of messages, and returns their transaction ids.
    fn hear(&mut self, n: usize) -> Vec<u32> {
        let mut xids = Vec::new();
        while xids.len() < n {
            xids.extend(self.wait().iter().map(|m| m.xid.0));
        }
        xids
    }

    /// A connection with an agreed version.
    fn opened(test: &TestBridge, socket: &str, version: Version) -> Peer {
        let mut peer = test.connect(socket);
        peer.hello(version);
        assert!(matches!(peer.wait().as_slice(), [Message { body: Body::Hello(_), .. }]));
        peer
    }
}

#[test]
fn a_thread_answers_probes_while_the_main_loop_is_busy() {
    let (test, _serving, _poll) = served("probe");
    let mut peer = Peer::opened(&test, "br0.mgmt", Version::V13);
    peer.send(&Message::new(Version::V13, Xid(2), Body::BarrierRequest));
    peer.send(&Message::new(Version::V13, Xid(3), Body::EchoRequest(vec![7])));
    // The main loop has not had a turn.
    assert_eq!(peer.wait().pop().unwrap().body, Body::EchoReply(vec![7]));
}

/// The number of requests of [`order_of_replies`].
const N: u32 = 20_000;

/// Sends [`N`] barriers in chunks of the sizes that `next_chunk` returns, of which each hundredth has an unknown type. Returns the
/// transaction ids of the replies, and whether they are errors.
fn order_of_replies(mut peer: Peer, mut next_chunk: impl FnMut() -> usize) -> Vec<(u32, bool)> {
    let mut frames = Vec::new();
    for n in 0..N {
        let barrier = Message::new(Version::V13, Xid(n), Body::BarrierRequest);
        let mut bytes = openflow::encode(&barrier, Dialect::default()).unwrap().concat();
        if n % 100 == 99 {
            bytes[1] = 99;
        }
        frames.extend(bytes);
    }
    let mut xids = Vec::new();
    let mut rest = &frames[..];
    while xids.len() < N as usize {
        match peer.stream.write(&rest[..next_chunk().min(rest.len())]) {
            Ok(n) => rest = &rest[n..],
            Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
        }
        xids.extend(peer.receive().iter().map(|m| (m.xid.0, matches!(m.body, Body::Error(_)))));
        std::thread::yield_now();
    }
    xids
}

fn expected_order() -> Vec<(u32, bool)> {
    (0..N).map(|n| (n, n % 100 == 99)).collect()
}

#[test]
fn a_thread_keeps_the_order_of_requests_replies_and_refusals() {
    let (mut test, _serving, poll) = served("order");
    let peer = Peer::opened(&test, "ctl", Version::V13);
    let writer = std::thread::spawn(move || order_of_replies(peer, || usize::MAX));
    let mut answered = 0;
    test.turns(&poll, |test| {
        answered += test.answer(&Body::BarrierReply) as u32;
        answered == N - N / 100 && test.connections.sessions().all(|(_, s)| s.output_len() == 0)
    });
    assert_eq!(writer.join().unwrap(), expected_order());
}

impl TestBridge {
    /// Turns of a main loop that serves the sockets in turn with the thread, until `done`.
    fn shared_turns(
        &mut self,
        (poll, serving): (&PollLoop, &SocketThread),
        mut turn: impl FnMut(&mut TestBridge) -> bool,
    ) {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            assert!(Instant::now() < end, "nothing happens");
            serving.begin_turn();
            serving.serve(self.now);
            let is_done = turn(self);
            serving.flush(self.now);
            if is_done {
                return;
            }
            let owned = serving.end_turn();
            let mut set = WaitSet::new();
            owned.iter().for_each(|sockets| sockets.wait(&mut set, self.now));
            self.connections.wait(&mut set, self.now);
            let ready = poll.block(set);
            owned.into_iter().for_each(|sockets| sockets.record_sleep(&ready));
        }
    }

    /// Turns until the thread has returned the sockets to the main loop.
    fn turns_until_main_owns(&mut self, (poll, serving): (&PollLoop, &SocketThread)) {
        self.shared_turns((poll, serving), |test| {
            test.answer(&Body::BarrierReply);
            serving.ownership.main_owns_sockets()
        });
    }
}

/// The sockets change hands often: after long turns, after much input, and after calm.
#[test]
fn the_order_is_kept_when_the_sockets_change_hands() {
    let (mut test, serving, poll) = served("hands");
    let peer = Peer::opened(&test, "ctl", Version::V13);
    let mut chunks = 0;
    let next_chunk = move || {
        chunks += 1;
        match chunks % 40 {
            0 => {
                std::thread::sleep(Duration::from_millis(12));
                1
            }
            39 => 100_000,
            n => n * 7,
        }
    };
    let writer = std::thread::spawn(move || order_of_replies(peer, next_chunk));
    let (mut answered, mut turns, mut of_main) = (0, 0, 0);
    test.shared_turns((&poll, &serving), |test| {
        turns += 1;
        if turns % 50 == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        of_main += u32::from(serving.ownership.main_owns_sockets());
        answered += test.answer(&Body::BarrierReply) as u32;
        answered == N - N / 100 && test.connections.sessions().all(|(_, s)| s.output_len() == 0)
    });
    assert_eq!(writer.join().unwrap(), expected_order());
    assert!(0 < of_main && of_main < turns, "{of_main} of {turns} turns");
}

#[test]
fn the_main_loop_answers_itself_when_there_is_little_work() {
    let (mut test, serving, poll) = served("little");
    let mut peer = Peer::opened(&test, "br0.mgmt", Version::V13);
    test.turns_until_main_owns((&poll, &serving));
    let before = serving.turns();
    for xid in 0..100 {
        peer.send(&Message::new(Version::V13, Xid(xid), Body::BarrierRequest));
        test.shared_turns((&poll, &serving), |test| test.answer(&Body::BarrierReply) > 0);
        assert_eq!(peer.hear(1), [xid]);
    }
    // The thread wakes up for the watchdog's timer only.
    assert!(serving.turns() - before < 50, "{} turns", serving.turns() - before);
}

#[test]
fn the_thread_answers_probes_during_a_long_turn() {
    let (mut test, serving, poll) = served("long-turn");
    let mut peer = Peer::opened(&test, "br0.mgmt", Version::V13);
    test.turns_until_main_owns((&poll, &serving));
    serving.begin_turn();
    peer.send(&Message::new(Version::V13, Xid(3), Body::EchoRequest(vec![7])));
    // The main loop does not end its turn.
    assert_eq!(peer.wait().pop().unwrap().body, Body::EchoReply(vec![7]));
}

#[test]
fn a_peer_that_does_not_read_gets_no_more_requests_executed() {
    let (mut test, _serving, poll) = served("deaf-thread");
    let mut peer = Peer::opened(&test, "ctl", Version::V13);
    let request = Message::new(Version::V13, Xid(2), Body::EchoReply(Vec::new())).reply(Body::BarrierRequest);
    let frame = openflow::encode(&request, Dialect::default()).unwrap().concat();
    let big = Body::EchoReply(vec![0; 60_000]);
    let mut executed = 0;
    // Send until the switch accepts no more bytes.
    let mut sent = 0;
    while sent < 10 * 256 {
        match peer.stream.write_all(&frame) {
            Ok(()) => sent += 1,
            Err(_) => break,
        }
    }
    let mut idle = 0;
    while idle < 50 {
        let n = test.answer(&big);
        idle = if n == 0 { idle + 1 } else { 0 };
        executed += n;
        std::thread::sleep(Duration::from_millis(1));
    }
    // The kernel buffers some hundred kilobytes of replies, and half a megabyte may wait in the switch.
    assert!(executed < sent / 2, "{executed} of {sent}");
    // When the peer reads, all requests are answered.
    let reader = std::thread::spawn(move || peer.hear(sent));
    test.turns(&poll, |test| {
        executed += test.answer(&big);
        executed == sent && test.connections.sessions().all(|(_, s)| s.output_len() == 0)
    });
    assert_eq!(reader.join().unwrap().len(), sent);
}

#[test]
fn a_thread_sleeps_while_the_main_loop_takes_nothing() {
    let (test, serving, _poll) = served("full");
    let mut peer = Peer::opened(&test, "ctl", Version::V13);
    let request =
        Message::new(Version::V13, Xid(2), Body::EchoReply(vec![0; 4000])).reply(Body::BarrierRequest);
    let frame = openflow::encode(&request, Dialect::default()).unwrap().concat();
    let frames = frame.repeat(1 << 20 >> 3);
    let (mut rest, end) = (&frames[..], Instant::now() + Duration::from_secs(20));
    // Send until neither the thread nor the socket accepts more bytes.
    let mut idle = 0;
    while idle < 100 {
        assert!(Instant::now() < end && !rest.is_empty(), "it takes all");
        match peer.stream.write(rest) {
            Ok(n) => (rest, idle) = (&rest[n..], 0),
            Err(_) => idle += 1,
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let before = serving.turns();
    std::thread::sleep(Duration::from_millis(100));
    assert!(serving.turns() - before < 10, "{} turns", serving.turns() - before);
}

#[test]
fn parts_of_a_reply_come_as_the_peer_takes_them() {
    let (mut test, _serving, poll) = served("parts");
    let mut peer = Peer::opened(&test, "br0.mgmt", Version::V13);
    peer.send(&Message::new(Version::V13, Xid(9), Body::BarrierRequest));
    let made = Arc::new(AtomicU32::new(0));
    let (count, mut n) = (Arc::clone(&made), 0);
    let mut parts = Some(Parts::new(move |_| {
        n += 1;
        count.store(n, Ordering::SeqCst);
        (n <= 300).then(|| Message::new(Version::V13, Xid(n), Body::EchoReply(vec![0; 10_000])))
    }));
    test.turns(&poll, |test| {
        for request in test.turn() {
            let session = test.connections.session(request.conn).unwrap();
            session.send_parts(parts.take().unwrap());
            assert!(session.is_sending());
        }
        parts.is_none()
    });
    test.turn();
    while made.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    assert!(made.load(Ordering::SeqCst) < 200);
    let reader = std::thread::spawn(move || peer.hear(300));
    test.turns(&poll, |test| {
        test.turn();
        test.connections.sessions().all(|(_, s)| !s.is_sending())
    });
    assert_eq!(reader.join().unwrap(), (1..=300).collect::<Vec<u32>>());
}

#[test]
fn sockets_are_closed_when_a_bridge_is_gone_and_what_it_was_asked_is_done() {
    let (mut test, serving, poll) = served("gone");
    let mut peer = Peer::opened(&test, "ctl", Version::V13);
    test.turns(&poll, |test| {
        test.turn();
        test.connections.sessions().count() == 1
    });
    // A peer that leaves after its request.
    peer.send(&Message::new(Version::V13, Xid(9), Body::BarrierRequest));
    let mut asked = 0;
    test.turns(&poll, |test| {
        asked += test.turn().len();
        asked == 1
    });
    drop(peer);
    test.turns(&poll, |test| {
        test.turn();
        test.connections.sessions().count() == 0
    });
    let mut peer = Peer::opened(&test, "br0.mgmt", Version::V13);
    test.turns(&poll, |test| {
        test.turn();
        test.connections.sessions().count() == 1
    });
    test.connections = Connections::served_by("br0", &serving);
    assert!(peer.is_closed() && !test.dir.join("br0.mgmt").exists());
    assert!(test.configure(&[]).is_empty());
    assert!(test.dir.join("br0.mgmt").exists());
    test.connections = Connections::new("br0");
    drop(serving);
}
