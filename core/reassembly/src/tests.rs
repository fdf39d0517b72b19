//! Fragmented and reassembled datagrams, the table against a reference implementation, and floods.

mod floods;
mod reference;

use crate::*;
use packet::checksum::checksum;
use proptest::prelude::*;
use units::Millis;

/// What the tests store with a fragment: the packet from its network header on.
type PacketBytes = Vec<u8>;

/// A datagram: version, identification, last byte of its addresses, payload.
#[derive(Clone, Debug)]
struct TestDatagram {
    v6: bool,
    id: u32,
    src: u8,
    dst: u8,
    payload: Vec<u8>,
}

impl TestDatagram {
    /// The packet with the bytes `start..end` of the payload.
    fn part(&self, start: usize, end: usize, more: bool) -> Vec<u8> {
        let payload = &self.payload[start..end];
        match self.v6 {
            false => self.v4(start, more, payload),
            true => self.v6(start, more, payload),
        }
    }

    fn v4(&self, start: usize, more: bool, payload: &[u8]) -> Vec<u8> {
        let len = (20 + payload.len()) as u16;
        let field = (start / 8) as u16 | u16::from(more) << 13;
        let mut l3 = vec![0x45, 0];
        for word in [len, self.id as u16, field] {
            l3.extend(word.to_be_bytes());
        }
        l3.extend([64, 17, 0, 0, 10, 0, 0, self.src, 10, 0, 0, self.dst]);
        let sum = checksum(&l3);
        l3[10..12].copy_from_slice(&sum.to_be_bytes());
        l3.extend(payload);
        l3
    }

    /// An IPv6 fragment with a header of destination options in front of the fragment header.
    fn v6(&self, start: usize, more: bool, payload: &[u8]) -> Vec<u8> {
        let mut l3 = vec![0x60, 0, 0, 0];
        l3.extend(((16 + payload.len()) as u16).to_be_bytes());
        l3.extend([60, 64]);
        for last in [self.src, self.dst] {
            l3.extend([0xfd; 15]);
            l3.push(last);
        }
        l3.extend([44, 0, 1, 4, 0, 0, 0, 0, 17, 0]);
        l3.extend((start as u16 | u16::from(more)).to_be_bytes());
        l3.extend(self.id.to_be_bytes());
        l3.extend(payload);
        l3
    }

    fn dl_type(&self) -> u16 {
        if self.v6 { 0x86dd } else { 0x0800 }
    }
}

fn datagram(v6: bool, id: u32, len: usize) -> TestDatagram {
    let payload = (0..len).map(|i| (i * 7 + i / 251 + id as usize) as u8).collect();
    TestDatagram { v6, id, src: 1, dst: 2, payload }
}

/// A table that accepts small fragments.
fn small() -> Reassembly<PacketBytes> {
    let all = Reassembly::new(5);
    assert!(all.set_min_size(Family::V4, 400) && all.set_min_size(Family::V6, 400));
    all
}

fn put(
    all: &Reassembly<PacketBytes>,
    dl_type: u16,
    l3: PacketBytes,
    port: u32,
    now: u64,
) -> AddResult<PacketBytes> {
    let fragment = all.read(dl_type, &l3).expect("a fragment");
    let origin = Origin { port, memory: l3.len() as u32, l3_offset: 14, ..Origin::default() };
    all.add(&fragment, &origin, l3, Millis(now), &mut Vec::new())
}

/// The datagram, from its network header on.
fn bytes(datagram: &Datagram<PacketBytes>) -> Vec<u8> {
    let mut out = vec![0xee; datagram.len()];
    datagram.write(&mut out, |l3| l3).expect("fits");
    out
}

/// Offsets at which a payload is cut: multiples of eight, so that only the last part may be smaller than
/// `least`.
fn cuts(len: usize, least: usize, steps: &[usize]) -> Vec<usize> {
    let mut at = vec![0];
    for step in steps.iter().cycle() {
        let next = at.last().unwrap_or(&0) + (least + step * 8).next_multiple_of(8);
        if next >= len {
            break;
        }
        at.push(next);
    }
    at.push(len);
    at
}

proptest! {
    #[test]
    fn fragments_in_any_order_make_the_datagram(
        v6: bool, len in 1000usize..60_000, steps in prop::collection::vec(0usize..200, 1..8), order: u64,
        again in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let all = small();
        let whole = datagram(v6, order as u32, len);
        let at = cuts(len, 400, &steps);
        let mut parts: Vec<(usize, usize)> = at.windows(2).map(|w| (w[0], w[1])).collect();
        prop_assume!(parts.len() > 1);
        // A permutation that depends on `order` alone.
        parts.sort_by_key(|(start, _)| cpu::siphash([order, 0], &[*start as u64]));
        let last = parts.pop().unwrap();
        for &(start, end) in &parts {
            let result = put(&all, whole.dl_type(), whole.part(start, end, end < len), 1, 0);
            prop_assert!(matches!(result, AddResult::Stored), "{result:?}");
            all.audit();
        }
        for index in again {
            let &(start, end) = index.get(&parts);
            let result = put(&all, whole.dl_type(), whole.part(start, end, end < len), 1, 0);
            prop_assert!(matches!(result, AddResult::Refused(_)), "a duplicate");
        }
        let result = put(&all, whole.dl_type(), whole.part(last.0, last.1, last.1 < len), 1, 0);
        let AddResult::Complete(done) = result else { return Err(TestCaseError::fail(format!("{result:?}"))) };
        prop_assert_eq!(bytes(&done), whole.part(0, len, false));
        let starts: Vec<usize> = done.parts.iter().map(|p| p.range_in_datagram().start).collect();
        prop_assert!(starts.is_sorted());
        prop_assert_eq!(all.fragments(), 0);
        all.audit();
    }

    #[test]
    fn any_bytes_are_read(dl_type in prop::sample::select(vec![0x0800u16, 0x86dd, 0x0806]), l3: Vec<u8>) {
        if let PacketKind::Fragment(f) = read(dl_type, &l3) {
            prop_assert!(f.size() as usize <= l3.len() && f.end() <= 65_535);
            prop_assert!(may_be_fragment(dl_type, &l3));
        }
    }
}

#[test]
fn what_is_no_fragment_is_not_taken_for_one() {
    let v4 = datagram(false, 1, 500).part(0, 500, false);
    let v6 = datagram(true, 1, 500).part(0, 500, false);
    assert!(!may_be_fragment(0x0800, &v4) && !may_be_fragment(0x0806, &v6));
    // An atomic fragment of IPv6 is a complete datagram.
    assert_eq!((read(0x0800, &v4), read(0x86dd, &v6)), (PacketKind::NotFragment, PacketKind::NotFragment));
    // The bits "do not fragment" and "reserved" do not make a fragment.
    let mut df = v4.clone();
    df[6] = 0xc0;
    assert!(!may_be_fragment(0x0800, &df));
    assert!(
        may_be_fragment(0x86dd, &v6) && may_be_fragment(0x0800, &datagram(false, 1, 500).part(0, 8, true))
    );
    assert!(!may_be_fragment(0x0800, &[0; 7]) && !may_be_fragment(0x86dd, &[0; 6]));
}

#[test]
fn impossible_fragments_are_malformed() {
    let whole = datagram(false, 1, 65_515);
    let wrong = |l3: &[u8]| assert_eq!(read(0x0800, l3), PacketKind::Malformed);
    wrong(&whole.part(0, 12, true));
    wrong(&whole.part(0, 0, true));
    let mut sum = whole.part(0, 16, true);
    sum[10] ^= 1;
    wrong(&sum);
    wrong(&whole.part(0, 16, true)[..30]);
    // The last possible offset, and payload that exceeds the longest datagram.
    let mut far = datagram(false, 1, 65_528 + 16).v4(65_528, false, &[0; 16]);
    wrong(&far);
    far.truncate(20);
    far[2..4].copy_from_slice(&27u16.to_be_bytes());
    far.extend([0; 7]);
    far[10..12].fill(0);
    let sum = checksum(&far[..20]);
    far[10..12].copy_from_slice(&sum.to_be_bytes());
    assert!(matches!(read(0x0800, &far), PacketKind::Fragment(_)));
    let v6 = datagram(true, 1, 64).part(8, 48, true);
    assert!(matches!(read(0x86dd, &v6), PacketKind::Fragment(f) if f.start == 8 && f.len == 40 && f.more));
    for len in 0..v6.len() {
        assert_eq!(read(0x86dd, &v6[..len]), PacketKind::Malformed);
    }
}

#[test]
fn small_fragments_are_refused_unless_they_are_the_last() {
    let all = Reassembly::<PacketBytes>::new(1);
    let whole = datagram(false, 1, 3000);
    assert_eq!(all.read(0x0800, &whole.part(0, 1176, true)), None);
    assert!(all.read(0x0800, &whole.part(0, 1184, true)).is_some());
    assert!(all.read(0x0800, &whole.part(2992, 3000, false)).is_some());
    assert_eq!(all.status().v4.counts.too_small, 1);
    assert!(!all.set_min_size(Family::V4, 399) && all.set_min_size(Family::V4, 1000));
    assert!(all.read(0x0800, &whole.part(0, 1176, true)).is_some());
    all.set_enabled(Family::V4, false);
    assert_eq!(all.read(0x0800, &whole.part(0, 1184, true)), None);
    let v6 = datagram(true, 1, 3000);
    assert!(all.read(0x86dd, &v6.part(0, 1232, true)).is_some());
    assert_eq!(all.read(0x86dd, &v6.part(0, 1216, true)), None);
    let status = all.status();
    assert_eq!((status.v4.enabled, status.v6.enabled, status.v4.min_size), (false, true, 1000));
}

#[test]
fn datagrams_of_different_passes_zones_and_sources_do_not_mix() {
    let all = small();
    let whole = datagram(false, 9, 1600);
    let l3 = whole.part(0, 800, true);
    let fragment = all.read(0x0800, &l3).unwrap();
    let at = |zone, recirc_id| Origin { zone, recirc_id, ..Origin::default() };
    for origin in [at(0, 0), at(1, 0), at(0, 1)] {
        let result = all.add(&fragment, &origin, l3.clone(), Millis(0), &mut Vec::new());
        assert!(matches!(result, AddResult::Stored));
    }
    put(&all, 0x0800, TestDatagram { src: 3, ..whole.clone() }.part(0, 800, true), 0, 0);
    put(&all, 0x0800, TestDatagram { id: 10, ..whole.clone() }.part(0, 800, true), 0, 0);
    assert_eq!((all.fragments(), all.dump().len()), (5, 5));
    // Two ports may receive fragments of one datagram: they may be members of one bond.
    assert!(matches!(put(&all, 0x0800, whole.part(800, 1600, false), 7, 0), AddResult::Complete(_)));
}

#[test]
fn an_end_that_contradicts_is_an_overlap() {
    let all = small();
    let whole = datagram(false, 1, 4000);
    let refused = |l3: PacketBytes| assert!(matches!(put(&all, 0x0800, l3, 1, 0), AddResult::Refused(_)));
    put(&all, 0x0800, whole.part(1600, 2000, false), 1, 0);
    refused(whole.part(2000, 2400, true));
    refused(whole.part(2400, 2800, false));
    refused(whole.part(800, 1200, false));
    // A fragment that encloses another one, and fragments that begin or end within another one.
    refused(whole.part(1200, 2400, true));
    refused(whole.part(1600, 2000, false));
    refused(whole.part(1200, 1608, true));
    assert_eq!(all.status().v4.counts.overlapped, 6);
    // Fragments without payload: refused within another one, accepted beside it.
    refused(whole.part(1800, 1800, false));
    assert!(matches!(put(&all, 0x0800, whole.part(2000, 2000, false), 1, 0), AddResult::Stored));
    assert!(matches!(put(&all, 0x0800, whole.part(0, 1600, true), 1, 0), AddResult::Complete(_)));
}

#[test]
fn late_datagrams_expire_or_are_purged() {
    let all = small();
    let whole = datagram(false, 1, 1600);
    put(&all, 0x0800, whole.part(0, 800, true), 1, 1000);
    let other = TestDatagram { id: 2, ..whole.clone() };
    let mut removed = Vec::new();
    let late = |now: u64, l3: PacketBytes, removed: &mut Vec<Removed<PacketBytes>>| {
        let fragment = all.read(0x0800, &l3).unwrap();
        all.add(&fragment, &Origin::default(), l3, Millis(now), removed)
    };
    late(16_000, other.part(0, 800, true), &mut removed);
    assert_eq!((removed.len(), all.fragments()), (0, 2));
    // The rest of the first datagram arrives too late: it begins another datagram.
    assert!(matches!(late(16_001, whole.part(800, 1600, false), &mut removed), AddResult::Stored));
    assert_eq!((removed.len(), removed[0].why, all.fragments()), (1, Removal::Expired, 2));
    assert_eq!(all.purge(Millis(40_999)).len(), 0);
    let purged = all.purge(Millis(41_000));
    assert_eq!((purged.len(), purged[0].why, all.purge(Millis(41_001)).len()), (1, Removal::Purged, 1));
    let counts = all.status().v4.counts;
    assert_eq!((counts.accepted, counts.expired, counts.purged), (3, 1, 2));
    all.audit();
}

#[test]
fn too_long_a_datagram_is_shown_once() {
    let all = small();
    // The datagram has the maximum length, but with its Ethernet header it exceeds the maximum.
    let whole = datagram(false, 1, 65_515);
    put(&all, 0x0800, whole.part(0, 40_000, true), 1, 0);
    let AddResult::TooLong(long) = put(&all, 0x0800, whole.part(40_000, 65_515, false), 1, 0) else {
        panic!()
    };
    all.note_oversize(&long, &long.parts[0].content);
    let shown = all.take_oversize().unwrap();
    assert_eq!((shown.v6, shown.head.len(), all.take_oversize()), (false, 128, None));
    assert_eq!((all.fragments(), all.status().v4.counts.purged), (0, 2));
}

#[test]
fn write_back_changes_every_fragment() {
    for v6 in [false, true] {
        let all = small();
        let (before, mut after) =
            (datagram(v6, 3, 2000), TestDatagram { src: 77, dst: 78, ..datagram(v6, 3, 2000) });
        after.payload[..8].fill(9);
        let cuts = [(0, 800, true), (800, 1600, true), (1600, 2000, false)];
        for (start, end, more) in &cuts[..2] {
            put(&all, before.dl_type(), before.part(*start, *end, *more), 1, 0);
        }
        let last = before.part(1600, 2000, false);
        let AddResult::Complete(mut done) = put(&all, before.dl_type(), last, 1, 0) else { panic!() };
        let whole = after.part(0, 2000, false);
        done.write_back(&whole, |l3| l3);
        for (part, (start, end, more)) in done.parts.iter().zip(cuts) {
            assert_eq!(part.content, after.part(start, end, more));
        }
        // A datagram of another length is not written.
        let shorter = before.part(0, 1992, false);
        done.write_back(&shorter, |l3| l3);
        assert_eq!(
            done.parts[0].content[if v6 { 56 } else { 20 }..],
            after.part(0, 800, true)[if v6 { 56 } else { 20 }..]
        );
    }
}

#[test]
fn lists_as_scripts_read_them() {
    let all = small();
    put(&all, 0x0800, datagram(false, 258, 1600).part(0, 800, true), 1, 0);
    put(&all, 0x86dd, datagram(true, 7, 1600).part(800, 1600, false), 1, 0);
    let lines: Vec<String> = all.dump().iter().map(ToString::to_string).collect();
    let v6 = "fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fd0";
    assert_eq!(lines, [
        "(src=10.0.0.1,dst=10.0.0.2,recirc_id=0,ip_id=258,dl_type=0x800,zone=0,nw_proto=17,num_fragments=1,state=first frag)"
            .to_owned(),
        format!(
            "(src={v6}1,dst={v6}2,recirc_id=0,ip_id=7,dl_type=0x86dd,zone=0,nw_proto=0,num_fragments=1,state=last frag)"
        ),
    ]);
    put(&all, 0x86dd, datagram(true, 8, 4000).part(800, 1600, true), 1, 0);
    put(&all, 0x0800, datagram(false, 258, 4000).part(3000, 4000, false), 1, 0);
    let states: Vec<String> = all.dump().iter().map(|e| e.to_string()).collect();
    assert!(states[0].ends_with("num_fragments=2,state=first/last frag)"), "{states:?}");
    assert!(states[2].ends_with("state=other frag)"), "{states:?}");
}

#[test]
fn two_threads_complete_each_datagram_once() {
    const DATAGRAMS: u32 = 2000;
    let all = small();
    let completed: usize = std::thread::scope(|scope| {
        let half = |which: usize| {
            let all = &all;
            move || {
                let mut completed = 0;
                for id in 0..DATAGRAMS {
                    let whole = datagram(false, id, 1600);
                    let l3 = [whole.part(0, 800, true), whole.part(800, 1600, false)][which].clone();
                    if let AddResult::Complete(done) = put(all, 0x0800, l3, which as u32, 0) {
                        assert_eq!(bytes(&done), whole.part(0, 1600, false));
                        completed += 1;
                    }
                }
                completed
            }
        };
        let threads = [scope.spawn(half(0)), scope.spawn(half(1))];
        threads.into_iter().map(|t| t.join().expect("no panic")).sum()
    });
    all.audit();
    // One thread may be so far ahead that its fragments are evicted.
    let counts = all.status().v4.counts;
    assert_eq!(counts.completed, 2 * completed as u64);
    assert_eq!(counts.accepted, counts.completed + counts.purged + u64::from(all.fragments()));
    assert_eq!(counts.accepted, u64::from(2 * DATAGRAMS));
}
