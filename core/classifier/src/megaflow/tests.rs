use super::convert::{ext_of, flow_of, line_of};
use super::*;
use flow::{Flow, Mac};
use proptest::prelude::*;

fn packet(port: u32, src: u32, tp_dst: u16) -> Flow {
    Flow { in_port: port, dl_type: 0x0800, nw_proto: 6, nw_src: src, tp_dst, ..Flow::ZERO }
}

fn insert(publisher: &mut MegaflowPublisher<u32>, key: &Flow, mask: &Flow, payload: u32) -> InsertResult {
    let mask = publisher.bounded_mask(key.in_port, KeyMask::from_flow(mask));
    publisher.insert(key.in_port, &Key::from_flow(key), &mask, payload)
}

fn lookup(table: &MegaflowTable<u32>, flow: &Flow) -> Option<u32> {
    let mut reader = table.reader();
    let guard = reader.enter();
    let (index, _) = table.port_megaflows(flow.in_port)?.lookup(&guard, &Key::from_flow(flow));
    Some(guard.get(index?)?.payload)
}

#[test]
fn finds_by_mask_and_forgets_what_was_removed() {
    let (table, mut publisher) = MegaflowTable::new(1000, 64, 7);
    let by_src = Flow { nw_src: u32::MAX, ..Flow::ZERO };
    let InsertResult::New(index) = insert(&mut publisher, &packet(1, 10, 80), &by_src, 5) else { panic!() };
    assert_eq!(lookup(&table, &packet(1, 10, 443)), Some(5));
    assert_eq!(lookup(&table, &packet(1, 11, 80)), None);
    assert_eq!(lookup(&table, &packet(2, 10, 80)), None);
    assert_eq!(insert(&mut publisher, &packet(1, 10, 1), &by_src, 6), InsertResult::Same(index));
    assert_eq!(table.port_megaflows(1).unwrap().depth(), Depth::L3);
    assert!(publisher.remove(index));
    assert_eq!(lookup(&table, &packet(1, 10, 443)), None);
    assert!(table.port_megaflows(1).is_none());
}

#[test]
fn replacing_leaves_no_gap_and_one_megaflow() {
    let (table, mut publisher) = MegaflowTable::new(1000, 64, 7);
    let mask = Flow { ipv6_label: u32::MAX, ..Flow::ZERO };
    let InsertResult::New(old) = insert(&mut publisher, &packet(1, 10, 80), &mask, 5) else { panic!() };
    let new = publisher.replace(old, 6).unwrap();
    assert_eq!(lookup(&table, &packet(1, 10, 443)), Some(6));
    assert_eq!(table.port_megaflows(1).unwrap().subtables()[0].len(), 1);
    assert!(!publisher.remove(old));
    assert!(publisher.remove(new));
}

#[test]
fn a_shallow_key_never_matches_a_deep_megaflow() {
    let (table, mut publisher) = MegaflowTable::new(1000, 64, 7);
    let by_port = Flow { tp_dst: u16::MAX, ..Flow::ZERO };
    insert(&mut publisher, &packet(1, 10, 0), &by_port, 5);
    let mut reader = table.reader();
    let guard = reader.enter();
    let mut key = Key::from_flow(&packet(1, 10, 0));
    assert!(table.port_megaflows(1).unwrap().lookup(&guard, &key).0.is_some());
    key.depth = Depth::L3;
    assert!(table.port_megaflows(1).unwrap().lookup(&guard, &key).0.is_none());
}

#[test]
fn masks_are_bounded() {
    let (table, mut publisher) = MegaflowTable::new(1000, 4, 7);
    for bits in 1..=30u32 {
        let mask = Flow { nw_src: u32::MAX << bits, ..Flow::ZERO };
        insert(&mut publisher, &packet(1, 0x8000_0000 >> bits, 80), &mask, bits);
    }
    assert_eq!(table.port_megaflows(1).unwrap().subtables().len(), 5);
    let mask = Flow { ipv6_src: [0xff; 16], ..Flow::ZERO };
    insert(&mut publisher, &packet(1, 0xffff_0000, 80), &mask, 99);
    assert_eq!(table.port_megaflows(1).unwrap().subtables().len(), 6);
    assert_eq!(lookup(&table, &packet(1, 0xffff_0000, 80)), Some(99));
    assert_eq!(publisher.mask_count(), 6);
    assert_eq!(table.most_masks(), Some((1, 6)));
}

#[test]
fn a_batch_is_looked_up_as_its_packets_are() {
    let (table, mut publisher) = MegaflowTable::new(1000, 64, 7);
    let masks = [Flow { nw_src: u32::MAX, ..Flow::ZERO }, Flow { tp_dst: u16::MAX, ..Flow::ZERO }];
    for i in 0..20 {
        insert(&mut publisher, &packet(1, i, 0), &masks[0], i);
        insert(&mut publisher, &packet(1, 0, 1000 + i as u16), &masks[1], 100 + i);
    }
    let flows: Vec<Flow> = (0..50).map(|i| packet(1, i * 7 % 40, 990 + i as u16)).collect();
    let keys: Vec<Key> = flows.iter().map(Key::from_flow).collect();
    let lines: Vec<_> = keys.iter().map(|k| k.line).collect();
    let mut reader = table.reader();
    let guard = reader.enter();
    let port_megaflows = table.port_megaflows(1).unwrap();
    let (mut pending, mut found) = ((1u64 << 50) - 1, [u32::MAX; 64]);
    port_megaflows.lookup_batch(
        &guard,
        (&lines, Rests::NONE, Depth::L4),
        &mut pending,
        |_, hits, indices| super::bits(hits).for_each(|i| found[i] = indices[i]),
    );
    for (i, key) in keys.iter().enumerate() {
        let (one, _) = port_megaflows.lookup(&guard, key);
        assert_eq!(one.is_none(), pending >> i & 1 == 1);
        assert_eq!(one.unwrap_or(u32::MAX), found[i]);
    }
    drop(guard);
    publisher.rank();
    assert_eq!(lookup(&table, &packet(1, 3, 5)), Some(3));
}

/// A learning switch with 2^15 stations whose addresses collide under any CRC: they are found as fast as others.
#[test]
fn chosen_addresses_make_no_chains() {
    let station = Flow { dl_src: Mac([255; 6]), dl_dst: Mac([255; 6]), dl_type: u16::MAX, ..Flow::ZERO };
    let chains = |macs: &[u64], seed: u64| {
        let (table, mut publisher) = MegaflowTable::new(40_000, 64, seed);
        for &mac in macs {
            let key = Flow { in_port: 1, dl_type: 0x800, dl_src: Mac::from_u64(mac), ..Flow::ZERO };
            assert!(matches!(insert(&mut publisher, &key, &station, 0), InsertResult::New(_)));
        }
        table.probes()
    };
    let chosen = cpu::adversary::colliding_macs(15);
    for seed in [1, 2, 3] {
        let probes = chains(&chosen, seed);
        // Linear probing at a load of a quarter to a half: 1.2 to 1.5 slots on average, some dozens at most.
        assert_eq!(probes.megaflows, 1 << 15);
        assert!(probes.mean() < 1.6 && probes.longest < 60, "{probes:?}");
    }
}

/// Words after the line are hashed as well: IPv6 addresses that differ in either half.
#[test]
fn wide_keys_make_no_chains() {
    let both = Flow { ipv6_src: [255; 16], ipv6_dst: [255; 16], dl_type: u16::MAX, ..Flow::ZERO };
    let address = |high: u64, low: u64| (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
    let ways: [fn(u64) -> [u64; 4]; 4] =
        [|i| [i, 0, 0, 0], |i| [i, i, i, i], |i| [0, i << 32, i, 0], |i| [i << 48, 0, 0, i]];
    for way in ways {
        let (table, mut publisher) = MegaflowTable::new(10_000, 64, 5);
        for i in 0..1 << 13 {
            let [a, b, c, d] = way(i);
            let (ipv6_src, ipv6_dst) = (address(a, b), address(c, d));
            let key = Flow { in_port: 1, dl_type: 0x86dd, ipv6_src, ipv6_dst, ..Flow::ZERO };
            assert!(matches!(insert(&mut publisher, &key, &both, 0), InsertResult::New(_)));
        }
        let probes = table.probes();
        assert!(probes.mean() < 1.6 && probes.longest < 60, "{probes:?}");
    }
}

proptest! {
    #[test]
    fn keys_keep_every_field_they_have(words in prop::collection::vec(any::<u64>(), flow::FLOW_WORDS)) {
        let mut f = Flow::ZERO;
        f.words_mut().copy_from_slice(&words);
        f.in_port &= 0xffff;
        f.packet_type = 0;
        (f.metadata, f.regs, f.conj_id, f.actset_output, f.pad) = (0, [0; flow::flow::REGS], 0, 0, [0; 6]);
        prop_assert_eq!(flow_of(&line_of(&f), &ext_of(&f)), Flow { tlv: flow::Tlv::NONE, ..f });
        f.dl_src = Mac::BROADCAST;
        prop_assert_eq!(Key::from_flow(&f).to_flow(), f);
    }

    /// Options distinguish packets as far as the mask matches them, including packets without options.
    #[test]
    fn options_are_matched(
        word in 0..6usize,
        bits in prop::sample::select(vec![0u64, 0xff, u64::MAX]),
        values in prop::collection::vec(0..3u64, 1..8),
    ) {
        let with = |value: u64| {
            let mut f = packet(1, 10, 80);
            if value != 0 {
                f.tlv.present = 8;
                f.tlv.data[8 * word..8 * word + 8].copy_from_slice(&(value * 0x0101).to_ne_bytes());
            }
            f
        };
        let mut mask = Flow { nw_src: u32::MAX, ..Flow::ZERO };
        mask.tlv.data[8 * word..8 * word + 8].copy_from_slice(&bits.to_ne_bytes());
        let (table, mut publisher) = MegaflowTable::new(1000, 64, 7);
        let mut list = Vec::new();
        for &value in &values {
            if let InsertResult::New(index) = insert(&mut publisher, &with(value), &mask, value as u32) {
                list.push((index, with(value)));
            }
        }
        for value in 0..3 {
            let expected = list.iter().any(|(_, key)| with(value).equal_under(key, &mask));
            prop_assert_eq!(lookup(&table, &with(value)).is_some(), expected);
        }
        for (index, key) in list {
            prop_assert!(publisher.remove(index));
            prop_assert_eq!(lookup(&table, &key), None);
        }
    }

    /// Compares the table with a list that is searched linearly.
    #[test]
    fn as_a_linear_scan(
        flows in prop::collection::vec((0..3u32, 0..4u32, 0..4u16, 0..4usize), 1..60),
        probes in prop::collection::vec((0..3u32, 0..4u32, 0..4u16), 1..60),
        removed in prop::collection::vec(any::<bool>(), 60),
    ) {
        let masks = [
            Flow::ZERO,
            Flow { nw_src: u32::MAX, ..Flow::ZERO },
            Flow { tp_dst: u16::MAX, ..Flow::ZERO },
            Flow { nw_src: u32::MAX, tp_dst: u16::MAX, ipv6_label: u32::MAX, ..Flow::ZERO },
        ];
        let (table, mut publisher) = MegaflowTable::new(1000, 64, 7);
        let mut list = Vec::new();
        for ((port, src, dst, mask), removed) in flows.into_iter().zip(removed) {
            let key = packet(port, src, dst);
            let mask = Flow { in_port: u32::MAX, ..masks[mask] };
            if let InsertResult::New(index) = insert(&mut publisher, &key, &mask, 0) {
                if removed {
                    prop_assert!(publisher.remove(index));
                } else {
                    list.push((key, mask));
                }
            }
            publisher.reclaim(|_| ());
        }
        for (port, src, dst) in probes {
            let flow = packet(port, src, dst);
            let expected = list.iter().any(|(key, mask)| flow.equal_under(key, mask));
            prop_assert_eq!(lookup(&table, &flow).is_some(), expected);
            let port_megaflows = table.port_megaflows(port);
            let mut reader = table.reader();
            let naive = port_megaflows.and_then(|c| c.find_naively(&reader.enter(), &Key::from_flow(&flow)));
            prop_assert_eq!(naive.is_some(), expected);
        }
    }
}
