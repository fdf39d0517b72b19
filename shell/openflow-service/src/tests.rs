//! Requests and their replies over a real socket, with a switch that does nothing.

use super::{Backing, Bridge, BridgePort, QueueCounts, SwitchAccess, continue_work, handle};
use flow::{FieldId, Match, Subfield};
use ofconn::{Connections, ConnectionsConfig};
use ofproto::Tables;
use openflow::flow_mod::{FlowCommand, FlowFlags, FlowMod};
use openflow::group::GroupMod;
use openflow::message::Hello;
use openflow::packet_io::PacketOut;
use openflow::port::{PortConfig, PortMod};
use openflow::session::{
    BundleAdd, BundleControl, BundleControlType, Role, SwitchConfig, TlvMap, TlvTableMod, TlvTableReply,
};
use openflow::stats::{FlowStatsRequest, PortStats};
use openflow::{Action, Body, Dialect, Message, OfError, Version, VersionSet, Xid};
use std::io::{ErrorKind, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use transport::{Stream, Target};
use units::{Millis, OfPort};
use xlate::BridgeId;

pub(crate) const NOW: Millis = Millis(1000);

#[derive(Default)]
struct Idle {
    folded: usize,
    changed: usize,
    sent: Vec<PacketOut>,
    /// Ports whose statistics were read.
    asked: usize,
    flushed: Vec<openflow::session::CtFlush>,
    /// Number of a removal of connections in progress.
    flushing: u64,
    waker: Option<runtime::Waker>,
    /// The version that the datapath has reached, and the version that it has to reach.
    done: u64,
    published: u64,
}

impl SwitchAccess for Idle {
    fn now(&self) -> Millis {
        NOW
    }
    fn ipfix_stats(&mut self, _: BridgeId, _: bool) -> Option<Vec<openflow::stats::IpfixStats>> {
        None
    }
    fn waker(&self) -> Option<runtime::Waker> {
        self.waker.clone()
    }
    fn fold_statistics(&mut self) {
        self.folded += 1;
    }
    fn queue_counts(&mut self, _: &BridgePort, _: u32) -> Option<QueueCounts> {
        None
    }
    fn port_stats(&mut self, _: BridgeId, _: &mut BridgePort) -> PortStats {
        self.asked += 1;
        PortStats::default()
    }
    fn set_port_admin(&mut self, _: &mut BridgePort, _: bool) -> bool {
        true
    }
    fn next_version(&self) -> u64 {
        self.published
    }
    fn is_revalidated(&self, version: u64) -> bool {
        self.done >= version
    }
    fn mark_all_changed(&mut self) {
        self.changed += 1;
    }
    fn note_table_changes(&mut self, _: xlate::BridgeId, changes: &ofproto::TableChanges) {
        self.changed += usize::from(!changes.is_empty());
    }
    fn flush_connections(&mut self, wanted: &openflow::session::CtFlush) -> Option<u64> {
        self.flushed.push(wanted.clone());
        (self.flushing != 0).then_some(self.flushing)
    }
    fn is_flushed(&self, number: u64) -> bool {
        self.flushing != number
    }
    fn resume(&mut self, _: super::ResumedPacket) -> Result<(), OfError> {
        Err(OfError::NxrStale)
    }

    fn packet_out(&mut self, packet: &PacketOut, _: Option<Arc<Tables>>) {
        self.sent.push(packet.clone());
    }
}

pub(crate) struct TestBridge {
    pub(crate) dir: PathBuf,
    pub(crate) bridge: Bridge,
    outside: Idle,
    stream: Stream,
    input: Vec<u8>,
    version: Version,
    pub(crate) next: u32,
}

pub(crate) fn config() -> config::BridgeConfig {
    config::BridgeConfig {
        uuid: ovsdb::Uuid::default(),
        name: "br0".to_owned(),
        datapath_type: "dummy".to_owned(),
        auto_attach: None,
        datapath_id: None,
        hwaddr: None,
        fail_mode: config::FailMode::Secure,
        protocols: Vec::new(),
        controllers: Vec::new(),
        ports: Default::default(),
        flood_vlans: Vec::new(),
        mac_aging_secs: 300,
        mac_table_size: 8192,
        forward_bpdu: false,
        snooping: None,
        spanning_tree: Default::default(),
        mirrors: Vec::new(),
        sampling: Default::default(),
        flow_tables: Default::default(),
        other_config: Default::default(),
    }
}

pub(crate) fn port(number: u16) -> BridgePort {
    BridgePort {
        uuid: ovsdb::Uuid::default(),
        name: format!("p{number}"),
        kind: "patch".to_owned(),
        port_row: format!("p{number}"),
        ofport: OfPort(number),
        backing: Backing::Patch { peer: "other".to_owned() },
        config: PortConfig::default(),
        facts: None,
        change_seq: 0,
        reported_state: None,
        bfd: None,
        cfm: None,
        lldp: None,
        lacp: None,
        tree: None,
        qos: Default::default(),
        created: NOW,
        stats_read: false,
        database_stats: None,
        warning: None,
    }
}

impl TestBridge {
    pub(crate) fn new(name: &str, version: Version) -> TestBridge {
        let dir = std::env::temp_dir().join(format!("switch-of-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let mut bridge = Bridge::new(BridgeId(0), config(), Connections::new("br0"), NOW, 0);
        [1, 2].into_iter().for_each(|n| bridge.ports.insert(OfPort(n), port(n)));
        let connections_config = ConnectionsConfig {
            rundir: dir.clone(),
            versions: VersionSet::ALL,
            controllers: Vec::new(),
            queue_size: 100,
            debug_actions: false,
        };
        assert!(bridge.conns.configure(&connections_config, NOW).is_empty());
        let stream = Stream::connect(&Target::Unix(dir.join("br0.mgmt"))).unwrap();
        let mut test =
            TestBridge { dir, bridge, outside: Idle::default(), stream, input: Vec::new(), version, next: 1 };
        let hello = Hello { versions: VersionSet::only(version), header_version: version.wire() };
        test.ask(Body::Hello(hello));
        test
    }

    /// Sends a request and returns all replies.
    pub(crate) fn ask(&mut self, body: Body) -> Vec<Body> {
        self.next += 1;
        let message = Message::new(self.version, Xid(self.next), body);
        let frames = openflow::encode(&message, Dialect::default()).unwrap();
        frames.iter().for_each(|f| self.stream.write_all(f).unwrap());
        self.bridge.conns.run(NOW);
        while let Some(request) = self.bridge.conns.next_request(NOW) {
            handle(&mut self.bridge, &mut self.outside, request);
        }
        self.bridge.conns.flush(NOW);
        self.replies()
    }

    /// A turn of the main loop without a new request; it completes a commit.
    pub(crate) fn turn(&mut self) -> Vec<Body> {
        self.turn_at(NOW)
    }

    pub(crate) fn turn_at(&mut self, now: Millis) -> Vec<Body> {
        self.bridge.conns.run(now);
        continue_work(&mut self.bridge, &mut self.outside, true);
        while let Some(request) = self.bridge.conns.next_request(now) {
            handle(&mut self.bridge, &mut self.outside, request);
        }
        self.bridge.conns.flush(now);
        self.replies()
    }

    /// Fills a bundle with this number of flows without committing it.
    fn fill(&mut self, flows: u32) {
        self.bundle(BundleControlType::OpenRequest);
        for i in 0..flows {
            let mut fm = flow(1, Vec::new());
            fm.matching.set(FieldId::Metadata, i.into());
            assert!(self.add(mod_(fm)).is_empty());
        }
    }

    pub(crate) fn replies(&mut self) -> Vec<Body> {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(n) if n > 0 => self.input.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        let mut out = Vec::new();
        while let Ok(Some(frame)) = openflow::take_frame(&mut self.input) {
            out.push(openflow::decode(&frame, Dialect::default()).unwrap().body);
        }
        out
    }

    fn flows(&mut self) -> usize {
        match self.ask(Body::TableStatsRequest).as_slice() {
            [Body::TableStatsReply(tables)] => tables.iter().map(|t| t.active as usize).sum(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn bundle(&mut self, kind: BundleControlType) -> Vec<Body> {
        self.ask(Body::BundleControl(BundleControl { bundle: 7, kind, flags: 3 }))
    }

    fn add(&mut self, body: Body) -> Vec<Body> {
        let inner = Message::new(self.version, Xid(self.next + 1), body);
        let message = openflow::encode(&inner, Dialect::default()).unwrap().remove(0);
        self.ask(Body::BundleAdd(BundleAdd { bundle: 7, flags: 3, message }))
    }
}

impl Drop for TestBridge {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

pub(crate) fn flow(in_port: u16, actions: Vec<Action>) -> FlowMod {
    let mut matching = Match::CATCHALL;
    matching.set(FieldId::InPort, in_port.into());
    FlowMod { table: 0, matching, actions, ..FlowMod::default() }
}

pub(crate) fn mod_(fm: FlowMod) -> Body {
    Body::FlowMod(Box::new(fm))
}

pub(crate) fn errors(bodies: &[Body]) -> Vec<OfError> {
    let error = |b: &Body| match b {
        Body::Error(e) => e.error,
        _ => None,
    };
    bodies.iter().filter_map(error).collect()
}

#[test]
fn flows_are_added_and_shown_and_refused() {
    let mut test = TestBridge::new("flows", Version::V13);
    let output = |port: u16| vec![Action::Output { port: OfPort(port), max_len: 0 }];
    assert!(test.ask(mod_(flow(1, output(2)))).is_empty());
    assert_eq!(test.flows(), 1);
    assert_eq!((test.outside.changed, test.outside.folded), (1, 1));
    let wrong = test.ask(mod_(flow(2, vec![Action::Group(5)])));
    assert_eq!(errors(&wrong), [OfError::BacBadOutGroup]);
    let wrong = test.ask(mod_(FlowMod { table: 3, ..flow(2, vec![Action::GotoTable(2)]) }));
    assert_eq!(errors(&wrong), [OfError::BicBadTableId]);
    let wrong = test.ask(mod_(FlowMod { buffer_id: 9, ..flow(2, Vec::new()) }));
    assert_eq!(errors(&wrong), [OfError::BrcBufferUnknown]);
    let table = FlowStatsRequest { table: 255, ..FlowStatsRequest::default() };
    assert!(errors(&test.ask(Body::FlowStatsRequest(Box::new(table)))).is_empty());
    assert_eq!(test.flows(), 1);
}

#[test]
fn an_error_carries_the_whole_request() {
    let mut test = TestBridge::new("whole", Version::V13);
    let replies = test.ask(mod_(flow(2, vec![Action::Group(5)])));
    let [Body::Error(e)] = replies.as_slice() else { panic!("{replies:?}") };
    assert!(e.data.len() > 64);
    assert!(openflow::decode(&e.data, Dialect::default()).is_ok());
}

#[test]
fn a_flow_removed_message_precedes_the_barrier_reply() {
    let mut test = TestBridge::new("removed", Version::V13);
    let wish = SwitchConfig { miss_send_len: 64, ..SwitchConfig::default() };
    test.ask(Body::SetConfig(wish));
    let flags = FlowFlags { send_flow_rem: true, ..FlowFlags::default() };
    test.ask(mod_(FlowMod { flags, ..flow(1, Vec::new()) }));
    let replies = test.ask(mod_(FlowMod { command: FlowCommand::Delete, ..flow(1, Vec::new()) }));
    assert!(matches!(replies.as_slice(), [Body::FlowRemoved(_)]), "{replies:?}");
    assert_eq!(test.outside.folded, 1);
    assert_eq!(test.ask(Body::BarrierRequest), [Body::BarrierReply]);
}

/// A removal of tracked connections that takes several turns delays later requests of the same OpenFlow connection.
#[test]
fn requests_wait_for_a_removal_of_connections() {
    let mut test = TestBridge::new("ctflush", Version::V13);
    test.outside.flushing = 5;
    assert_eq!(test.ask(Body::CtFlush(Default::default())), []);
    assert_eq!(test.ask(mod_(flow(1, Vec::new()))), []);
    assert_eq!(test.ask(Body::BarrierRequest), []);
    assert_eq!(test.turn(), []);
    assert_eq!((test.outside.flushed.len(), test.outside.changed), (1, 0));
    test.outside.flushing = 0;
    assert_eq!(test.turn(), [Body::BarrierReply]);
    assert_eq!(test.outside.changed, 1);
}

#[test]
fn a_barrier_waits_for_the_datapath() {
    let mut test = TestBridge::new("barrier", Version::V13);
    test.ask(mod_(flow(1, Vec::new())));
    test.outside.published = 2;
    assert_eq!(test.ask(Body::BarrierRequest), []);
    assert_eq!(test.ask(Body::EchoRequest(vec![1])), [Body::EchoReply(vec![1])]);
    // A later request waits, too.
    assert_eq!(test.ask(Body::GetConfigRequest), []);
    test.outside.done = 1;
    assert_eq!(test.turn(), []);
    test.outside.done = 2;
    let replies = test.turn();
    assert!(matches!(replies.as_slice(), [Body::BarrierReply, Body::GetConfigReply(_)]), "{replies:?}");
    assert_eq!(test.ask(Body::BarrierRequest), [Body::BarrierReply]);
}

#[test]
fn a_bundle_is_all_or_nothing() {
    use BundleControlType::*;
    let mut test = TestBridge::new("bundle", Version::V14);
    test.bundle(OpenRequest);
    test.add(mod_(flow(1, Vec::new())));
    test.add(mod_(flow(2, vec![Action::Group(9)])));
    test.bundle(CloseRequest);
    let refused = test.bundle(CommitRequest);
    assert_eq!(errors(&refused), [OfError::BacBadOutGroup, OfError::BfcMsgFailed]);
    assert_eq!(test.flows(), 0);
    assert_eq!(errors(&test.bundle(CommitRequest)), [OfError::BfcBadId]);

    test.bundle(OpenRequest);
    test.add(Body::GroupMod(GroupMod { group: 9, ..GroupMod::default() }));
    test.add(mod_(flow(2, vec![Action::Group(9)])));
    let replies = test.bundle(CommitRequest);
    assert!(matches!(replies.as_slice(), [Body::BundleControl(c)] if c.kind == CommitReply), "{replies:?}");
    assert_eq!(test.flows(), 1);
}

/// The limit holds for Nicira's form for OpenFlow 1.0 and in bundles, too. OpenFlow 1.0 has no bundles.
#[test]
fn a_group_has_as_many_buckets_as_a_message_can_list() {
    use openflow::group::{BUCKET_ALL, BUCKET_LAST, Bucket, GroupCommand::*};
    let buckets = |first: u32| (first..first + 1000).map(|id| Bucket { id, ..Bucket::default() }).collect();
    for version in [Version::V10, Version::V15] {
        let mut test = TestBridge::new("buckets", version);
        let group = GroupMod { group: 9, command_bucket: BUCKET_ALL, ..GroupMod::default() };
        let insert = GroupMod { command: InsertBucket, command_bucket: BUCKET_LAST, ..group.clone() };
        let insert = |first| Body::GroupMod(GroupMod { buckets: buckets(first), ..insert.clone() });
        assert!(test.ask(Body::GroupMod(group)).is_empty());
        (0..4).for_each(|n| assert!(test.ask(insert(n * 1000)).is_empty()));
        assert_eq!(errors(&test.ask(insert(4000))), [OfError::GmfcOutOfBuckets], "{version:?}");
        if version == Version::V15 {
            test.bundle(BundleControlType::OpenRequest);
            test.add(insert(4000));
            let replies = test.bundle(BundleControlType::CommitRequest);
            assert_eq!(errors(&replies), [OfError::GmfcOutOfBuckets, OfError::BfcMsgFailed]);
        }
        let listed = test.ask(Body::GroupDescRequest(9));
        assert!(matches!(&listed[..], [Body::GroupDescReply(g)] if g[0].buckets.len() == 4000));
    }
}

#[test]
fn a_bundle_takes_what_fits_it() {
    let mut test = TestBridge::new("unfit", Version::V14);
    assert_eq!(errors(&test.add(Body::BarrierRequest)), [OfError::BfcMsgUnsup]);
    let message =
        openflow::encode(&Message::new(Version::V14, Xid(0), mod_(flow(1, Vec::new()))), Dialect::default());
    let add = BundleAdd { bundle: 1, flags: 0, message: message.unwrap().remove(0) };
    assert_eq!(errors(&test.ask(Body::BundleAdd(add))), [OfError::BfcMsgBadXid]);
}

#[test]
fn a_port_mod_has_to_know_the_port() {
    let mut test = TestBridge::new("port", Version::V13);
    let no_flood = PortConfig { no_packet_in: true, ..PortConfig::default() };
    let hw_addr = test.bridge.ports[&OfPort(1)].patch_mac();
    let pm = PortMod { number: OfPort(1), hw_addr, config: no_flood, mask: no_flood, advertise: 0 };
    assert!(test.ask(Body::PortMod(pm)).is_empty());
    assert!(test.bridge.ports[&OfPort(1)].config.no_packet_in);
    let wrong = PortMod { hw_addr: flow::Mac([1; 6]), ..pm };
    assert_eq!(errors(&test.ask(Body::PortMod(wrong))), [OfError::PmfcBadHwAddr]);
    let unknown = PortMod { number: OfPort(9), ..pm };
    assert_eq!(errors(&test.ask(Body::PortMod(unknown))), [OfError::PmfcBadPort]);
}

#[test]
fn a_secondary_may_only_read() {
    let mut test = TestBridge::new("secondary", Version::V13);
    let ids: Vec<_> = test.bridge.conns.sessions().map(|(id, _)| id).collect();
    test.bridge.conns.session(ids[0]).unwrap().role = Role::Secondary;
    assert_eq!(errors(&test.ask(mod_(flow(1, Vec::new())))), [OfError::BrcIsSecondary]);
    assert_eq!(test.flows(), 0);
    assert!(errors(&test.ask(Body::TableStatsRequest)).is_empty());
}

#[test]
fn packets_go_out_once_checked() {
    let mut test = TestBridge::new("out", Version::V13);
    let mut metadata = Match::CATCHALL;
    metadata.set(FieldId::InPort, 1);
    let output = vec![Action::Output { port: OfPort(2), max_len: 0 }];
    let po = PacketOut { buffer_id: u32::MAX, metadata, actions: output, packet: vec![0; 14] };
    assert!(test.ask(Body::PacketOut(Box::new(po.clone()))).is_empty());
    assert_eq!(test.outside.sent.len(), 1);
    let group = PacketOut { actions: vec![Action::Group(3)], ..po };
    assert_eq!(errors(&test.ask(Body::PacketOut(Box::new(group)))), [OfError::BacBadOutGroup]);
    assert_eq!(test.outside.sent.len(), 1);
}

#[test]
fn probes_are_answered_while_a_long_bundle_commits() {
    let mut test = TestBridge::new("long", Version::V14);
    let poll = runtime::PollLoop::new(runtime::Clock::new()).unwrap();
    test.outside.waker = Some(poll.waker());
    test.fill(600);
    assert!(test.bundle(BundleControlType::CommitRequest).is_empty());
    assert_eq!(test.ask(Body::EchoRequest(vec![7])), [Body::EchoReply(vec![7])]);
    // A request waits until the commit is complete: it sees the committed flows.
    assert!(test.ask(Body::TableStatsRequest).is_empty());
    assert_eq!(test.ask(Body::EchoRequest(vec![8])), []);
    let replies = test.turn();
    let [Body::BundleControl(c), Body::TableStatsReply(tables), .., Body::EchoReply(_)] = replies.as_slice()
    else {
        panic!("{replies:?}")
    };
    let active: u32 = tables.iter().map(|t| t.active).sum();
    assert_eq!((c.kind, active), (BundleControlType::CommitReply, 600));
    assert_eq!((test.flows(), test.outside.changed), (600, 1));
}

#[test]
fn a_long_bundle_that_fails_changes_nothing() {
    let mut test = TestBridge::new("long-failure", Version::V14);
    let poll = runtime::PollLoop::new(runtime::Clock::new()).unwrap();
    test.outside.waker = Some(poll.waker());
    test.fill(600);
    test.add(mod_(flow(2, vec![Action::Group(9)])));
    test.bundle(BundleControlType::CommitRequest);
    assert_eq!(errors(&test.turn()), [OfError::BacBadOutGroup, OfError::BfcMsgFailed]);
    assert_eq!(test.flows(), 0);
}

#[test]
fn a_long_dump_comes_in_parts() {
    let mut test = TestBridge::new("dump", Version::V14);
    test.fill(5000);
    test.bundle(BundleControlType::CommitRequest);
    let poll = runtime::PollLoop::new(runtime::Clock::new()).unwrap();
    test.outside.waker = Some(poll.waker());
    assert!(test.ask(Body::FlowStatsRequest(Box::default())).is_empty());
    assert!(test.ask(Body::BarrierRequest).is_empty());
    let mut parts = Vec::new();
    while parts.last() != Some(&Body::BarrierReply) {
        parts.extend(test.turn());
        let waiting = test.bridge.conns.sessions().map(|(_, s)| s.output_len()).sum::<usize>();
        assert!(waiting < 1 << 20, "{waiting} bytes wait");
    }
    let seen: Vec<u128> = parts
        .iter()
        .filter_map(|p| if let Body::FlowStatsReply(flows) = p { Some(flows) } else { None })
        .flat_map(|flows| flows.iter().map(|f| FieldId::Metadata.get(&f.matching.flow)))
        .collect();
    assert_eq!(seen, (0..5000).collect::<Vec<u128>>());
}

#[test]
fn statistics_of_many_ports_come_a_few_a_turn() {
    let mut test = TestBridge::new("ports", Version::V14);
    (1..=1000).for_each(|n| test.bridge.ports.insert(OfPort(n), port(n)));
    let poll = runtime::PollLoop::new(runtime::Clock::new()).unwrap();
    test.outside.waker = Some(poll.waker());
    assert!(test.ask(Body::PortStatsRequest(OfPort::NONE)).is_empty());
    assert_eq!(test.ask(Body::EchoRequest(vec![5])), [Body::EchoReply(vec![5])]);
    let (mut seen, mut turns) = (Vec::new(), 0);
    while seen.len() < 999 {
        // A port that is removed meanwhile is left out.
        if turns == 1 {
            test.bridge.ports.remove(&OfPort(900));
        }
        let before = test.outside.asked;
        for body in test.turn() {
            let Body::PortStatsReply(stats) = body else { panic!("{body:?}") };
            seen.extend(stats.iter().map(|s| s.port.0));
        }
        assert!(test.outside.asked - before <= 100, "{} ports in one turn", test.outside.asked - before);
        turns += 1;
        assert!(turns < 50, "{} ports came", seen.len());
    }
    assert_eq!(seen, (1..=1000).filter(|n| *n != 900).collect::<Vec<u16>>());
    assert!(turns >= 10 && !test.bridge.is_at_work(), "{turns} turns");
}

#[test]
fn options_are_mapped_before_messages_name_their_fields() {
    let mut test = TestBridge::new("tlv", Version::V15);
    let map = TlvMap { class: 0x102, kind: 0x80, len: 4, index: 0 };
    let mut with_field = flow(1, vec![Action::DeleteField(Subfield::whole(FieldId::TunMetadata0))]);
    with_field.matching.allocate_tlv(0, &[5], None).unwrap();
    let request = FlowStatsRequest { matching: with_field.matching, ..FlowStatsRequest::default() };
    let ask_flows = || Body::FlowStatsRequest(Box::new(request.clone()));
    let unmapped = [OfError::NxfmfcInvalidTlvField];
    assert_eq!(errors(&test.ask(mod_(with_field.clone()))), unmapped);
    assert_eq!(errors(&test.ask(ask_flows())), unmapped);
    test.bundle(BundleControlType::OpenRequest);
    assert_eq!(errors(&test.add(mod_(with_field.clone()))), unmapped);
    let po = PacketOut {
        buffer_id: u32::MAX,
        metadata: with_field.matching,
        actions: Vec::new(),
        packet: vec![0; 14],
    };
    let packet_out = || Body::PacketOut(Box::new(po.clone()));
    assert!(test.ask(packet_out()).is_empty());

    assert!(test.ask(Body::TlvTableMod(TlvTableMod::Add(vec![map]))).is_empty());
    let reply = TlvTableReply { max_space: 256, max_fields: 64, maps: vec![map] };
    assert_eq!(test.ask(Body::TlvTableRequest), [Body::TlvTableReply(reply)]);
    assert!(test.ask(mod_(with_field)).is_empty());
    assert_eq!(errors(&test.ask(Body::TlvTableMod(TlvTableMod::Clear))), [OfError::NxttmfcInvalidTlvDel]);
    assert!(test.ask(packet_out()).is_empty());
    let sent: Vec<String> = test.outside.sent.iter().map(|po| po.metadata.to_string()).collect();
    assert_eq!(sent, ["in_port=1", "tun_metadata0=0x5,in_port=1"]);
    let replies = test.ask(ask_flows());
    let [Body::FlowStatsReply(flows)] = replies.as_slice() else { panic!("{replies:?}") };
    // Messages of the switch have the lengths of its table.
    assert_eq!(flows[0].matching.tlv(0).map(|t| t.value.len()), Some(4));
    let field = Subfield { n_bytes: 4, ..Subfield::whole(FieldId::TunMetadata0) };
    assert_eq!(flows[0].actions, [Action::DeleteField(field)]);
}

#[test]
fn options_used_in_a_bundle_stay_mapped() {
    let mut test = TestBridge::new("tlv-bundle", Version::V15);
    let map = TlvMap { class: 0x102, kind: 0x80, len: 4, index: 0 };
    assert!(test.ask(Body::TlvTableMod(TlvTableMod::Add(vec![map]))).is_empty());
    let add = flow(1, vec![Action::DeleteField(Subfield::whole(FieldId::TunMetadata0))]);
    let delete = FlowMod { command: FlowCommand::Delete, ..add.clone() };
    test.bundle(BundleControlType::OpenRequest);
    let clear = || Body::TlvTableMod(TlvTableMod::Clear);
    for (waiting, answer) in [(delete, vec![]), (add, vec![OfError::NxttmfcInvalidTlvDel])] {
        assert!(test.add(mod_(waiting)).is_empty());
        assert_eq!(errors(&test.ask(clear())), answer);
        test.ask(Body::TlvTableMod(TlvTableMod::Add(vec![map])));
    }
    test.bundle(BundleControlType::DiscardRequest);
    assert!(test.ask(clear()).is_empty());
}
