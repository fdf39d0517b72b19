//! Tests of complete connections over real sockets.

use crate::{ConnSettings, Connections, ConnectionsConfig, Content, Request};
use openflow::flow_mod::{Duration, FlowRemoved, RemovedReason};
use openflow::message::Hello;
use openflow::packet_io::PacketIn;
use openflow::session::{Role, RoleContent, SwitchConfig};
use openflow::{Body, Dialect, Message, OfError, Version, VersionSet, Xid};
use std::io::{ErrorKind, Read, Write};
use std::path::PathBuf;
use transport::{Listener, Stream, Target};
use units::Millis;

/// A bridge's connections and the directory of their sockets.
pub(crate) struct TestBridge {
    pub(crate) dir: PathBuf,
    pub(crate) connections: Connections,
    pub(crate) now: Millis,
}

impl TestBridge {
    fn new(name: &str, controllers: &[&str]) -> TestBridge {
        TestBridge::with(name, controllers, Connections::new("br0"))
    }

    pub(crate) fn with(name: &str, controllers: &[&str], connections: Connections) -> TestBridge {
        let dir = std::env::temp_dir().join(format!("ofconn-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let mut test = TestBridge { dir, connections, now: Millis(1000) };
        let errors = test.configure(controllers);
        assert!(errors.is_empty(), "{errors:?}");
        test
    }

    pub(crate) fn configure(&mut self, controllers: &[&str]) -> Vec<String> {
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

    pub(crate) fn connect(&self, socket: &str) -> Peer {
        Peer { stream: Stream::connect(&Target::Unix(self.dir.join(socket))).unwrap(), input: Vec::new() }
    }

    /// One turn; the requests are left unanswered.
    pub(crate) fn turn(&mut self) -> Vec<Request> {
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

    /// Subscribes all peers to asynchronous messages.
    fn request_messages(&mut self) {
        self.connections.sessions().for_each(|(_, session)| session.config.miss_send_len = 64);
    }
}

impl Drop for TestBridge {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

pub(crate) fn message(request: &Request) -> &Message {
    match &request.content {
        Content::Message(message) => message,
        other => panic!("{other:?}"),
    }
}

pub(crate) struct Peer {
    pub(crate) stream: Stream,
    input: Vec<u8>,
}

impl Peer {
    pub(crate) fn hello(&mut self, version: Version) {
        let hello = Hello { versions: VersionSet::only(version), header_version: version.wire() };
        self.send(&Message::new(version, Xid(1), Body::Hello(hello)));
    }

    pub(crate) fn send(&mut self, message: &Message) {
        openflow::encode(message, Dialect::default())
            .unwrap()
            .iter()
            .for_each(|bytes| self.stream.write_all(bytes).unwrap());
    }

    pub(crate) fn receive(&mut self) -> Vec<Message> {
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

    pub(crate) fn is_closed(&mut self) -> bool {
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
    assert!(!test.connections.any_connected() && !test.connections.has_controllers());
    let event = crate::PacketInEvent { controller_id: 0, message: PacketIn::default(), continuation: None };
    assert_eq!(test.connections.send_packet_in(&event), 0);
    let ids: Vec<_> = test.connections.sessions().map(|(id, _)| id).collect();
    let wish = SwitchConfig { miss_send_len: 64, ..SwitchConfig::default() };
    test.connections.session(ids[0]).unwrap().config = wish;
    assert_eq!(test.connections.send_packet_in(&event), 1);
    test.request_messages();
    assert_eq!(test.connections.send_packet_in(&event), 2);
    test.turn();
    assert_eq!(tool.receive().len(), 2);
    assert_eq!(controller.receive().len(), 1);
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
    test.request_messages();
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
    test.request_messages();
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
