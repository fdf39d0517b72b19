//! Decodes messages by their templates, as a collector does.

use super::*;
use crate::{Now, PortFacts, TunnelKind};
use flow::{Flow, Mac, Tunnel, VLAN_CFI, Vlan};
use proptest::prelude::*;
use std::collections::BTreeMap;
use units::Millis;

/// The fields of a record in order, by number and enterprise. The names of ports occur twice.
type Fields = Vec<((u16, u32), Vec<u8>)>;

/// A collector.
#[derive(Default)]
struct Collector {
    templates: BTreeMap<u16, Vec<(u16, u32, u16)>>,
    records: Vec<(u32, u16, Fields)>,
    sequences: Vec<u32>,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

impl Collector {
    fn receive(&mut self, message: &[u8]) {
        assert_eq!((u16_at(message, 0), usize::from(u16_at(message, 2))), (10, message.len()));
        self.sequences.push(u32_at(message, 8));
        let domain = u32_at(message, 12);
        let mut rest = &message[16..];
        while !rest.is_empty() {
            let (id, len) = (u16_at(rest, 0), usize::from(u16_at(rest, 2)));
            let set = &rest[4..len];
            match id {
                2 => self.learn(set, 4),
                3 => self.learn(set, 6),
                _ => self.read(domain, id, set),
            }
            rest = &rest[len..];
        }
    }

    fn learn(&mut self, mut set: &[u8], header: usize) {
        while !set.is_empty() {
            let (id, count) = (u16_at(set, 0), u16_at(set, 2));
            set = &set[header..];
            let mut fields = Vec::new();
            for _ in 0..count {
                let (element, length) = (u16_at(set, 0), u16_at(set, 2));
                let enterprise = if element & 0x8000 != 0 { u32_at(set, 4) } else { 0 };
                set = &set[if enterprise != 0 { 8 } else { 4 }..];
                fields.push((element & 0x7fff, enterprise, length));
            }
            self.templates.insert(id, fields);
        }
    }

    fn read(&mut self, domain: u32, id: u16, mut set: &[u8]) {
        let Some(template) = self.templates.get(&id) else { return };
        let mut fields = Vec::new();
        for (element, enterprise, length) in template {
            let mut length = usize::from(*length);
            if length == 0xffff {
                length = usize::from(set[0]);
                set = &set[1..];
            }
            fields.push(((*element, *enterprise), set[..length].to_vec()));
            set = &set[length..];
        }
        assert_eq!(set, [], "the record is as long as its template says");
        self.records.push((domain, id, fields));
    }
}

fn number(fields: &Fields, element: u16) -> u64 {
    let (_, bytes) = fields.iter().find(|((id, _), _)| *id == element).expect("the element is there");
    bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b))
}

fn settings() -> Settings {
    Settings {
        active_timeout: Millis(10_000),
        flows_max: 100,
        stats_interval: Millis(600_000),
        template_interval: Millis(600_000),
        virtual_id: None,
    }
}

fn at(ms: u64) -> Now {
    Now { mono: Millis(ms), wall: 1_700_000_000_000_000 + ms * 1000 }
}

fn sampled<'a>(flow: &'a Flow, port: Option<&'a PortFacts>) -> IpfixSample<'a> {
    IpfixSample {
        flow,
        length: 114,
        packets: 10,
        domain: 5,
        point: 6,
        direction: Direction::ByOutput,
        input: port,
        has_output: false,
        output: None,
        tunnel: None,
        forwarded: true,
    }
}

fn tcp() -> Flow {
    Flow {
        dl_type: 0x0800,
        nw_proto: 6,
        nw_src: 0x0a00_0001,
        nw_dst: 0x0a00_0002,
        tp_src: 1000,
        tp_dst: 80,
        tcp_flags: 0x12,
        ..Flow::ZERO
    }
}

#[test]
fn samples_of_a_flow_become_one_record() {
    let port = PortFacts { name: "p1".to_owned(), ifindex: 12, ..PortFacts::default() };
    let (mut exporter, mut collector) = (Exporter::new(settings(), 1), Collector::default());
    let flow = tcp();
    exporter.sample(&sampled(&flow, Some(&port)), at(0));
    exporter.sample(&IpfixSample { length: 1014, forwarded: false, ..sampled(&flow, Some(&port)) }, at(2000));
    assert_eq!(exporter.deadline(), Some(Millis(10_000)));
    exporter.run(at(9_999));
    assert!(exporter.take().is_empty());
    exporter.run(at(10_000));
    exporter.take().iter().for_each(|message| collector.receive(message));
    let [(domain, _, fields)] = &collector.records[..] else { panic!("one record") };
    assert_eq!(*domain, 5);
    let wanted = [
        (138, 6),
        (61, 0),
        (10, 12),
        (4, 6),
        (7, 1000),
        (11, 80),
        // The first and the last packet, as time before the export.
        (158, 10_000_000),
        (159, 8_000_000),
        // Dropped packets, all packets.
        (133, 10),
        (2, 20),
        // Bytes of frames, bytes of IP packets, the shortest and the longest packet.
        (352, 11_280),
        (1, 11_000),
        (25, 100),
        (26, 1000),
        // ACK, SYN.
        (222, 20),
        (218, 20),
        (219, 0),
        (136, 2),
    ];
    for (element, value) in wanted {
        assert_eq!(number(fields, element), value, "element {element}");
    }
    let stats = Stats { flows: 1, packets: 2, ipv4: 2, ..Stats::default() };
    assert_eq!(exporter.stats(), stats);
    // Records of statistics and flows are counted, templates are not.
    assert_eq!(collector.sequences.first(), Some(&1));
    assert_eq!(collector.sequences.last(), Some(&2));
}

#[test]
fn a_full_cache_sends_the_oldest_flow() {
    let mut exporter = Exporter::new(Settings { flows_max: 2, ..settings() }, 1);
    let flows: Vec<Flow> = (0..5).map(|n| Flow { tp_src: n, ..tcp() }).collect();
    flows.iter().for_each(|flow| exporter.sample(&sampled(flow, None), at(0)));
    let mut collector = Collector::default();
    exporter.take().iter().for_each(|message| collector.receive(message));
    let seen: Vec<_> = collector.records.iter().map(|(_, _, f)| (number(f, 7), number(f, 136))).collect();
    assert_eq!(seen, [(0, 5), (1, 5), (2, 5)]);
    exporter.finish(at(1));
    exporter.take().iter().for_each(|message| collector.receive(message));
    assert_eq!(number(&collector.records[4].2, 136), 4);
    assert_eq!(exporter.stats().current, 0);
}

#[test]
fn templates_are_repeated_for_each_domain() {
    let mut exporter = Exporter::new(Settings { flows_max: 0, ..settings() }, 1);
    let flow = tcp();
    let mut count = |domain, ms| {
        exporter.sample(&IpfixSample { domain, ..sampled(&flow, None) }, at(ms));
        exporter.take().iter().filter(|m| u16_at(m, 16) == 2).map(|m| u32_at(m, 12)).collect::<Vec<_>>()
    };
    let first = count(1, 0);
    assert!(first.len() > 1 && first.iter().all(|domain| *domain == 1));
    assert!(count(1, 599_999).is_empty());
    assert_eq!(count(2, 599_999).len(), first.len());
    assert_eq!(count(1, 600_000).len(), first.len());
}

#[test]
fn a_tunnel_and_a_virtual_id_are_in_the_record() {
    let virtual_id = Some("vm-7".to_owned());
    let mut exporter = Exporter::new(Settings { flows_max: 0, virtual_id, ..settings() }, 1);
    let outer = Tunnel { ip_src: 1, ip_dst: 2, tun_id: 0x12_3456, tp_dst: 4789, ..Tunnel::default() };
    let flow = Flow { vlans: [Vlan { tpid: 0x8100, tci: VLAN_CFI | 0x6007 }, Vlan::default()], ..tcp() };
    let tunnel = Some(SampledTunnel { kind: TunnelKind::Vxlan, outer: &outer });
    let port = PortFacts { name: "vxlan0".to_owned(), ..PortFacts::default() };
    let sample = IpfixSample { tunnel, has_output: true, output: Some(&port), ..sampled(&flow, None) };
    exporter.sample(&sample, at(0));
    let mut collector = Collector::default();
    exporter.take().iter().for_each(|message| collector.receive(message));
    let fields = &collector.records.last().unwrap().2;
    let wanted = [(61, 1), (58, 7), (244, 3), (240, 18), (893, 1), (895, 17), (897, 4789), (891, 1)];
    for (element, value) in wanted {
        assert_eq!(number(fields, element), value, "element {element}");
    }
    assert_eq!(number(fields, 892), 0x12_3456);
    let names: Vec<_> = fields.iter().filter(|((id, _), _)| *id == 82).map(|(_, v)| v.clone()).collect();
    assert_eq!(names, [b"".to_vec(), b"vxlan0".to_vec()]);
    assert!(fields.iter().any(|((id, enterprise), v)| (*id, *enterprise) == (898, 6876) && v == b"vm-7"));
}

proptest! {
    /// Records of any packet are as long as their template says, and no packet is lost or counted twice.
    #[test]
    fn packets_are_neither_lost_nor_counted_twice(
        packets in prop::collection::vec((any::<(u8, u8, u16)>(), 0usize..4, 0u64..20_000, any::<(bool, bool)>()), 1..60),
        flows_max in 0u32..8,
    ) {
        let mut exporter = Exporter::new(Settings { flows_max, ..settings() }, 1);
        let mut collector = Collector::default();
        let mut now = 0;
        let types = [0x0800, 0x86dd, 0x0806, 0x8847];
        let protocols = [1, 6, 17, 132, 58, 2];
        for ((protocol, byte, port), kind, wait, (egress, multicast)) in &packets {
            now += wait;
            let dl_dst = if *multicast { Mac([1, 0, 0, 0, 0, *byte & 3]) } else { Mac([2; 6]) };
            let nw_proto = protocols[usize::from(*protocol) % protocols.len()];
            let flow = Flow {
                dl_type: types[*kind],
                dl_dst,
                nw_proto,
                tp_src: port & 3,
                tcp_flags: port >> 8,
                ..Flow::ZERO
            };
            let sample = IpfixSample { has_output: *egress, packets: 1, ..sampled(&flow, None) };
            exporter.run(at(now));
            exporter.sample(&sample, at(now));
            prop_assert!(exporter.stats().current <= u64::from(flows_max));
            exporter.take().iter().for_each(|message| collector.receive(message));
        }
        exporter.finish(at(now));
        exporter.take().iter().for_each(|message| collector.receive(message));
        let mut records: Vec<&Fields> = collector.records.iter().map(|(_, _, fields)| fields).collect();
        records.retain(|fields| fields.iter().any(|((id, _), _)| *id == 2));
        let sum: u64 = records.iter().map(|fields| number(fields, 2)).sum();
        prop_assert_eq!(sum, packets.len() as u64);
        prop_assert_eq!(records.len() as u64, exporter.stats().flows);
        // The record of the flow with the last sample counts all samples.
        let total = records.iter().map(|fields| number(fields, 86)).max();
        prop_assert_eq!(total, Some(packets.len() as u64));
    }
}
