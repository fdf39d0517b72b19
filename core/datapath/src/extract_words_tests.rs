//! Extraction of some words of a key, compared with extraction of the complete key.

use crate::batch::Batch;
use crate::packet::{Meta, Rare};
use crate::path::extract::{read, wide_key};
use crate::port::FramePool;
use classifier::megaflow::{ALL_WORDS, Depth, EXT_WORDS};
use flow::compose::compose;
use flow::{Flow, Mac, Tunnel, Vlan};
use packet::hex;
use proptest::prelude::*;

/// Frames of every header that fills words of its own, without the Ethernet addresses.
const FRAMES: [&str; 12] = [
    // ARP, neighbour discovery with an option, IGMP.
    "0806 0001080006040001 0a0000000001 0a000001 0a0000000002 0a000002",
    "86dd 60012345 0020 3aff fe800000000000000000000000000001 ff020000000000000000000000000002 \
     87000000 00000000 fe800000000000000000000000000002 0101 0a0000000001",
    "0800 4500001c00000000 0102 0000 0a000001 e0000001 1600 0000 e0000001",
    // MPLS of one and of three labels, NSH.
    "8847 00001140 4500001c00000000 4011 0000 0a000001 0a000002 0001 0002 0008 0000",
    "8848 00001040 00002040 00003140 4500",
    "894f 0fc6 01 01 123456ff 00000001 00000002 00000003 00000004 4500",
    // IPv6: UDP, with extension headers, a later fragment, a truncated extension header, a wrong length.
    "86dd 60500007 0008 1140 20010db8000000000000000000000001 20010db8000000000000000000000002 0035 1000 0008 0000",
    "86dd 60500007 0010 0040 20010db8000000000000000000000001 20010db8000000000000000000000002 \
     1100000000000000 0035 1000 0008 0000",
    "86dd 60500007 0010 2c40 20010db8000000000000000000000001 20010db8000000000000000000000002 \
     1100000800000001 0035 1000 0008 0000",
    "86dd 60500007 0008 0040 20010db8000000000000000000000001 20010db8000000000000000000000002 1109000000000000",
    "86dd 60500007 0900 1140 20010db8000000000000000000000001 20010db8000000000000000000000002 0035 1000 0008 0000",
    "0800 4500001c00000000 4011 0000 0a000001 0a000002 0035 1000 0008 0000",
];

fn frame(which: usize, tags: &[u16], noise: &[(usize, u8)], cut: usize) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for (i, tag) in tags.iter().enumerate() {
        bytes.extend(if i == 0 { [0x88, 0xa8] } else { [0x81, 0] });
        bytes.extend(tag.to_be_bytes());
    }
    bytes.extend(hex::parse(FRAMES[which]).unwrap());
    for &(at, value) in noise {
        if let Some(byte) = bytes.get_mut(at) {
            *byte = value;
        }
    }
    bytes.truncate(bytes.len().saturating_sub(cut).max(14));
    bytes
}

/// Fills the requested words of a batch that contains old values. They must equal those of the complete key. `own`: for
/// a recirculated packet.
fn check(bytes: &[u8], meta: &Meta, words: u64, own: bool) -> Result<(), TestCaseError> {
    let mut batch = Batch { common: meta.clone(), ..Batch::default() };
    batch.widen();
    batch.exts.iter_mut().flatten().for_each(|word| *word = 0x1234_5678_9abc_def1);
    let mut pool = FramePool::new(8);
    for bytes in [bytes, &frame(6, &[], &[], 0), &frame(4, &[5], &[], 0), bytes] {
        batch.frames.extend(pool.frame_of(bytes));
        batch.own.extend(own.then(|| meta.clone()));
    }
    read(&mut batch, Depth::Wide, words);
    let (key, tcp_flags) = wide_key(bytes, meta);
    for i in [0, 3] {
        prop_assert_eq!((batch.lines[i], batch.tcp_flags[i]), (key.line, tcp_flags));
        let (rest, whole) = (batch.rests().of(i), key.rest());
        prop_assert_eq!(rest.filled, words);
        for at in (0..65u8).filter(|at| words >> usize::from(*at).min(EXT_WORDS) & 1 == 1) {
            prop_assert_eq!(rest.word(at), whole.word(at), "word {} of {:02x?}", at, bytes);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn some_words_are_those_of_the_whole_key(
        which in 0..FRAMES.len(),
        tags in prop::collection::vec(any::<u16>(), 0..4),
        noise in prop::collection::vec((12..90usize, any::<u8>()), 0..3),
        cut in prop_oneof![Just(0usize), 0..60usize],
        words in prop_oneof![Just(ALL_WORDS), Just(0b110), any::<u64>().prop_map(|w| w & ALL_WORDS)],
        (limit, rare, skb_priority, own) in (0..3u8, any::<bool>(), 0..2u32, any::<bool>()),
    ) {
        let tunnel = Tunnel { tun_id: 77, ..Tunnel::default() };
        let rare = rare.then(|| Box::new(Rare { tunnel, ct_label: [1, 2], ..Rare::default() }));
        let meta = Meta { vlan_limit: limit, rare, skb_priority, ct_state: 1, ..Meta::received(1) };
        check(&frame(which, &tags, &noise, cut), &meta, words, own)?;
    }
}

/// Packets do not match megaflows by words that were not parsed.
#[test]
fn a_batch_after_another_keeps_none_of_its_words() {
    let six = Flow { dl_type: 0x86dd, nw_proto: 17, ipv6_src: [9; 16], dl_src: Mac([2; 6]), ..Flow::ZERO };
    let tagged = Flow { vlans: [Vlan { tpid: 0x8100, tci: 0x1005 }, Vlan::default()], ..six };
    let four = Flow { dl_type: 0x0800, nw_proto: 17, nw_src: 1, ..Flow::ZERO };
    let mut batch = Batch { common: Meta::received(1), ..Batch::default() };
    let mut pool = FramePool::new(8);
    for flows in [[six, tagged], [four, six], [tagged, four]] {
        batch.frames.clear();
        flows.iter().for_each(|f| batch.frames.extend(pool.frame_of(&compose(f, b"data"))));
        read(&mut batch, Depth::Wide, 0b11110);
        for (i, flow) in flows.iter().enumerate() {
            let (key, _) = wide_key(&compose(flow, b"data"), &batch.common);
            let words = [1, 2, 3, 4].map(|word| batch.exts[word][i]);
            assert_eq!((batch.lines[i], &words[..]), (key.line, &key.ext[1..5]));
        }
    }
}
