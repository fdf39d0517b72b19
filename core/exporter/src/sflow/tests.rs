//! Reads datagrams word by word, as a collector does.

use super::*;
use crate::Now;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use units::Millis;

fn settings() -> Settings {
    let address = Ipv4Addr::LOCALHOST.into();
    Settings { address, number: 3, sampling: 400, polling: 5, header: 64 }
}

fn at(seconds: u64) -> Now {
    Now { mono: Millis(seconds * 1000), wall: (1_000_000 + seconds) * 1_000_000 }
}

fn plain(header: &[u8]) -> Sample<'_> {
    Sample {
        header,
        length: header.len() as u32,
        input: 7,
        output: Output::Interface(9),
        in_tci: 0x1005,
        out_tci: 0xf006,
        in_tunnel: None,
        out_tunnel: None,
        labels: Vec::new(),
    }
}

/// A sample in a datagram: its kind and its content.
type Raw = (u32, Vec<u8>);

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Splits `bytes` into pairs of kind and content.
fn records(mut bytes: &[u8]) -> Vec<Raw> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let len = word(bytes, 4) as usize;
        assert_eq!(len % 4, 0);
        all.push((word(bytes, 0), bytes[8..8 + len].to_vec()));
        bytes = &bytes[8 + len..];
    }
    all
}

/// Sequence number, uptime and samples of a datagram of an IPv4 agent.
fn parse(datagram: &[u8]) -> (u32, u32, Vec<Raw>) {
    assert!(datagram.len() <= super::datagram::DATAGRAM_MAX);
    assert_eq!((word(datagram, 0), word(datagram, 4), word(datagram, 12)), (5, 1, 3));
    let samples = records(&datagram[28..]);
    assert_eq!(word(datagram, 24) as usize, samples.len());
    (word(datagram, 16), word(datagram, 20), samples)
}

#[test]
fn a_sample_has_its_header_and_vlans() {
    let mut agent = Agent::new(settings(), at(0), 1);
    assert!(agent.sample(&plain(&[0xab; 100])));
    assert!(agent.take().is_empty());
    agent.flush();
    let [datagram] = &agent.take()[..] else { panic!("one datagram") };
    let (sequence, uptime, samples) = parse(datagram);
    assert_eq!((sequence, uptime, samples.len(), samples[0].0), (1, 0, 1, 1));
    let sample = &samples[0].1;
    let words: Vec<u32> = (0..8).map(|i| word(sample, i * 4)).collect();
    assert_eq!(words, [1, 2 << 24 | 1003, 400, 400, 0, 7, 9, 2]);
    let records = records(&sample[32..]);
    assert_eq!(records[0].0, 1001);
    assert_eq!((0..4).map(|i| word(&records[0].1, i * 4)).collect::<Vec<_>>(), [5, 0, 6, 7]);
    assert_eq!((records[1].0, records[1].1.len()), (1, 16 + 64));
    assert_eq!((0..4).map(|i| word(&records[1].1, i * 4)).collect::<Vec<_>>(), [1, 104, 4, 64]);
}

#[test]
fn outer_headers_and_labels_are_reported_for_a_single_output() {
    let outer = OuterHeader {
        protocol: 47,
        src: Ipv4Addr::new(1, 2, 3, 4),
        dst: Ipv4Addr::new(5, 6, 7, 8),
        src_port: 0,
        dst_port: 0,
        tos: 1,
        key: 456,
    };
    let both = |output| Sample {
        output,
        in_tunnel: Some(OuterHeader { key: 0, ..outer }),
        out_tunnel: Some(outer),
        labels: vec![0x1140, 0x2140],
        ..plain(b"x")
    };
    let kinds = |output| both(output).records(64).iter().map(|r| r.0).collect::<Vec<_>>();
    assert_eq!(kinds(Output::Ports(1)), [1001, 1, 1006, 1029, 1023, 1024]);
    assert_eq!(kinds(Output::Ports(2)), [1001, 1, 1024]);
    let records = both(Output::Interface(4)).records(64);
    assert_eq!((4..6).map(|i| word(&records[2].1, i * 4)).collect::<Vec<_>>(), [0x1040, 0x2140]);
    assert_eq!(records[4].1[8..12], [1, 2, 3, 4]);
}

#[test]
fn outputs_are_words_of_the_specification() {
    for (output, word) in
        [(Output::Interface(9), 9), (Output::Dropped, 0x4000_0100), (Output::Ports(3), 0x8000_0003)]
    {
        assert_eq!((output.word(), Output::of_word(word)), (word, output));
    }
}

#[test]
fn counters_are_due_at_the_polling_interval() {
    let mut agent = Agent::new(settings(), at(0), 7);
    agent.set_interfaces(&[11, 12]);
    let mut due: Vec<(u64, Source)> = Vec::new();
    for second in 1..=20 {
        due.extend(agent.tick(at(second)).into_iter().map(|source| (second, source)));
        assert_eq!(agent.tick(at(second)), []);
    }
    for source in [Source::Interface(11), Source::Interface(12), Source::Bridge(3)] {
        let times: Vec<u64> = due.iter().filter(|(_, s)| *s == source).map(|(t, _)| *t).collect();
        assert_eq!(times.len(), 4, "{source:?}");
        assert!(times[0] <= 5 && times.windows(2).all(|pair| pair[1] == pair[0] + 5), "{times:?}");
    }
    agent.set_interfaces(&[12]);
    assert!((21..30).flat_map(|s| agent.tick(at(s))).all(|source| source != Source::Interface(11)));
}

#[test]
fn records_have_the_lengths_of_the_specification() {
    let counters = [
        (CounterRecord::Interface(IfCounters::default()), 88),
        (CounterRecord::Ethernet(EthernetErrors { alignment: 1, fcs: 2, too_long: 3 }), 52),
        (CounterRecord::Lacp(LacpCounters::default()), 56),
        (CounterRecord::OpenFlowPort(1, 2), 12),
        (CounterRecord::Name("eth10".to_owned()), 12),
        (CounterRecord::Resources(Resources::default()), 40),
        (CounterRecord::Datapath(DatapathCounters::default()), 24),
    ];
    for (record, length) in &counters {
        assert_eq!(record.encode().1.len(), *length, "{record:?}");
    }
    let mut agent = Agent::new(settings(), at(0), 1);
    agent.set_interfaces(&[5]);
    let all: Vec<CounterRecord> = counters.into_iter().map(|(record, _)| record).collect();
    assert!(agent.counters(Source::Interface(5), &all) && agent.counters(Source::Interface(5), &all[..1]));
    // Interface 6 is not polled.
    assert!(agent.counters(Source::Interface(6), &all));
    agent.flush();
    let samples = parse(&agent.take()[0]).2;
    let numbers: Vec<_> = samples.iter().map(|(kind, s)| (*kind, word(s, 0), word(s, 4))).collect();
    assert_eq!(numbers, [(2, 1, 5), (2, 2, 5)]);
    assert_eq!(records(&samples[0].1[12..]).len(), 7);
}

#[test]
fn an_agent_may_have_an_ipv6_address() {
    let address = IpAddr::from(Ipv6Addr::LOCALHOST);
    let mut agent = Agent::new(Settings { address, ..settings() }, at(0), 1);
    agent.sample(&plain(b"x"));
    agent.flush();
    let datagram = agent.take().remove(0);
    assert_eq!((word(&datagram, 4), word(&datagram, 24), word(&datagram, 28)), (2, 3, 1));
}

proptest! {
    /// Every sample that fits arrives once, in order, in datagrams that do not exceed the maximum.
    #[test]
    fn all_samples_arrive_in_order(lengths in prop::collection::vec(0usize..1000, 1..40), header in 0u32..1000) {
        let mut agent = Agent::new(Settings { header, ..settings() }, at(0), 1);
        let bytes = [0x55; 1000];
        let mut expected = Vec::new();
        for (i, length) in lengths.iter().enumerate() {
            if agent.sample(&plain(&bytes[..*length])) {
                expected.push(i as u32 + 1);
            } else {
                prop_assert!((*length).min(header as usize) > 500);
            }
        }
        agent.flush();
        let datagrams = agent.take();
        let mut seen = Vec::new();
        for (i, datagram) in datagrams.iter().enumerate() {
            let (sequence, _, samples) = parse(datagram);
            prop_assert_eq!(sequence as usize, i + 1);
            seen.extend(samples.iter().map(|(_, sample)| word(sample, 0)));
        }
        prop_assert_eq!(seen, expected);
    }
}
