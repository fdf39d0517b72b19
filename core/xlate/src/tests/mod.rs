//! Small switches for tests.

mod bonds;
mod encap;
mod mirror;
mod multicast;
mod native;
mod normal;
mod pipeline;
mod property;
mod sampling;
mod spanning_tree;
mod special;
mod traces;
mod tunnel_options;

use crate::*;
use ::bridge::{BundleId, GroupTable, MacTable, VlanConfig};
use dpif::DpAction;
use flow::{FieldId, Flow, Mac, Match};
use ofproto::Ofproto;
use openflow::FlowMod;
use openflow::action::Action;
use openflow::group::GroupMod;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use units::{Millis, OfPort, PortNo};

pub(super) const BR0: BridgeId = BridgeId(0);
pub(super) const BR1: BridgeId = BridgeId(1);

/// A frozen-state table behind a lock, as the switch has it.
#[derive(Default)]
pub(super) struct SharedRecirc(pub Mutex<RecircTable>);

impl Recirc for SharedRecirc {
    fn freeze(&self, state: Frozen) -> Option<u32> {
        self.0.lock().unwrap().freeze(state)
    }
    fn state(&self, id: u32) -> Option<Arc<Frozen>> {
        self.0.lock().unwrap().state(id)
    }
    fn state_ref(&self, id: u32) -> Option<Arc<Frozen>> {
        self.0.lock().unwrap().state_ref(id)
    }
}

/// Text of actions, as far as the traces here need it.
pub(super) struct ShortText;

impl TraceFormat for ShortText {
    fn actions(&self, _bridge: &BridgeView, actions: &[Action]) -> String {
        let one = |a: &Action| match a {
            Action::Output { port, .. } if *port == OfPort::NORMAL => "NORMAL".to_owned(),
            Action::Output { port, .. } => format!("output:{port}"),
            Action::Resubmit { table: Some(t), .. } => format!("resubmit(,{t})"),
            Action::GotoTable(t) => format!("goto_table:{t}"),
            Action::WriteActions(list) => format!("write_actions({})", self.actions(_bridge, list)),
            Action::ClearActions => "clear_actions".to_owned(),
            Action::Group(id) => format!("group:{id}"),
            Action::SetEthDst(mac) => format!("set_field:{mac}->eth_dst"),
            Action::DecTtl { .. } => "dec_ttl".to_owned(),
            other => format!("{other:?}"),
        };
        actions.iter().map(one).collect::<Vec<_>>().join(",")
    }
}

/// A bridge that a test is building.
pub(super) struct TestBridge {
    id: BridgeId,
    pub(super) ofproto: Ofproto,
    pub(super) macs: MacTable,
    pub(super) ports: BTreeMap<OfPort, PortView>,
    pub(super) bundles: Vec<Bundle>,
    pub(super) mirrors: Vec<Mirror>,
    /// Multicast snooping, with whether unregistered multicast is flooded.
    pub(super) snooping: Option<(GroupTable, bool)>,
    pub(super) sampling: Option<Arc<Sampling>>,
}

impl TestBridge {
    pub(super) fn new(id: BridgeId) -> TestBridge {
        TestBridge {
            id,
            ofproto: Ofproto::new(Millis(0), 0),
            macs: MacTable::new(),
            ports: BTreeMap::new(),
            bundles: Vec::new(),
            mirrors: Vec::new(),
            snooping: None,
            sampling: None,
        }
    }

    /// A bridge with ports 1 to `n`, whose datapath numbers are `base` more.
    pub(super) fn with_ports(id: BridgeId, n: u16, base: u32) -> TestBridge {
        let mut b = TestBridge::new(id);
        for port in 1..=n {
            b.port(port, Attachment::Datapath(PortNo(base + u32::from(port))), VlanConfig::trunk());
        }
        b
    }

    pub(super) fn port(&mut self, number: u16, attachment: Attachment, vlan: VlanConfig) {
        let (of, bundle) = (OfPort(number), BundleId(u32::from(number)));
        let name = format!("p{number}");
        self.ports.insert(of, PortView::new(of, &name, bundle, attachment));
        let vlan = vlan.normalized();
        self.bundles.push(Bundle {
            id: bundle,
            name,
            ports: vec![of],
            vlan,
            floodable: true,
            protected: false,
            bond: None,
        });
    }

    pub(super) fn flow(
        &mut self,
        table: u8,
        priority: u16,
        fields: &[(FieldId, u128)],
        actions: Vec<Action>,
    ) {
        let mut matching = Match::CATCHALL;
        for (field, value) in fields {
            matching.set(*field, *value);
        }
        let fm = FlowMod { table, priority, matching, actions, ..FlowMod::default() };
        self.ofproto.handle_flow_mod(&fm, Millis(0)).unwrap();
    }

    pub(super) fn group(&mut self, gm: &GroupMod) {
        self.ofproto.handle_group_mod(gm, Millis(0)).unwrap();
    }

    pub(super) fn build(&mut self) -> BridgeView {
        BridgeView {
            id: self.id,
            name: format!("br{}", self.id.0),
            tables: self.ofproto.publish(),
            macs: Arc::new(self.macs.clone()),
            snooping: self.snooping.as_ref().map(|(groups, flood_unregistered)| Snooping {
                groups: Arc::new(groups.clone()),
                flood_ports: groups.flood_ports().to_vec(),
                report_ports: groups.report_ports().to_vec(),
                flood_unregistered: *flood_unregistered,
            }),
            ports: self.ports.clone().into_iter().collect(),
            bundles: self.bundles.iter().map(|b| (b.id, b.clone())).collect(),
            mirrors: self.mirrors.clone(),
            sampling: self.sampling.clone(),
            forward_bpdu: false,
            in_band: false,
            tree: self.ports.values().find_map(|port| port.tree.map(|tree| tree.protocol)),
            fragments: Fragments::Normal,
            packet_in_on_miss: false,
            controller_port_live: true,
        }
    }
}

pub(super) fn switch(bridges: &mut [TestBridge]) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for b in bridges {
        for (of, port) in &b.ports {
            if let Attachment::Datapath(no) = port.attachment {
                snapshot.ingress.insert(no, (b.id, *of));
            }
        }
        snapshot.bridges.insert(b.id, Arc::new(b.build()));
    }
    snapshot
}

pub(super) fn input<'a>(flow: &'a Flow, recirc: &'a SharedRecirc) -> Input<'a> {
    Input {
        bridge: BR0,
        flow,
        packet: None,
        start: Start::Tables,
        packet_out: false,
        returns_side_effects: true,
        dry_run: false,
        recirc,
        trace_format: None,
    }
}

pub(super) fn run(snapshot: &Snapshot, flow: &Flow) -> Output {
    *translate(snapshot, &input(flow, &SharedRecirc::default()))
}

pub(super) fn trace(snapshot: &Snapshot, flow: &Flow) -> String {
    let recirc = SharedRecirc::default();
    let input = Input {
        trace_format: Some(&ShortText),
        returns_side_effects: false,
        dry_run: true,
        ..input(flow, &recirc)
    };
    translate(snapshot, &input).trace.unwrap().text()
}

pub(super) fn mac(n: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, n])
}

pub(super) fn tcp(port: u32) -> Flow {
    Flow {
        in_port: port,
        dl_type: 0x0800,
        dl_src: mac(1),
        dl_dst: mac(2),
        nw_proto: 6,
        nw_ttl: 64,
        nw_src: 0x0a00_0001,
        nw_dst: 0x0a00_0002,
        tp_src: 1000,
        tp_dst: 80,
        ..Flow::ZERO
    }
}

fn set(field: FieldId, value: u128) -> Action {
    Action::SetField { field, value, mask: u128::MAX }
}

pub(super) fn out(port: u16) -> Action {
    Action::output(OfPort(port))
}

pub(super) fn normal() -> Action {
    Action::output(OfPort::NORMAL)
}

/// The ports of the output actions, in order.
pub(super) fn outputs(output: &Output) -> Vec<u32> {
    let port = |a: &DpAction| match a {
        DpAction::Output(p) => Some(p.0),
        _ => None,
    };
    output.actions.iter().filter_map(port).collect()
}
