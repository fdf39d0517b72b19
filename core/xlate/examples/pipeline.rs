//! The cost of a translation without a datapath: tables in memory, a sequence of different packets.
//!
//! `cargo run --release -p xlate --example pipeline [case ...]` prints nanoseconds per translation. If `TRANSLATIONS`
//! is set, the program makes this number of translations of each case and does not use the clock, for measurements with
//! instruction counters. In cases whose name ends with `-keep`, the results stay in memory, as the results of megaflows do.

use bridge::{BundleId, MacTable, VlanConfig};
use flow::text::NoNames;
use flow::{Flow, Mac};
use ofproto::Ofproto;
use openflow::text::parse_flow_line;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use units::{Millis, OfPort, PortNo};
use xlate::*;

const BRIDGE: BridgeId = BridgeId(0);
/// Number of tables of the long pipeline.
const TABLES: u32 = 40;
/// Number of rules in each table that match the same bits.
const FAN: u32 = 8;

/// Actions of the rules of a table, except for the action that continues in the next table.
fn changes(table: u32, value: u32) -> String {
    match table % 4 {
        0 => format!("set_field:{table}->reg1,set_field:{value}->metadata"),
        1 => format!(
            "move:NXM_NX_REG0[0..15]->NXM_NX_REG2[16..31],set_field:02:00:00:00:00:{table:02x}->eth_src"
        ),
        2 => format!("load:{value}->NXM_NX_REG3[0..7],dec_ttl"),
        _ => format!("set_field:{}->ip_dscp,push:NXM_NX_REG1[],pop:NXM_NX_REG4[]", value * 4),
    }
}

/// The pipeline of `bench/experiments/translate40`.
fn forty() -> Vec<String> {
    let mut rules =
        vec!["table=0,priority=10,ip,actions=move:NXM_OF_IP_DST[]->NXM_NX_REG0[],resubmit(,1)".to_owned()];
    for table in 1..TABLES - 1 {
        let (shift, next) = (table % 5 * 3, table + 1);
        let on = if table % 2 == 1 { format!("resubmit(,{next})") } else { format!("goto_table:{next}") };
        rules.push(format!("table={table},priority=30,tcp,tp_dst={table},actions=drop"));
        rules.push(format!("table={table},priority=25,ip,metadata={:#x},actions=drop", 0x1000 + table));
        for value in 0..FAN {
            let (bits, mask) = (value << shift, (FAN - 1) << shift);
            let what = changes(table, value);
            rules.push(format!("table={table},priority=20,ip,reg0={bits:#x}/{mask:#x},actions={what},{on}"));
        }
    }
    rules.push(format!("table={},priority=10,ip,actions=output:2", TABLES - 1));
    rules
}

/// A case: its name and its flows.
fn cases() -> Vec<(&'static str, Vec<String>)> {
    let rule = || vec!["udp,ip_dst=20.0.0.0/8,tp_dst=2,actions=output:2".to_owned()];
    vec![
        ("rule", rule()),
        ("rule-keep", rule()),
        ("normal", vec!["actions=NORMAL".to_owned()]),
        ("forty", forty()),
        ("forty-keep", forty()),
    ]
}

fn packet(n: u32) -> Flow {
    Flow {
        in_port: 1,
        dl_type: 0x0800,
        dl_src: Mac([2, 0, 0, 0, 0, 1]),
        dl_dst: Mac([2, 0, 0, 0, 0, 2]),
        nw_proto: 17,
        nw_ttl: 64,
        nw_src: 0x0a00_0001,
        nw_dst: 0x1400_0000 + n % 0x1_0000,
        tp_src: 1,
        tp_dst: 2,
        ..Flow::ZERO
    }
}

fn snapshot(flows: &[String]) -> Snapshot {
    let mut ofproto = Ofproto::new(Millis(0), 0);
    for flow in flows {
        let fm = parse_flow_line(flow, &NoNames).unwrap().flow;
        ofproto.handle_flow_mod(&fm, Millis(0)).unwrap();
    }
    let (mut ports, mut bundles) = (BTreeMap::new(), Vec::new());
    for n in [1, 2] {
        let (number, id, name) = (OfPort(n), BundleId(n.into()), format!("p{n}"));
        ports.insert(number, PortView::new(number, &name, id, Attachment::Datapath(PortNo(n.into()))));
        let vlan = VlanConfig::trunk();
        bundles.push((
            id,
            Bundle { id, name, ports: vec![number], vlan, floodable: true, protected: false, bond: None },
        ));
    }
    let bridge = BridgeView {
        id: BRIDGE,
        name: "br0".into(),
        tables: ofproto.publish(),
        macs: Arc::new(MacTable::new()),
        snooping: None,
        ports: ports.into_iter().collect(),
        bundles: bundles.into_iter().collect(),
        mirrors: Vec::new(),
        forward_bpdu: false,
        in_band: false,
        tree: None,
        sampling: None,
        fragments: Fragments::Normal,
        packet_in_on_miss: false,
        controller_port_live: true,
    };
    let mut snapshot = Snapshot::default();
    snapshot.bridges.insert(BRIDGE, Arc::new(bridge));
    snapshot
}

/// A store of frozen states that is never used: no packet is recirculated.
struct NoRecirc;

impl Recirc for NoRecirc {
    fn freeze(&self, _: Frozen) -> Option<u32> {
        None
    }
    fn state(&self, _: u32) -> Option<Arc<Frozen>> {
        None
    }
    fn state_ref(&self, _: u32) -> Option<Arc<Frozen>> {
        None
    }
}

fn one(snapshot: &Snapshot, n: u32) -> Box<Output> {
    let flow = packet(n);
    let input = Input {
        bridge: BRIDGE,
        flow: &flow,
        packet: Some(&[0; 64]),
        start: Start::Tables,
        packet_out: false,
        returns_side_effects: true,
        dry_run: false,
        recirc: &NoRecirc,
        trace_format: None,
    };
    let output = translate(snapshot, &input);
    assert!(output.error.is_none() && !output.actions.is_empty());
    output
}

/// Nanoseconds per translation.
fn window(snapshot: &Snapshot, n: u32, keep: bool) -> f64 {
    let (start, mut kept) = (Instant::now(), Vec::new());
    for i in 0..n {
        let output = one(snapshot, i);
        if keep {
            kept.push((output.stats_targets.into_boxed_slice(), output.actions.into_boxed_slice()));
        }
    }
    start.elapsed().as_nanos() as f64 / f64::from(n)
}

fn main() {
    let fixed: Option<u32> = std::env::var("TRANSLATIONS").ok().and_then(|n| n.parse().ok());
    let asked: Vec<String> = std::env::args().skip(1).collect();
    for (name, flows) in cases().iter().filter(|c| asked.is_empty() || asked.iter().any(|a| a == c.0)) {
        let snapshot = snapshot(flows);
        let turns = if fixed.is_some() { 1 } else { 7 };
        let took = (0..turns).map(|_| window(&snapshot, fixed.unwrap_or(20_000), name.ends_with("-keep")));
        println!("{name:12} {:9.1} ns", took.fold(f64::MAX, f64::min));
    }
}
