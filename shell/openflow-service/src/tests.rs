//! Requests and their replies over a real socket, with a host that does nothing.

use super::{Backing, Bridge, BridgePort, Host, QueueCounts, go_on, handle};
use flow::{FieldId, Match, Subfield};
use ofconn::{ConnManager, ManagerConfig};
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

const NOW: Millis = Millis(1000);

#[derive(Default)]
struct Idle {
    folded: usize,
    changed: usize,
    sent: Vec<PacketOut>,
    /// Ports whose statistics were asked for.
    asked: usize,
    flushed: Vec<openflow::session::CtFlush>,
    waker: Option<runtime::Waker>,
    /// The version that the datapath has reached, and the one that it should reach.
    done: u64,
    published: u64,
}

impl Host for Idle {
    fn now(&self) -> Millis {
        NOW
    }
    fn complaint_level(&self) -> runtime::log::Level {
        runtime::log::Level::Info
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
    fn is_done(&self, version: u64) -> bool {
        self.done >= version
    }
    fn changed(&mut self) {
        self.changed += 1;
    }
    fn changed_by(&mut self, _: xlate::BridgeId, effects: &ofproto::Effects) {
        self.changed += usize::from(!effects.is_empty());
    }
    fn flush_connections(&mut self, wanted: &openflow::session::CtFlush) {
        self.flushed.push(wanted.clone());
    }
    fn resume(&mut self, _: super::Resumed) -> Result<(), OfError> {
        Err(OfError::NxrStale)
    }

    fn packet_out(&mut self, packet: &PacketOut, _: Option<Arc<Tables>>) {
        self.sent.push(packet.clone());
    }
}

struct Rig {
    dir: PathBuf,
    bridge: Bridge,
    host: Idle,
    stream: Stream,
    input: Vec<u8>,
    version: Version,
    next: u32,
}

fn config() -> config::BridgeConfig {
    config::BridgeConfig {
        uuid: ovsdb::Uuid::default(),
        name: "br0".to_owned(),
        datapath_type: "dummy".to_owned(),
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
        mirrors: Vec::new(),
        flow_tables: Default::default(),
        other_config: Default::default(),
    }
}

fn port(number: u16) -> BridgePort {
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
        told: None,
        bfd: None,
        lacp: None,
        qos: Default::default(),
        created: NOW,
        counted: false,
        shown: None,
        warning: None,
    }
}

impl Rig {
    fn new(name: &str, version: Version) -> Rig {
        let dir = std::env::temp_dir().join(format!("switch-of-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let mut bridge = Bridge::new(BridgeId(0), config(), ConnManager::new("br0"), NOW, 0);
        [1, 2].into_iter().for_each(|n| bridge.ports.insert(OfPort(n), port(n)));
        let manager = ManagerConfig {
            rundir: dir.clone(),
            versions: VersionSet::ALL,
            controllers: Vec::new(),
            queue_size: 100,
            debug_actions: false,
        };
        assert!(bridge.conns.configure(&manager, NOW).is_empty());
        let stream = Stream::connect(&Target::Unix(dir.join("br0.mgmt"))).unwrap();
        let mut rig = Rig { dir, bridge, host: Idle::default(), stream, input: Vec::new(), version, next: 1 };
        let hello = Hello { versions: VersionSet::only(version), header_version: version.wire() };
        rig.ask(Body::Hello(hello));
        rig
    }

    /// Sends a request and returns all replies.
    fn ask(&mut self, body: Body) -> Vec<Body> {
        self.next += 1;
        let message = Message::new(self.version, Xid(self.next), body);
        let frames = openflow::encode(&message, Dialect::default()).unwrap();
        frames.iter().for_each(|f| self.stream.write_all(f).unwrap());
        self.bridge.conns.run(NOW);
        while let Some(request) = self.bridge.conns.next_request(NOW) {
            handle(&mut self.bridge, &mut self.host, request);
        }
        self.bridge.conns.flush(NOW);
        self.replies()
    }

    /// An iteration of the main loop without a new request; a commit is completed.
    fn turn(&mut self) -> Vec<Body> {
        self.bridge.conns.run(NOW);
        go_on(&mut self.bridge, &mut self.host, true);
        while let Some(request) = self.bridge.conns.next_request(NOW) {
            handle(&mut self.bridge, &mut self.host, request);
        }
        self.bridge.conns.flush(NOW);
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

    fn replies(&mut self) -> Vec<Body> {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(n) if n > 0 => self.input.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        let mut out = Vec::new();
        while let Ok(Some(len)) = openflow::next_frame(&self.input)
            && len <= self.input.len()
        {
            let frame: Vec<u8> = self.input.drain(..len).collect();
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

    fn bundle(&mut self, kind: BundleControlType) -> Vec<Body> {
        self.ask(Body::BundleControl(BundleControl { bundle: 7, kind, flags: 3 }))
    }

    fn add(&mut self, body: Body) -> Vec<Body> {
        let inner = Message::new(self.version, Xid(self.next + 1), body);
        let message = openflow::encode(&inner, Dialect::default()).unwrap().remove(0);
        self.ask(Body::BundleAdd(BundleAdd { bundle: 7, flags: 3, message }))
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn flow(in_port: u16, actions: Vec<Action>) -> FlowMod {
    let mut matching = Match::CATCHALL;
    matching.set(FieldId::InPort, in_port.into());
    FlowMod { table: 0, matching, actions, ..FlowMod::default() }
}

fn mod_(fm: FlowMod) -> Body {
    Body::FlowMod(Box::new(fm))
}

fn errors(bodies: &[Body]) -> Vec<OfError> {
    let error = |b: &Body| match b {
        Body::Error(e) => e.error,
        _ => None,
    };
    bodies.iter().filter_map(error).collect()
}

#[test]
fn flows_are_added_and_shown_and_refused() {
    let mut rig = Rig::new("flows", Version::V13);
    let output = |port: u16| vec![Action::Output { port: OfPort(port), max_len: 0 }];
    assert!(rig.ask(mod_(flow(1, output(2)))).is_empty());
    assert_eq!(rig.flows(), 1);
    assert_eq!((rig.host.changed, rig.host.folded), (1, 1));
    let wrong = rig.ask(mod_(flow(2, vec![Action::Group(5)])));
    assert_eq!(errors(&wrong), [OfError::BacBadOutGroup]);
    let wrong = rig.ask(mod_(FlowMod { table: 3, ..flow(2, vec![Action::GotoTable(2)]) }));
    assert_eq!(errors(&wrong), [OfError::BicBadTableId]);
    let wrong = rig.ask(mod_(FlowMod { buffer_id: 9, ..flow(2, Vec::new()) }));
    assert_eq!(errors(&wrong), [OfError::BrcBufferUnknown]);
    let table = FlowStatsRequest { table: 255, ..FlowStatsRequest::default() };
    assert!(errors(&rig.ask(Body::FlowStatsRequest(Box::new(table)))).is_empty());
    assert_eq!(rig.flows(), 1);
}

#[test]
fn an_error_carries_the_whole_request() {
    let mut rig = Rig::new("whole", Version::V13);
    let replies = rig.ask(mod_(flow(2, vec![Action::Group(5)])));
    let [Body::Error(e)] = replies.as_slice() else { panic!("{replies:?}") };
    assert!(e.data.len() > 64);
    assert!(openflow::decode(&e.data, Dialect::default()).is_ok());
}

#[test]
fn a_flow_removed_message_precedes_the_barrier_reply() {
    let mut rig = Rig::new("removed", Version::V13);
    let wish = SwitchConfig { miss_send_len: 64, ..SwitchConfig::default() };
    rig.ask(Body::SetConfig(wish));
    let flags = FlowFlags { send_flow_rem: true, ..FlowFlags::default() };
    rig.ask(mod_(FlowMod { flags, ..flow(1, Vec::new()) }));
    let told = rig.ask(mod_(FlowMod { command: FlowCommand::Delete, ..flow(1, Vec::new()) }));
    assert!(matches!(told.as_slice(), [Body::FlowRemoved(_)]), "{told:?}");
    assert_eq!(rig.host.folded, 1);
    assert_eq!(rig.ask(Body::BarrierRequest), [Body::BarrierReply]);
}

#[test]
fn a_barrier_waits_for_the_datapath() {
    let mut rig = Rig::new("barrier", Version::V13);
    rig.ask(mod_(flow(1, Vec::new())));
    rig.host.published = 2;
    assert_eq!(rig.ask(Body::BarrierRequest), []);
    assert_eq!(rig.ask(Body::EchoRequest(vec![1])), [Body::EchoReply(vec![1])]);
    // A later request waits, too.
    assert_eq!(rig.ask(Body::GetConfigRequest), []);
    rig.host.done = 1;
    assert_eq!(rig.turn(), []);
    rig.host.done = 2;
    let told = rig.turn();
    assert!(matches!(told.as_slice(), [Body::BarrierReply, Body::GetConfigReply(_)]), "{told:?}");
    assert_eq!(rig.ask(Body::BarrierRequest), [Body::BarrierReply]);
}

#[test]
fn a_bundle_is_all_or_nothing() {
    use BundleControlType::*;
    let mut rig = Rig::new("bundle", Version::V14);
    rig.bundle(OpenRequest);
    rig.add(mod_(flow(1, Vec::new())));
    rig.add(mod_(flow(2, vec![Action::Group(9)])));
    rig.bundle(CloseRequest);
    let refused = rig.bundle(CommitRequest);
    assert_eq!(errors(&refused), [OfError::BacBadOutGroup, OfError::BfcMsgFailed]);
    assert_eq!(rig.flows(), 0);
    assert_eq!(errors(&rig.bundle(CommitRequest)), [OfError::BfcBadId]);

    rig.bundle(OpenRequest);
    rig.add(Body::GroupMod(GroupMod { group: 9, ..GroupMod::default() }));
    rig.add(mod_(flow(2, vec![Action::Group(9)])));
    let replies = rig.bundle(CommitRequest);
    assert!(matches!(replies.as_slice(), [Body::BundleControl(c)] if c.kind == CommitReply), "{replies:?}");
    assert_eq!(rig.flows(), 1);
}

#[test]
fn a_bundle_takes_what_fits_it() {
    let mut rig = Rig::new("unfit", Version::V14);
    assert_eq!(errors(&rig.add(Body::BarrierRequest)), [OfError::BfcMsgUnsup]);
    let message =
        openflow::encode(&Message::new(Version::V14, Xid(0), mod_(flow(1, Vec::new()))), Dialect::default());
    let add = BundleAdd { bundle: 1, flags: 0, message: message.unwrap().remove(0) };
    assert_eq!(errors(&rig.ask(Body::BundleAdd(add))), [OfError::BfcMsgBadXid]);
}

#[test]
fn a_port_mod_has_to_know_the_port() {
    let mut rig = Rig::new("port", Version::V13);
    let no_flood = PortConfig { no_packet_in: true, ..PortConfig::default() };
    let hw_addr = rig.bridge.ports[&OfPort(1)].patch_mac();
    let pm = PortMod { number: OfPort(1), hw_addr, config: no_flood, mask: no_flood, advertise: 0 };
    assert!(rig.ask(Body::PortMod(pm)).is_empty());
    assert!(rig.bridge.ports[&OfPort(1)].config.no_packet_in);
    let wrong = PortMod { hw_addr: flow::Mac([1; 6]), ..pm };
    assert_eq!(errors(&rig.ask(Body::PortMod(wrong))), [OfError::PmfcBadHwAddr]);
    let unknown = PortMod { number: OfPort(9), ..pm };
    assert_eq!(errors(&rig.ask(Body::PortMod(unknown))), [OfError::PmfcBadPort]);
}

#[test]
fn a_secondary_may_only_read() {
    let mut rig = Rig::new("secondary", Version::V13);
    let ids: Vec<_> = rig.bridge.conns.sessions().map(|(id, _)| id).collect();
    rig.bridge.conns.session(ids[0]).unwrap().role = Role::Secondary;
    assert_eq!(errors(&rig.ask(mod_(flow(1, Vec::new())))), [OfError::BrcIsSecondary]);
    assert_eq!(rig.flows(), 0);
    assert!(errors(&rig.ask(Body::TableStatsRequest)).is_empty());
}

#[test]
fn packets_go_out_once_checked() {
    let mut rig = Rig::new("out", Version::V13);
    let mut metadata = Match::CATCHALL;
    metadata.set(FieldId::InPort, 1);
    let output = vec![Action::Output { port: OfPort(2), max_len: 0 }];
    let po = PacketOut { buffer_id: u32::MAX, metadata, actions: output, packet: vec![0; 14] };
    assert!(rig.ask(Body::PacketOut(Box::new(po.clone()))).is_empty());
    assert_eq!(rig.host.sent.len(), 1);
    let group = PacketOut { actions: vec![Action::Group(3)], ..po };
    assert_eq!(errors(&rig.ask(Body::PacketOut(Box::new(group)))), [OfError::BacBadOutGroup]);
    assert_eq!(rig.host.sent.len(), 1);
}

#[test]
fn probes_are_answered_while_a_long_bundle_commits() {
    let mut rig = Rig::new("long", Version::V14);
    let poll = runtime::PollLoop::new(runtime::Clock::new()).unwrap();
    rig.host.waker = Some(poll.waker());
    rig.fill(600);
    assert!(rig.bundle(BundleControlType::CommitRequest).is_empty());
    assert_eq!(rig.ask(Body::EchoRequest(vec![7])), [Body::EchoReply(vec![7])]);
    // A request waits until the commit is complete: it sees the committed flows.
    assert!(rig.ask(Body::TableStatsRequest).is_empty());
    assert_eq!(rig.ask(Body::EchoRequest(vec![8])), []);
    let told = rig.turn();
    let [Body::BundleControl(c), Body::TableStatsReply(tables), .., Body::EchoReply(_)] = told.as_slice()
    else {
        panic!("{told:?}")
    };
    let active: u32 = tables.iter().map(|t| t.active).sum();
    assert_eq!((c.kind, active), (BundleControlType::CommitReply, 600));
    assert_eq!((rig.flows(), rig.host.changed), (600, 1));
}

#[test]
fn a_long_bundle_that_fails_changes_nothing() {
    let mut rig = Rig::new("long-failure", Version::V14);
    let poll = runtime::PollLoop::new(runtime::Clock::new()).unwrap();
    rig.host.waker = Some(poll.waker());
    rig.fill(600);
    rig.add(mod_(flow(2, vec![Action::Group(9)])));
    rig.bundle(BundleControlType::CommitRequest);
    assert_eq!(errors(&rig.turn()), [OfError::BacBadOutGroup, OfError::BfcMsgFailed]);
    assert_eq!(rig.flows(), 0);
}

#[test]
fn a_long_dump_comes_in_parts() {
    let mut rig = Rig::new("dump", Version::V14);
    rig.fill(5000);
    rig.bundle(BundleControlType::CommitRequest);
    let poll = runtime::PollLoop::new(runtime::Clock::new()).unwrap();
    rig.host.waker = Some(poll.waker());
    assert!(rig.ask(Body::FlowStatsRequest(Box::default())).is_empty());
    assert!(rig.ask(Body::BarrierRequest).is_empty());
    let mut parts = Vec::new();
    while parts.last() != Some(&Body::BarrierReply) {
        parts.extend(rig.turn());
        let waiting = rig.bridge.conns.sessions().map(|(_, s)| s.output_len()).sum::<usize>();
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
    let mut rig = Rig::new("ports", Version::V14);
    (1..=1000).for_each(|n| rig.bridge.ports.insert(OfPort(n), port(n)));
    let poll = runtime::PollLoop::new(runtime::Clock::new()).unwrap();
    rig.host.waker = Some(poll.waker());
    assert!(rig.ask(Body::PortStatsRequest(OfPort::NONE)).is_empty());
    assert_eq!(rig.ask(Body::EchoRequest(vec![5])), [Body::EchoReply(vec![5])]);
    let (mut seen, mut turns) = (Vec::new(), 0);
    while seen.len() < 999 {
        // One that goes meanwhile is left out.
        if turns == 1 {
            rig.bridge.ports.remove(&OfPort(900));
        }
        let before = rig.host.asked;
        for body in rig.turn() {
            let Body::PortStatsReply(stats) = body else { panic!("{body:?}") };
            seen.extend(stats.iter().map(|s| s.port.0));
        }
        assert!(rig.host.asked - before <= 100, "{} ports in one turn", rig.host.asked - before);
        turns += 1;
        assert!(turns < 50, "{} ports came", seen.len());
    }
    assert_eq!(seen, (1..=1000).filter(|n| *n != 900).collect::<Vec<u16>>());
    assert!(turns >= 10 && !rig.bridge.is_at_work(), "{turns} turns");
}

#[test]
fn options_are_mapped_before_messages_name_their_fields() {
    let mut rig = Rig::new("tlv", Version::V15);
    let map = TlvMap { class: 0x102, kind: 0x80, len: 4, index: 0 };
    let mut with_field = flow(1, vec![Action::DeleteField(Subfield::whole(FieldId::TunMetadata0))]);
    with_field.matching.place_tlv(0, &[5], None).unwrap();
    let request = FlowStatsRequest { matching: with_field.matching, ..FlowStatsRequest::default() };
    let ask_flows = || Body::FlowStatsRequest(Box::new(request.clone()));
    let unmapped = [OfError::NxfmfcInvalidTlvField];
    assert_eq!(errors(&rig.ask(mod_(with_field.clone()))), unmapped);
    assert_eq!(errors(&rig.ask(ask_flows())), unmapped);
    rig.bundle(BundleControlType::OpenRequest);
    assert_eq!(errors(&rig.add(mod_(with_field.clone()))), unmapped);
    let po = PacketOut {
        buffer_id: u32::MAX,
        metadata: with_field.matching,
        actions: Vec::new(),
        packet: vec![0; 14],
    };
    let packet_out = || Body::PacketOut(Box::new(po.clone()));
    assert!(rig.ask(packet_out()).is_empty());

    assert!(rig.ask(Body::TlvTableMod(TlvTableMod::Add(vec![map]))).is_empty());
    let reply = TlvTableReply { max_space: 256, max_fields: 64, maps: vec![map] };
    assert_eq!(rig.ask(Body::TlvTableRequest), [Body::TlvTableReply(reply)]);
    assert!(rig.ask(mod_(with_field)).is_empty());
    assert_eq!(errors(&rig.ask(Body::TlvTableMod(TlvTableMod::Clear))), [OfError::NxttmfcInvalidTlvDel]);
    assert!(rig.ask(packet_out()).is_empty());
    let sent: Vec<String> = rig.host.sent.iter().map(|po| po.metadata.to_string()).collect();
    assert_eq!(sent, ["in_port=1", "tun_metadata0=0x5,in_port=1"]);
    let told = rig.ask(ask_flows());
    let [Body::FlowStatsReply(flows)] = told.as_slice() else { panic!("{told:?}") };
    // Messages of the switch have the lengths of its table.
    assert_eq!(flows[0].matching.tlv(0).map(|t| t.value.len()), Some(4));
    let field = Subfield { n_bytes: 4, ..Subfield::whole(FieldId::TunMetadata0) };
    assert_eq!(flows[0].actions, [Action::DeleteField(field)]);
}

#[test]
fn options_used_in_a_bundle_stay_mapped() {
    let mut rig = Rig::new("tlv-bundle", Version::V15);
    let map = TlvMap { class: 0x102, kind: 0x80, len: 4, index: 0 };
    assert!(rig.ask(Body::TlvTableMod(TlvTableMod::Add(vec![map]))).is_empty());
    let add = flow(1, vec![Action::DeleteField(Subfield::whole(FieldId::TunMetadata0))]);
    let delete = FlowMod { command: FlowCommand::Delete, ..add.clone() };
    rig.bundle(BundleControlType::OpenRequest);
    let clear = || Body::TlvTableMod(TlvTableMod::Clear);
    for (waiting, answer) in [(delete, vec![]), (add, vec![OfError::NxttmfcInvalidTlvDel])] {
        assert!(rig.add(mod_(waiting)).is_empty());
        assert_eq!(errors(&rig.ask(clear())), answer);
        rig.ask(Body::TlvTableMod(TlvTableMod::Add(vec![map])));
    }
    rig.bundle(BundleControlType::DiscardRequest);
    assert!(rig.ask(clear()).is_empty());
}
