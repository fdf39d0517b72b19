//! Tests of complete connections over real sockets.

use crate::{ConnSettings, Connections, ConnectionsConfig, Content, Parts, Request, SocketThread};
use openflow::flow_mod::{Duration, FlowRemoved, RemovedReason};
use openflow::message::Hello;
use openflow::packet_io::PacketIn;
use openflow::session::{Role, RoleContent, SwitchConfig};
use openflow::{Body, Dialect, Message, OfError, Version, VersionSet, Xid};
use runtime::{Clock, PollLoop, WaitSet};
use std::io::{ErrorKind, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use transport::{Listener, Stream, Target};
use units::Millis;

/// A bridge's connections and the directory of their sockets.
struct TestBridge {
    dir: PathBuf,
    connections: Connections,
    now: Millis,
}

impl TestBridge {
    fn new(name: &str, controllers: &[&str]) -> TestBridge {
        TestBridge::with(name, controllers, Connections::new("br0"))
    }

    fn with(name: &str, controllers: &[&str], connections: Connections) -> TestBridge {
        let dir = std::env::temp_dir().join(format!("ofconn-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let mut test = TestBridge { dir, connections, now: Millis(1000) };
        let errors = test.configure(controllers);
        assert!(errors.is_empty(), "{errors:?}");
        test
    }

    fn configure(&mut self, controllers: &[&str]) -> Vec<String> {
        let settings = |t: &&str| ConnSettings {
            target: (*t).to_owned(),
            max_backoff: Millis(1000),
            inactivity_probe: Some(Millis(5000)),
            async_messages: true,
            queue_size: 100,
            rate_limit: None,
            burst_limit: None,
        };
        let config = ConnectionsConfig {
            rundir: self.dir.clone(),
            versions: VersionSet::ALL,
            controllers: controllers.iter().map(settings).collect(),
            queue_size: 100,
            debug_actions: false,
        };
        self.connections.configure(&config, self.now)
    }

    fn connect(&self, socket: &str) -> Peer {
        Peer { stream: Stream::connect(&Target::Unix(self.dir.join(socket))).unwrap(), input: Vec::new() }
    }

    /// One turn; the requests are left unanswered.
    fn turn(&mut self) -> Vec<Request> {
        self.connections.run(self.now);
        let mut out = Vec::new();
        while let Some(request) = self.connections.next_request(self.now) {
            out.push(request);
        }
        self.connections.flush(self.now);
        out
    }

    fn open(&mut self, socket: &str, version: Version) -> Peer {
        let mut peer = self.connect(socket);
        peer.hello(version);
        self.turn();
        assert!(matches!(peer.receive().as_slice(), [Message { body: Body::Hello(_), .. }]));
        peer
    }
}

impl Drop for TestBridge {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn message(request: &Request) -> &Message {
    match &request.content {
        Content::Message(message) => message,
        other => panic!("{other:?}"),
    }
}

struct Peer {
    stream: Stream,
    input: Vec<u8>,
}

impl Peer {
    fn hello(&mut self, version: Version) {
        let hello = Hello { versions: VersionSet::only(version), header_version: version.wire() };
        self.send(&Message::new(version, Xid(1), Body::Hello(hello)));
    }

    fn send(&mut self, message: &Message) {
        openflow::encode(message, Dialect::default())
            .unwrap()
            .iter()
            .for_each(|bytes| self.stream.write_all(bytes).unwrap());
    }

    fn receive(&mut self) -> Vec<Message> {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => self.input.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => panic!("{e}"),
            }
        }
        let mut out = Vec::new();
        while let Ok(Some(frame)) = openflow::take_frame(&mut self.input) {
            out.push(openflow::decode(&frame, Dialect::default()).unwrap());
        }
        out
    }

    fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0; 1]), Ok(0))
    }
}

#[test]
fn a_tool_says_hello_and_asks() {
    let mut test = TestBridge::new("tool", &[]);
    let mut peer = test.open("br0.mgmt", Version::V13);
    peer.send(&Message::new(Version::V13, Xid(7), Body::EchoRequest(b"abc".to_vec())));
    peer.send(&Message::new(Version::V13, Xid(8), Body::FeaturesRequest));
    let requests = test.turn();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].xid, Xid(8));
    let reply = message(&requests[0]).reply(Body::BarrierReply);
    test.connections.session(requests[0].conn).unwrap().send(reply);
    test.turn();
    let bodies: Vec<Body> = peer.receive().into_iter().map(|m| m.body).collect();
    assert_eq!(bodies, [Body::EchoReply(b"abc".to_vec()), Body::BarrierReply]);
    drop(peer);
    test.turn();
    assert_eq!(test.connections.sessions().count(), 0);
}

#[test]
fn no_common_version() {
    let mut test = TestBridge::new("versions", &[]);
    let config = ConnectionsConfig {
        rundir: test.dir.clone(),
        versions: VersionSet::only(Version::V13),
        controllers: Vec::new(),
        queue_size: 100,
        debug_actions: false,
    };
    test.connections.configure(&config, test.now);
    let mut peer = test.connect("br0.mgmt");
    peer.hello(Version::V10);
    test.turn();
    let last = peer.receive().pop().unwrap();
    let Body::Error(error) = last.body else { panic!("{last:?}") };
    assert_eq!(error.error, Some(OfError::HfcIncompatible));
    assert!(peer.is_closed());
}

#[test]
fn garbage_ends_its_own_connection_only() {
    let mut test = TestBridge::new("garbage", &[]);
    let mut good = test.open("br0.mgmt", Version::V10);
    let mut bad = test.open("br0.mgmt", Version::V10);
    bad.stream.write_all(&[1, 0, 0, 3, 0, 0, 0, 0, 9, 9]).unwrap();
    test.turn();
    assert!(bad.is_closed());
    good.send(&Message::new(Version::V10, Xid(2), Body::EchoRequest(Vec::new())));
    test.turn();
    assert_eq!(good.receive().len(), 1);
}

#[test]
fn a_turn_is_shared() {
    let mut test = TestBridge::new("fair", &[]);
    let mut busy = test.open("br0.mgmt", Version::V10);
    let mut other = test.open("br0.mgmt", Version::V10);
    let barrier = |n| Message::new(Version::V10, Xid(n), Body::BarrierRequest);
    // Send all messages in one write: the kernel's socket buffer has no space for this number of separate writes.
    let frames = (0..300).flat_map(|n| openflow::encode(&barrier(n), Dialect::default()).unwrap());
    busy.stream.write_all(&frames.collect::<Vec<_>>().concat()).unwrap();
    other.send(&barrier(999));
    let first = test.turn();
    assert_eq!(first.len(), 257);
    assert!(first.iter().take(2).any(|r| r.xid == Xid(999)));
    assert_eq!(test.turn().len(), 44);
}

#[test]
fn asynchronous_messages_must_be_requested() {
    let mut test = TestBridge::new("async", &["punix:ctl"]);
    let mut tool = test.open("br0.mgmt", Version::V10);
    let mut controller = test.open("ctl", Version::V10);
    assert!(test.connections.any_connected());
    let event = crate::PacketInEvent { controller_id: 0, message: PacketIn::default(), continuation: None };
    assert_eq!(test.connections.send_packet_in(&event), 1);
    let ids: Vec<_> = test.connections.sessions().map(|(id, _)| id).collect();
    let wish = SwitchConfig { miss_send_len: 64, ..SwitchConfig::default() };
    test.connections.session(ids[0]).unwrap().config = wish;
    assert_eq!(test.connections.send_packet_in(&event), 2);
    test.turn();
    assert_eq!(tool.receive().len(), 1);
    assert_eq!(controller.receive().len(), 2);
}

#[test]
fn one_primary_and_no_stale_generation() {
    let mut test = TestBridge::new("roles", &["punix:ctl"]);
    let _a = test.open("ctl", Version::V13);
    let _b = test.open("ctl", Version::V14);
    let ids: Vec<_> = test.connections.sessions().map(|(id, _)| id).collect();
    let ask = |role, generation| RoleContent { role, generation_id: Some(generation), controller_id: None };
    test.connections.request_role(ids[1], &ask(Role::Primary, 5)).unwrap();
    let reply = test.connections.request_role(ids[0], &ask(Role::Primary, 6)).unwrap();
    assert_eq!((reply.role, reply.generation_id), (Role::Primary, Some(6)));
    assert_eq!(test.connections.session(ids[1]).unwrap().role, Role::Secondary);
    assert_eq!(test.connections.request_role(ids[1], &ask(Role::Primary, 5)), Err(OfError::RrfcStale));
    test.turn();
}

#[test]
fn an_active_controller_is_found_probed_and_found_again() {
    let mut test = TestBridge::new("active", &["unix:peer"]);
    let listener = Listener::bind(&Target::PUnix(test.dir.join("peer"))).unwrap();
    test.turn();
    assert_eq!(test.connections.status(test.now)[0].status["state"], "CONNECTING");
    test.turn();
    let mut peer = Peer { stream: listener.accept().unwrap().unwrap(), input: Vec::new() };
    peer.hello(Version::V13);
    test.turn();
    assert_eq!(peer.receive().len(), 1);
    assert!(test.connections.status(test.now)[0].is_connected);
    let mut snooper = test.open("br0.snoop", Version::V13);
    test.now = Millis(test.now.0 + 5001);
    test.turn();
    assert!(matches!(peer.receive().as_slice(), [Message { body: Body::EchoRequest(_), .. }]));
    test.turn();
    assert!(matches!(snooper.receive().as_slice(), [Message { body: Body::EchoRequest(_), .. }]));
    drop(peer);
    test.turn();
    let status = test.connections.status(test.now).remove(0);
    assert!(!status.is_connected && status.role.is_none());
    test.now = Millis(test.now.0 + 8001);
    test.turn();
    assert!(listener.accept().unwrap().is_some());
}

#[test]
fn unchanged_connections_stay() {
    let mut test = TestBridge::new("again", &["punix:ctl"]);
    let mut peer = test.open("ctl", Version::V13);
    assert!(test.configure(&["punix:ctl"]).is_empty());
    peer.send(&Message::new(Version::V13, Xid(2), Body::EchoRequest(Vec::new())));
    test.turn();
    assert_eq!(peer.receive().len(), 1);
    let errors = test.configure(&["tcp:nonsense"]);
    assert_eq!(errors.len(), 1, "{errors:?}");
    let state = test.connections.status(test.now).remove(0);
    assert_eq!((state.status["last_error"].as_str(), state.is_connected), (errors[0].as_str(), false));
    assert_eq!(state.status["state"], "VOID");
    assert!(peer.is_closed());
    assert!(!test.dir.join("ctl").exists());
}

fn packet(len: usize) -> crate::PacketInEvent {
    let message = PacketIn { packet: vec![0; len], total_len: len as u32, ..PacketIn::default() };
    crate::PacketInEvent { controller_id: 0, message, continuation: None }
}

#[test]
fn packet_ins_for_a_peer_that_does_not_read_are_dropped_and_counted() {
    let mut test = TestBridge::new("deaf", &["punix:ctl", "unix:deaf"]);
    let listener = Listener::bind(&Target::PUnix(test.dir.join("deaf"))).unwrap();
    (0..2).for_each(|_| _ = test.turn());
    let mut deaf = Peer { stream: listener.accept().unwrap().unwrap(), input: Vec::new() };
    deaf.hello(Version::V10);
    let mut good = test.open("ctl", Version::V10);
    let mut heard = 0;
    for _ in 0..2000 {
        assert_eq!(test.connections.send_packet_in(&packet(1500)), 2);
        test.turn();
        heard += good.receive().len();
    }
    assert_eq!(heard, 2000);
    let waiting: Vec<usize> = test.connections.sessions().map(|(_, s)| s.output_len()).collect();
    // 100 packet-ins of 1518 bytes; the kernel buffers more in addition.
    assert!(waiting.iter().all(|len| *len <= 100 * 1600), "{waiting:?}");
    let status = &test.connections.status(test.now)[0].status;
    let dropped: usize = status["packet-in-miss-dropped"].parse().unwrap();
    // Packet-ins that were not dropped arrive when the peer reads again.
    let mut late = 0;
    while let n @ 1.. = deaf.receive().iter().filter(|m| matches!(m.body, Body::PacketIn(..))).count() {
        late += n;
        test.turn();
    }
    assert!(dropped > 1000);
    assert_eq!(late + dropped, 2000);
}

#[test]
fn a_peer_that_leaves_replies_unread_is_cut_off_by_their_age() {
    let mut test = TestBridge::new("unread", &[]);
    let mut deaf = test.open("br0.mgmt", Version::V10);
    let mut good = test.open("br0.mgmt", Version::V10);
    let echo = Message::new(Version::V10, Xid(2), Body::EchoRequest(vec![0; 60_000]));
    // The peer keeps sending requests, so no probe finds it silent.
    for second in 0..100 {
        test.now = Millis(1000 + second * 1000);
        match second {
            0..8 => deaf.send(&echo),
            8..60 => deaf.send(&Message::new(Version::V10, Xid(3), Body::EchoRequest(Vec::new()))),
            _ => {}
        }
        good.send(&echo);
        test.turn();
        assert_eq!(good.receive().len(), 1);
        let there = test.connections.sessions().count();
        // The kernel buffers some hundred kilobytes before bytes wait in the switch.
        let expected = if second < 60 { 2..=2 } else { 1..=2 - usize::from(second >= 80) };
        assert!(expected.contains(&there), "{second} s: {there}");
    }
}

#[test]
fn unsolicited_messages_end_a_connection_that_does_not_read_them() {
    let removed = FlowRemoved {
        matching: PacketIn::default().metadata,
        priority: 1,
        cookie: 0,
        reason: RemovedReason::IdleTimeout,
        table: 0,
        duration: Duration::default(),
        idle_timeout: 1,
        hard_timeout: 0,
        packets: 0,
        bytes: 0,
    };
    let mut test = TestBridge::new("removed", &["punix:ctl"]);
    let _deaf = test.open("ctl", Version::V13);
    let mut good = test.open("ctl", Version::V13);
    let mut heard = 0;
    // Within 8 s, which is less than the 10 s of a probe.
    for turn in 0..2000 {
        (0..200).for_each(|_| test.connections.send_flow_removed(&removed));
        test.now = Millis(test.now.0 + 4);
        if turn % 100 == 0 {
            good.send(&Message::new(Version::V13, Xid(2), Body::EchoRequest(Vec::new())));
        }
        test.turn();
        heard += good.receive().iter().filter(|m| matches!(m.body, Body::FlowRemoved(_))).count();
        let most = test.connections.sessions().map(|(_, s)| s.output_len()).max().unwrap_or(0);
        assert!(most < 32 << 20, "{most}");
    }
    assert_eq!((heard, test.connections.sessions().count()), (400_000, 1));
}

#[test]
fn the_limit_of_tools_affects_only_new_connections() {
    let mut test = TestBridge::new("many", &[]);
    let mut first = test.open("br0.mgmt", Version::V10);
    let mut peers: Vec<Peer> = Vec::new();
    for _ in 0..300 {
        peers.push(test.connect("br0.mgmt"));
        test.turn();
    }
    let closed =
        peers.iter_mut().filter_map(|p| p.stream.read(&mut [0; 64]).ok()).filter(|n| *n == 0).count();
    assert_eq!(closed, 45);
    first.send(&Message::new(Version::V10, Xid(2), Body::EchoRequest(Vec::new())));
    test.turn();
    assert_eq!(first.receive().len(), 1);
}

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
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !turn(self) {
            assert!(std::time::Instant::now() < end, "nothing happens");
            let mut set = WaitSet::new();
            self.connections.wait(&mut set, self.now);
            poll.block(set);
        }
    }
}

impl Peer {
    /// Waits for messages.
    fn wait(&mut self) -> Vec<Message> {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            let got = self.receive();
            if !got.is_empty() {
                return got;
            }
            assert!(std::time::Instant::now() < end, "no answer");
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

#[test]
fn a_thread_keeps_the_order_of_requests_replies_and_refusals() {
    const N: u32 = 20_000;
    let (mut test, _serving, poll) = served("order");
    let mut peer = Peer::opened(&test, "ctl", Version::V13);
    let mut frames = Vec::new();
    for n in 0..N {
        let barrier = Message::new(Version::V13, Xid(n), Body::BarrierRequest);
        let mut bytes = openflow::encode(&barrier, Dialect::default()).unwrap().concat();
        if n % 100 == 99 {
            // An unknown type.
            bytes[1] = 99;
        }
        frames.extend(bytes);
    }
    let writer = std::thread::spawn(move || {
        let mut xids = Vec::new();
        let mut rest = &frames[..];
        while xids.len() < N as usize {
            match peer.stream.write(rest) {
                Ok(n) => rest = &rest[n..],
                Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
            }
            xids.extend(peer.receive().iter().map(|m| (m.xid.0, matches!(m.body, Body::Error(_)))));
            std::thread::yield_now();
        }
        xids
    });
    let mut answered = 0;
    test.turns(&poll, |test| {
        answered += test.answer(&Body::BarrierReply) as u32;
        answered == N - N / 100 && test.connections.sessions().all(|(_, s)| s.output_len() == 0)
    });
    let expected: Vec<(u32, bool)> = (0..N).map(|n| (n, n % 100 == 99)).collect();
    assert_eq!(writer.join().unwrap(), expected);
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
        std::thread::sleep(std::time::Duration::from_millis(1));
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
    let (mut rest, end) = (&frames[..], std::time::Instant::now() + std::time::Duration::from_secs(20));
    // Send until neither the thread nor the socket accepts more bytes.
    let mut idle = 0;
    while idle < 100 {
        assert!(std::time::Instant::now() < end && !rest.is_empty(), "it takes all");
        match peer.stream.write(rest) {
            Ok(n) => (rest, idle) = (&rest[n..], 0),
            Err(_) => idle += 1,
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let before = serving.turns();
    std::thread::sleep(std::time::Duration::from_millis(100));
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
        test.connections.any_connected()
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
        test.connections.sessions().count() == 0 && !test.connections.any_connected()
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
