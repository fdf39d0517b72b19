//! Measures what adding a flow costs before it reaches a table: parse its text, encode it as a flow mod of a
//! bundle, decode that. `cargo run --release -p openflow --example flow_lines [FLOWS]` prints nanoseconds per
//! flow for each step.

use flow::text::NoNames;
use openflow::message::{Body, Message, Xid};
use openflow::text::parse_flow_line;
use openflow::{Dialect, Version, decode, encode};
use std::hint::black_box;
use std::time::Instant;

fn lines(n: u32) -> Vec<String> {
    let line = |i: u32| {
        let [a, b, c, d] = i.to_be_bytes();
        let a = 20 + a;
        match i % 4 {
            0 => format!("priority=100,ip,nw_dst={a}.{b}.{c}.{d},actions=output:2"),
            1 => format!(
                "table=11,priority=90,metadata={},dl_dst=02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x},actions=load:{d}->NXM_NX_REG15[],resubmit(,12)",
                i & 1023
            ),
            2 => format!(
                "table=12,priority={},ct_state=+trk+new,tcp,metadata={},nw_src={a}.{b}.{c}.{d},tp_dst={},actions=ct(commit,zone={}),output:2",
                1000 + (i & 15),
                i & 1023,
                i & 65535,
                i & 1023
            ),
            _ => format!(
                "table=13,priority=80,reg15={i},metadata={},arp,arp_tpa={a}.{b}.{c}.{d},actions=output:2",
                i & 1023
            ),
        }
    };
    (0..n).map(line).collect()
}

fn main() {
    let n = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(100_000);
    for (name, kind) in [("dst", Some(0)), ("mix", None)] {
        let lines: Vec<String> = lines(4 * n)
            .into_iter()
            .enumerate()
            .filter(|(i, _)| kind.is_none_or(|k| i % 4 == k))
            .map(|(_, line)| line)
            .take(n as usize)
            .collect();
        let (mut parse, mut write, mut read, mut bytes) = (0, 0, 0, 0);
        for line in &lines {
            let start = Instant::now();
            let Ok(flow) = parse_flow_line(line, &NoNames).map(|parsed| parsed.flow) else {
                panic!("{line}")
            };
            let parsed = Instant::now();
            let m = Message::new(Version::V14, Xid(1), Body::FlowMod(flow));
            let Ok(frames) = encode(&m, Dialect::default()) else { panic!("{line}") };
            let written = Instant::now();
            bytes += frames[0].len();
            black_box(decode(&frames[0], Dialect::default())).expect("our own frame");
            let end = Instant::now();
            parse += (parsed - start).as_nanos();
            write += (written - parsed).as_nanos();
            read += (end - written).as_nanos();
        }
        let each = |sum: u128| sum / u128::from(n);
        println!(
            "{name}: parse {} write {} read {} ns, {} bytes",
            each(parse),
            each(write),
            each(read),
            bytes / lines.len()
        );
    }
}
