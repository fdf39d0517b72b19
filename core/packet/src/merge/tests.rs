//! Merging, and that segmentation restores the segments.

use super::*;
use proptest::prelude::*;

/// The header fields of a TCP segment. `df`: the "don't fragment" flag of IPv4.
#[derive(Clone, Debug)]
struct Spec {
    v6: bool,
    port: u16,
    sequence: u32,
    payload: usize,
    flags: u8,
    id: u16,
    df: bool,
    ttl: u8,
    options: bool,
}

const SPEC: Spec = Spec {
    v6: false,
    port: 1,
    sequence: 1000,
    payload: 1000,
    flags: ACK,
    id: 1,
    df: true,
    ttl: 64,
    options: false,
};

fn bytes(s: &Spec) -> Vec<u8> {
    let tcp = if s.options { 32 } else { 20 };
    let len = tcp + s.payload;
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    if s.v6 {
        f.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        f.extend((len as u16).to_be_bytes());
        f.extend([6, s.ttl]);
        f.extend([0xfd; 32]);
    } else {
        f.extend([8, 0, 0x45, 0]);
        f.extend((20 + len as u16).to_be_bytes());
        f.extend(s.id.to_be_bytes());
        f.extend([if s.df { DONT_FRAGMENT } else { 0 }, 0, s.ttl, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    }
    f.extend(s.port.to_be_bytes());
    f.extend([4, 0]);
    f.extend(s.sequence.to_be_bytes());
    f.extend([0, 0, 0, 9, (tcp as u8) << 2, s.flags, 1, 0, 0, 0, 0, 0]);
    f.resize(f.len() + tcp - 20, 1);
    f.extend((0..s.payload).map(|i| (i as u32).wrapping_add(s.sequence) as u8));
    let l = segment::layout(&f).unwrap();
    segment::set_ip_length(&mut f, &l).unwrap();
    let (start, offset) = segment::make_partial_checksum(&mut f).unwrap();
    segment::finish_checksum(&mut f, start, offset).unwrap();
    f
}

fn merged(packets: &[Vec<u8>]) -> Vec<Frame> {
    let mut pool = FramePool::new(4);
    let mut frames: FrameBatch = packets.iter().map(|p| pool.frame_of(p).unwrap()).collect();
    let fewer = merge(&mut frames, &mut pool);
    assert_eq!(frames.len() + fewer, packets.len());
    frames
}

fn lengths(packets: &[Spec]) -> Vec<usize> {
    merged(&packets.iter().map(bytes).collect::<Vec<_>>()).iter().map(|f| f.len() - 54).collect()
}

fn following(n: u32) -> Spec {
    Spec { sequence: 1000 + 1000 * n, id: 1 + n as u16, ..SPEC }
}

#[test]
fn segments_of_a_connection_become_one() {
    let frames = merged(&[0, 1, 2, 3].map(|n| bytes(&following(n))));
    let gso = frames[0].offload().gso.unwrap();
    assert_eq!(
        (frames.len(), frames[0].len(), gso.size, gso.kind),
        (1, 54 + 4000, 1000, crate::offload::GsoKind::Tcp4)
    );
}

#[test]
fn a_short_or_last_segment_ends_a_run() {
    let short = Spec { payload: 300, ..following(1) };
    let behind = Spec { sequence: 2300, id: 3, ..SPEC };
    assert_eq!(lengths(&[SPEC, short, behind]), [1300, 1000]);
    let pushed = Spec { flags: ACK | PSH, ..following(1) };
    assert_eq!(lengths(&[SPEC, pushed.clone(), following(2), following(3)]), [2000, 2000]);
    let whole = merged(&[bytes(&SPEC), bytes(&pushed)]);
    assert_eq!(whole[0].bytes()[47], ACK | PSH);
    // A segment that is longer than the first cannot come from the same frame.
    assert_eq!(lengths(&[SPEC, Spec { payload: 1001, ..following(1) }]), [1000, 1001]);
}

#[test]
fn what_differs_stays_apart() {
    let others = [
        Spec { ttl: 63, ..following(1) },
        Spec { options: true, ..following(1) },
        Spec { sequence: 2001, ..following(1) },
        Spec { flags: ACK | 0x80, ..following(1) },
        Spec { flags: ACK | ECE, ..following(1) },
        Spec { flags: ACK | 4, ..following(1) },
        Spec { payload: 10, ..following(1) },
        Spec { df: false, ..following(1) },
    ];
    for other in others {
        assert_eq!(lengths(&[SPEC, other.clone()]).len(), 2, "{other:?}");
    }
    let may_be_cut = |n, id| Spec { df: false, id, ..following(n) };
    assert_eq!(lengths(&[may_be_cut(0, 7), may_be_cut(1, 8)]).len(), 1);
    assert_eq!(lengths(&[may_be_cut(0, 7), may_be_cut(1, 9)]).len(), 2);
}

#[test]
fn a_wrong_checksum_is_not_hidden() {
    const IP_CHECKSUM: usize = 24;
    for (broken, at) in [(0, 100), (1, 100), (0, IP_CHECKSUM), (1, IP_CHECKSUM)] {
        let mut packets = [0, 1].map(|n| bytes(&following(n)));
        packets[broken][at] ^= 1;
        assert_eq!(merged(&packets).len(), 2);
    }
}

#[test]
fn nothing_overtakes_within_a_connection() {
    let acknowledgement = Spec { payload: 0, ..following(1) };
    assert_eq!(lengths(&[SPEC, acknowledgement, following(1), following(2)]), [1000, 0, 2000]);
    let mut fragment = bytes(&following(1));
    fragment[20] = 0x20;
    let frames = merged(&[bytes(&SPEC), fragment, bytes(&following(1))]);
    assert_eq!(frames.len(), 3);
}

#[test]
fn no_frame_is_longer_than_a_packet_may_be() {
    let specs: Vec<Spec> = (0..70).map(following).collect();
    assert_eq!(lengths(&specs), [65_000, 5000]);
}

fn stream() -> impl Strategy<Value = Vec<Spec>> {
    let step = (0..3u16, 0..8u8, prop::sample::select(vec![0, 100, 700, 700, 700, 701]), any::<bool>());
    (any::<bool>(), prop::collection::vec(step, 1..40)).prop_map(|(v6, steps)| {
        let mut state = [(0u32.wrapping_sub(2000), 65_530u16); 3];
        let spec = |(port, odd, payload, options): (u16, u8, usize, bool)| {
            let (sequence, id) = &mut state[usize::from(port)];
            let flags = ACK | if odd == 1 { PSH } else { 0 } | if odd == 2 { 2 } else { 0 };
            let options = options && odd == 3;
            let spec =
                Spec { v6, port, sequence: *sequence, payload, flags, id: *id, df: false, ttl: 9, options };
            *sequence = sequence.wrapping_add(payload as u32 + u32::from(odd == 4));
            *id = id.wrapping_add(1 + u16::from(odd == 5));
            spec
        };
        steps.into_iter().map(spec).collect()
    })
}

proptest! {
    /// After segmentation, each connection has its packets in their order.
    #[test]
    fn cutting_gives_back_what_was_merged(specs in stream()) {
        let packets: Vec<Vec<u8>> = specs.iter().map(bytes).collect();
        let mut out: Vec<Vec<u8>> = Vec::new();
        for mut frame in merged(&packets) {
            let note = frame.offload();
            prop_assert!(note.fits(frame.bytes()));
            note.finish(frame.bytes_mut(), |p| out.push(p.to_vec())).unwrap();
        }
        let port = if specs[0].v6 { 54..56 } else { 34..36 };
        for connection in 0..3u16 {
            let of = |all: &[Vec<u8>]| -> Vec<Vec<u8>> {
                all.iter().filter(|p| p[port.clone()] == connection.to_be_bytes()).cloned().collect()
            };
            prop_assert_eq!(of(&out), of(&packets));
        }
    }

    /// No input makes `merge` panic.
    #[test]
    fn any_bytes_are_taken(
        packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 0..6),
        cuts in prop::collection::vec((0..1200usize, 0..1100usize, any::<u8>()), 0..6),
    ) {
        merged(&packets);
        let mut known: Vec<Vec<u8>> = (0..6).map(|n| bytes(&following(n))).collect();
        for (i, (len, at, value)) in cuts.into_iter().enumerate() {
            known[i][at.min(1053)] = value;
            known[i].truncate(len);
        }
        merged(&known);
    }
}
