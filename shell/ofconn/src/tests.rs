//! Whole connections over real sockets.

use crate::{ConnManager, ControllerTarget, ManagerConfig, Request};
use openflow::flow_mod::{Duration, FlowRemoved, RemovedReason};
use openflow::message::Hello;
use openflow::packet_io::PacketIn;
use openflow::session::{Role, RoleReply, SwitchConfig};
use openflow::{Body, Dialect, Message, OfError, Version, VersionSet, Xid};
use std::io::{ErrorKind, Read, Write};
use std::path::PathBuf;
use transport::{Listener, Stream, Target};
use units::Millis;

/// A bridge's connections and the directory of their sockets.
struct Rig {
    dir: PathBuf,
    manager: ConnManager,
    now: Millis,
}

impl Rig {
    fn new(name: &str, controllers: &[&str]) -> Rig {
        let dir = std::env::temp_dir().join(format!("ofconn-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let mut rig = Rig { dir, manager: ConnManager::new("br0"), now: Millis(1000) };
        let errors = rig.configure(controllers);
        assert!(errors.is_empty(), "{errors:?}");
        rig
    }

    fn configure(&mut self, controllers: &[&str]) -> Vec<String> {
        let target = |t: &&str| ControllerTarget {
            target: (*t).to_owned(),
            max_backoff: Millis(1000),
            inactivity_probe: Some(Millis(5000)),
            async_messages: true,
            queue_size: 100,
            rate_limit: None,
            burst_limit: None,
        };
        let config = ManagerConfig {
            rundir: self.dir.clone(),
            versions: VersionSet::ALL,
            controllers: controllers.iter().map(target).collect(),
            queue_size: 100,
            debug_actions: false,
        };
        self.manager.configure(&config, self.now)
    }

    fn connect(&self, socket: &str) -> Peer {
        Peer { stream: Stream::connect(&Target::Unix(self.dir.join(socket))).unwrap(), input: Vec::new() }
    }

    /// One iteration; the requests are left unanswered.
    fn turn(&mut self) -> Vec<Request> {
        self.manager.run(self.now);
        let mut out = Vec::new();
        while let Some(request) = self.manager.next_request(self.now) {
            out.push(request);
        }
        self.manager.flush(self.now);
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

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
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
        while let Ok(Some(len)) = openflow::next_frame(&self.input)
            && len <= self.input.len()
        {
            let frame: Vec<u8> = self.input.drain(..len).collect();
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
    let mut rig = Rig::new("tool", &[]);
    let mut peer = rig.open("br0.mgmt", Version::V13);
    peer.send(&Message::new(Version::V13, Xid(7), Body::EchoRequest(b"abc".to_vec())));
    peer.send(&Message::new(Version::V13, Xid(8), Body::FeaturesRequest));
    let requests = rig.turn();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].message.xid, Xid(8));
    let reply = requests[0].message.reply(Body::BarrierReply);
    rig.manager.session(requests[0].conn).unwrap().send(reply);
    rig.turn();
    let bodies: Vec<Body> = peer.receive().into_iter().map(|m| m.body).collect();
    assert_eq!(bodies, [Body::EchoReply(b"abc".to_vec()), Body::BarrierReply]);
    drop(peer);
    rig.turn();
    assert_eq!(rig.manager.sessions().count(), 0);
}

#[test]
fn no_common_version() {
    let mut rig = Rig::new("versions", &[]);
    let config = ManagerConfig {
        rundir: rig.dir.clone(),
        versions: VersionSet::only(Version::V13),
        controllers: Vec::new(),
        queue_size: 100,
        debug_actions: false,
    };
    rig.manager.configure(&config, rig.now);
    let mut peer = rig.connect("br0.mgmt");
    peer.hello(Version::V10);
    rig.turn();
    let last = peer.receive().pop().unwrap();
    let Body::Error(error) = last.body else { panic!("{last:?}") };
    assert_eq!(error.error, Some(OfError::HfcIncompatible));
    assert!(peer.is_closed());
}

#[test]
fn garbage_ends_its_own_connection_only() {
    let mut rig = Rig::new("garbage", &[]);
    let mut good = rig.open("br0.mgmt", Version::V10);
    let mut bad = rig.open("br0.mgmt", Version::V10);
    bad.stream.write_all(&[1, 0, 0, 3, 0, 0, 0, 0, 9, 9]).unwrap();
    rig.turn();
    assert!(bad.is_closed());
    good.send(&Message::new(Version::V10, Xid(2), Body::EchoRequest(Vec::new())));
    rig.turn();
    assert_eq!(good.receive().len(), 1);
}

#[test]
fn a_turn_is_shared() {
    let mut rig = Rig::new("fair", &[]);
    let mut busy = rig.open("br0.mgmt", Version::V10);
    let mut other = rig.open("br0.mgmt", Version::V10);
    let barrier = |n| Message::new(Version::V10, Xid(n), Body::BarrierRequest);
    // All at once: the kernel would not buffer so many separate writes.
    let frames = (0..300).flat_map(|n| openflow::encode(&barrier(n), Dialect::default()).unwrap());
    busy.stream.write_all(&frames.collect::<Vec<_>>().concat()).unwrap();
    other.send(&barrier(999));
    let first = rig.turn();
    assert_eq!(first.len(), 257);
    assert!(first.iter().take(2).any(|r| r.message.xid == Xid(999)));
    assert_eq!(rig.turn().len(), 44);
}

#[test]
fn asynchronous_messages_must_be_requested() {
    let mut rig = Rig::new("async", &["punix:ctl"]);
    let mut tool = rig.open("br0.mgmt", Version::V10);
    let mut controller = rig.open("ctl", Version::V10);
    assert!(rig.manager.any_connected());
    let event = crate::PacketInEvent { controller_id: 0, message: PacketIn::default(), continuation: None };
    assert_eq!(rig.manager.send_packet_in(&event), 1);
    let ids: Vec<_> = rig.manager.sessions().map(|(id, _)| id).collect();
    let wish = SwitchConfig { miss_send_len: 64, ..SwitchConfig::default() };
    rig.manager.session(ids[0]).unwrap().config = wish;
    assert_eq!(rig.manager.send_packet_in(&event), 2);
    rig.turn();
    assert_eq!(tool.receive().len(), 1);
    assert_eq!(controller.receive().len(), 2);
}

#[test]
fn one_primary_and_no_stale_generation() {
    let mut rig = Rig::new("roles", &["punix:ctl"]);
    let _a = rig.open("ctl", Version::V13);
    let _b = rig.open("ctl", Version::V14);
    let ids: Vec<_> = rig.manager.sessions().map(|(id, _)| id).collect();
    let ask = |role, generation| RoleReply { role, generation_id: Some(generation), controller_id: None };
    rig.manager.request_role(ids[1], &ask(Role::Primary, 5)).unwrap();
    let reply = rig.manager.request_role(ids[0], &ask(Role::Primary, 6)).unwrap();
    assert_eq!((reply.role, reply.generation_id), (Role::Primary, Some(6)));
    assert_eq!(rig.manager.session(ids[1]).unwrap().role, Role::Secondary);
    assert_eq!(rig.manager.request_role(ids[1], &ask(Role::Primary, 5)), Err(OfError::RrfcStale));
    rig.turn();
}

#[test]
fn an_active_controller_is_found_probed_and_found_again() {
    let mut rig = Rig::new("active", &["unix:peer"]);
    let listener = Listener::bind(&Target::PUnix(rig.dir.join("peer"))).unwrap();
    rig.turn();
    assert_eq!(rig.manager.status(rig.now)[0].status["state"], "CONNECTING");
    rig.turn();
    let mut peer = Peer { stream: listener.accept().unwrap().unwrap(), input: Vec::new() };
    peer.hello(Version::V13);
    rig.turn();
    assert_eq!(peer.receive().len(), 1);
    assert!(rig.manager.status(rig.now)[0].is_connected);
    let mut snooper = rig.open("br0.snoop", Version::V13);
    rig.now = Millis(rig.now.0 + 5001);
    rig.turn();
    assert!(matches!(peer.receive().as_slice(), [Message { body: Body::EchoRequest(_), .. }]));
    rig.turn();
    assert!(matches!(snooper.receive().as_slice(), [Message { body: Body::EchoRequest(_), .. }]));
    drop(peer);
    rig.turn();
    let status = rig.manager.status(rig.now).remove(0);
    assert!(!status.is_connected && status.role.is_none());
    rig.now = Millis(rig.now.0 + 8001);
    rig.turn();
    assert!(listener.accept().unwrap().is_some());
}

#[test]
fn unchanged_connections_stay() {
    let mut rig = Rig::new("again", &["punix:ctl"]);
    let mut peer = rig.open("ctl", Version::V13);
    assert!(rig.configure(&["punix:ctl"]).is_empty());
    peer.send(&Message::new(Version::V13, Xid(2), Body::EchoRequest(Vec::new())));
    rig.turn();
    assert_eq!(peer.receive().len(), 1);
    let errors = rig.configure(&["tcp:nonsense"]);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(peer.is_closed());
    assert!(!rig.dir.join("ctl").exists());
}

fn packet(len: usize) -> crate::PacketInEvent {
    let message = PacketIn { packet: vec![0; len], total_len: len as u32, ..PacketIn::default() };
    crate::PacketInEvent { controller_id: 0, message, continuation: None }
}

#[test]
fn packet_ins_for_a_peer_that_does_not_read_are_dropped_and_counted() {
    let mut rig = Rig::new("deaf", &["punix:ctl", "unix:deaf"]);
    let listener = Listener::bind(&Target::PUnix(rig.dir.join("deaf"))).unwrap();
    (0..2).for_each(|_| _ = rig.turn());
    let mut deaf = Peer { stream: listener.accept().unwrap().unwrap(), input: Vec::new() };
    deaf.hello(Version::V10);
    let mut good = rig.open("ctl", Version::V10);
    let mut heard = 0;
    for _ in 0..2000 {
        assert_eq!(rig.manager.send_packet_in(&packet(1500)), 2);
        rig.turn();
        heard += good.receive().len();
    }
    assert_eq!(heard, 2000);
    let waiting: Vec<usize> = rig.manager.sessions().map(|(_, s)| s.output_len()).collect();
    // 100 packet-ins of 1518 bytes; the kernel buffers more in addition.
    assert!(waiting.iter().all(|len| *len <= 100 * 1600), "{waiting:?}");
    let status = &rig.manager.status(rig.now)[0].status;
    let dropped: usize = status["packet-in-miss-dropped"].parse().unwrap();
    // Packet-ins that were not dropped arrive when the peer reads again.
    let mut late = 0;
    while let n @ 1.. = deaf.receive().iter().filter(|m| matches!(m.body, Body::PacketIn(..))).count() {
        late += n;
        rig.turn();
    }
    assert!(dropped > 1000);
    assert_eq!(late + dropped, 2000);
}

#[test]
fn a_peer_that_leaves_replies_unread_is_cut_off_by_their_age() {
    let mut rig = Rig::new("unread", &[]);
    let mut deaf = rig.open("br0.mgmt", Version::V10);
    let mut good = rig.open("br0.mgmt", Version::V10);
    let echo = Message::new(Version::V10, Xid(2), Body::EchoRequest(vec![0; 60_000]));
    // The peer keeps sending requests, so no probe finds it silent.
    for second in 0..100 {
        rig.now = Millis(1000 + second * 1000);
        match second {
            0..8 => deaf.send(&echo),
            8..60 => deaf.send(&Message::new(Version::V10, Xid(3), Body::EchoRequest(Vec::new()))),
            _ => {}
        }
        good.send(&echo);
        rig.turn();
        assert_eq!(good.receive().len(), 1);
        let there = rig.manager.sessions().count();
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
    let mut rig = Rig::new("removed", &["punix:ctl"]);
    let _deaf = rig.open("ctl", Version::V13);
    let mut good = rig.open("ctl", Version::V13);
    let mut heard = 0;
    // Within 8 s, which is less than the 10 s of a probe.
    for turn in 0..2000 {
        (0..200).for_each(|_| rig.manager.send_flow_removed(&removed));
        rig.now = Millis(rig.now.0 + 4);
        if turn % 100 == 0 {
            good.send(&Message::new(Version::V13, Xid(2), Body::EchoRequest(Vec::new())));
        }
        rig.turn();
        heard += good.receive().iter().filter(|m| matches!(m.body, Body::FlowRemoved(_))).count();
        let most = rig.manager.sessions().map(|(_, s)| s.output_len()).max().unwrap_or(0);
        assert!(most < 32 << 20, "{most}");
    }
    assert_eq!((heard, rig.manager.sessions().count()), (400_000, 1));
}

#[test]
fn the_limit_of_tools_affects_only_new_connections() {
    let mut rig = Rig::new("many", &[]);
    let mut first = rig.open("br0.mgmt", Version::V10);
    let mut peers: Vec<Peer> = Vec::new();
    for _ in 0..300 {
        peers.push(rig.connect("br0.mgmt"));
        rig.turn();
    }
    let closed =
        peers.iter_mut().filter_map(|p| p.stream.read(&mut [0; 64]).ok()).filter(|n| *n == 0).count();
    assert_eq!(closed, 45);
    first.send(&Message::new(Version::V10, Xid(2), Body::EchoRequest(Vec::new())));
    rig.turn();
    assert_eq!(first.receive().len(), 1);
}
