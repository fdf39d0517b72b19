//! `sluice bench path`: the cost of each stage per packet, by families of packets and actions.

use super::fixture::thread_ns;
use datapath::port::{Repeat, Sink};
use datapath::stages::{PathStage, StageTimes};
use datapath::{Config, Datapath, Worker};
use dpif::meter::Band;
use dpif::text::{NoNames, parse_actions};
use dpif::{MeterSpec, Meters, NoOwner};
use flow::compose::compose;
use flow::{Flow, Mac, VLAN_CFI, Vlan};
use ovsdb::Json;
use serde_json::json;
use std::sync::{Arc, LazyLock};
use std::time::Instant;
use units::{Cycles, Millis, PortNo, QueueId, WorkerId};

/// Number of different packets.
const FLOWS: u32 = 10_000;
/// Number of megaflows, which have five different masks.
const MEGAFLOWS: u32 = 20;
/// Packets of one window. Windows are short, so that on a busy machine some of them run undisturbed; the result is the
/// fastest window.
const WINDOW: u64 = 6_400;

/// The kind of packets of a family.
#[derive(Clone, Copy, PartialEq)]
enum PacketKind {
    V4,
    V6,
    Vlan,
}

/// A family: its packets, their actions, and the number of packets in a burst.
struct Family {
    name: &'static str,
    frames: PacketKind,
    actions: &'static str,
    burst: usize,
}

const FULL_BURST: usize = 64;

const FAMILIES: [Family; 15] = [
    family("v4:out", PacketKind::V4, "2"),
    family("v4:l2", PacketKind::V4, L2),
    family(
        "v4:route",
        PacketKind::V4,
        "set(eth(src=02:aa:00:00:00:01,dst=02:bb:00:00:00:01)),set(ipv4(ttl=63)),2",
    ),
    family("v4:nat", PacketKind::V4, "set(ipv4(dst=30.0.0.1)),set(udp(dst=8080)),2"),
    family("v4:push", PacketKind::V4, "push_vlan(vid=100,pcp=0),2"),
    family("v4:two", PacketKind::V4, "3,2"),
    family("v4:meter", PacketKind::V4, "meter(0),2"),
    family("v4:group", PacketKind::V4, "hash(l4(0)),recirc(0x1)"),
    family("v6:out", PacketKind::V6, "2"),
    family(
        "v6:route",
        PacketKind::V6,
        "set(eth(src=02:aa:00:00:00:01,dst=02:bb:00:00:00:01)),set(ipv6(hlimit=63)),2",
    ),
    family("v6:nat", PacketKind::V6, "set(ipv6(dst=2003::1)),set(udp(dst=8080)),2"),
    family("vlan:out", PacketKind::Vlan, "2"),
    family("vlan:pop", PacketKind::Vlan, "pop_vlan,2"),
    Family { name: "v4:out, 4 at once", burst: 4, ..family("", PacketKind::V4, "2") },
    Family { name: "v4:out, 1 at once", burst: 1, ..family("", PacketKind::V4, "2") },
];

const L2: &str = "set(eth(src=02:aa:00:00:00:01,dst=02:bb:00:00:00:01)),2";

const fn family(name: &'static str, frames: PacketKind, actions: &'static str) -> Family {
    Family { name, frames, actions, burst: FULL_BURST }
}

impl Family {
    fn packet(&self, n: u32) -> Flow {
        let (dl_src, dl_dst) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        let net = n % MEGAFLOWS;
        let plain =
            Flow { in_port: 1, dl_src, dl_dst, nw_proto: 17, nw_ttl: 64, tp_src: 1, tp_dst: 2, ..Flow::ZERO };
        let v4 = Flow { dl_type: 0x0800, nw_src: (10 + net) << 24 | 1, nw_dst: 0x1400_0000 + n, ..plain };
        match self.frames {
            PacketKind::V4 => v4,
            PacketKind::Vlan => {
                let tci = VLAN_CFI | (1 + n % 64) as u16;
                Flow { vlans: [Vlan { tpid: 0x8100, tci }, Vlan::default()], ..v4 }
            }
            PacketKind::V6 => {
                let ipv6_src = (0x2001 << 112 | u128::from(net) << 104 | u128::from(n)).to_be_bytes();
                let ipv6_dst = (0x2002 << 112 | u128::from(n)).to_be_bytes();
                Flow { dl_type: 0x86dd, ipv6_src, ipv6_dst, ..plain }
            }
        }
    }

    fn mask(&self, net: u32) -> Flow {
        let plain = Flow { in_port: u32::MAX, dl_type: u16::MAX, nw_frag: 3, ..Flow::ZERO };
        let plain = if self.actions.contains("ttl") || self.actions.contains("hlimit") {
            Flow { nw_ttl: u8::MAX, ..plain }
        } else {
            plain
        };
        let bits = net % 5;
        match self.frames {
            PacketKind::V6 => Flow { ipv6_src: (u128::MAX << (104 - bits)).to_be_bytes(), ..plain },
            _ => Flow { nw_src: u32::MAX << (24 - bits), ..plain },
        }
    }
}

/// Nanoseconds since the first call.
fn clock() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}

/// Duration of one clock reading, in nanoseconds.
fn clock_cost() -> f64 {
    const READS: u32 = 1000;
    let one = || {
        let start = clock();
        (0..READS).for_each(|_| {
            std::hint::black_box(clock());
        });
        (clock() - start) as f64 / f64::from(READS)
    };
    (0..10).map(|_| one()).fold(f64::MAX, f64::min)
}

/// Nanoseconds per packet.
struct Row {
    stages: [f64; PathStage::ALL.len()],
    /// The total, measured without timing the stages.
    total: f64,
}

struct Fixture {
    worker: Worker,
    turn: u64,
    burst: u64,
    _datapath: Arc<Datapath>,
}

impl Fixture {
    fn new(family: &Family) -> Result<Fixture, String> {
        let datapath = Datapath::new(&Config { max_flows: 1000, seed: 42, ..Config::default() });
        for no in 1..=3 {
            datapath.add_port(PortNo(no), vec![Box::new(Sink)]).map_err(|e| format!("{e:?}"))?;
        }
        let bands = vec![Band { rate: u32::MAX, burst: u32::MAX, remark: None }];
        datapath.set(0, &MeterSpec { packets: true, bands }, Millis(0));
        let parse = |text: &str| parse_actions(text, &NoNames).map_err(|e| format!("{text}: {e}"));
        let actions: Arc<_> = parse(family.actions)?.into();
        let put = |key: &Flow, mask: &Flow, actions| {
            datapath.flow_put(key, mask, actions, Arc::new(NoOwner)).map_err(|e| format!("{e:?}"))
        };
        for net in 0..MEGAFLOWS {
            put(&family.packet(net), &family.mask(net), Arc::clone(&actions))?;
        }
        for dp_hash in 0..4 {
            let key = Flow { recirc_id: 1, dp_hash, ..family.packet(0) };
            let mask = Flow { recirc_id: u32::MAX, dp_hash: 3, dl_type: u16::MAX, nw_frag: 3, ..Flow::ZERO };
            put(&key, &mask, parse("2")?.into())?;
        }
        let packets = (0..FLOWS).map(|n| compose(&family.packet(n), &[0; 18])).collect();
        let mut worker = datapath.worker(WorkerId(0), 0);
        worker.add_rxq(PortNo(1), QueueId(0), Box::new(Repeat::new(packets, family.burst)));
        Ok(Fixture { worker, turn: 0, burst: family.burst as u64, _datapath: datapath })
    }

    /// Runs one window and returns CPU nanoseconds per packet.
    fn window(&mut self) -> f64 {
        let start = thread_ns();
        for _ in 0..WINDOW / self.burst {
            let turn = self.turn;
            self.worker.poll_publishing_rarely(Millis(turn / 600), Cycles(turn), || Cycles(turn));
            self.turn += 1;
        }
        (thread_ns() - start) as f64 / WINDOW as f64
    }
}

fn measure(family: &Family, windows: usize, clock_cost: f64) -> Result<Row, String> {
    let mut fixture = Fixture::new(family)?;
    (0..10).for_each(|_| _ = fixture.window());
    let total = (0..windows).map(|_| fixture.window()).fold(f64::MAX, f64::min);
    fixture.worker.time_stages(clock);
    let mut before = StageTimes::default();
    let mut best = [f64::MAX; PathStage::ALL.len()];
    for _ in 0..windows {
        fixture.window();
        let now = fixture.worker.stage_times();
        let stages: [f64; PathStage::ALL.len()] = std::array::from_fn(|i| {
            let (time, ends) = (now[i].time - before[i].time, now[i].ends - before[i].ends);
            (time as f64 - ends as f64 * clock_cost).max(0.0) / WINDOW as f64
        });
        if stages.iter().sum::<f64>() < best.iter().sum() {
            best = stages;
        }
        before = now;
    }
    Ok(Row { stages: best, total })
}

/// Measures and prints all families.
pub fn run(quick: bool, as_json: bool) -> Result<(), String> {
    let (windows, cost) = (if quick { 20 } else { 400 }, clock_cost());
    if !as_json {
        let names = PathStage::ALL.map(|stage| format!("{:>9}", stage.name())).concat();
        println!("{:18}{names}{:>9}   nanoseconds per packet", "", "total");
    }
    let mut rows = Vec::new();
    for family in &FAMILIES {
        let row = measure(family, windows, cost)?;
        if as_json {
            let stages =
                PathStage::ALL.iter().zip(row.stages).map(|(s, ns)| (s.name().to_owned(), json!(ns)));
            let stages: serde_json::Map<_, _> = stages.collect();
            rows.push(json!({"family": family.name, "stages_ns": stages, "total_ns": row.total}));
        } else {
            let stages = row.stages.map(|ns| format!("{ns:9.1}")).concat();
            println!("{:18}{stages}{:9.1}", family.name, row.total);
        }
    }
    if as_json {
        println!("{}", Json::Array(rows));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use datapath::Event;
    use std::collections::BTreeSet;

    #[test]
    fn every_family_is_forwarded_by_its_megaflows() {
        let names: BTreeSet<&str> = FAMILIES.iter().map(|family| family.name).collect();
        assert_eq!(names.len(), FAMILIES.len());
        for family in &FAMILIES {
            let mut fixture = Fixture::new(family).unwrap();
            for _ in 0..300 {
                fixture.worker.poll(Millis(0), Cycles(0));
            }
            let tally = fixture.worker.tally();
            let (received, sent) = (tally.get(Event::Received), tally.get(Event::Sent));
            let copies = if family.name == "v4:two" { 2 } else { 1 };
            assert_eq!((received, sent), (300 * fixture.burst, copies * received), "{}", family.name);
            assert_eq!(tally.get(Event::Missed), 0, "{}", family.name);
        }
    }

    #[test]
    fn stages_take_time() {
        let row = measure(&FAMILIES[0], 1, 0.0).unwrap();
        assert!(row.total > 0.0 && row.stages.iter().all(|ns| *ns > 0.0), "{:?}", row.stages);
    }
}
