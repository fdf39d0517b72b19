//! CPU time per fragment in nanoseconds: of datagrams that are completed, and of a flood of incomplete ones.
//!
//! `cargo run --release -p reassembly --example cost`. Each case runs with one thread and with two that share
//! the table; the time is that of a fragment in its own thread.

use packet::checksum::checksum;
use reassembly::{AddResult, Origin, Reassembly};
use std::hint::black_box;
use units::Millis;

const FRAGMENTS: u32 = 3_000_000;
const LEN: usize = 1480;

/// The packets of a thread, by the thread's number.
type Packets<'a> = &'a dyn Fn(u8) -> Vec<Vec<u8>>;

fn fragment(id: u32, src: u8, start: usize, more: bool) -> Vec<u8> {
    let mut l3 = vec![0x45, 0];
    for word in [(20 + LEN) as u16, id as u16, (start / 8) as u16 | u16::from(more) << 13] {
        l3.extend(word.to_be_bytes());
    }
    l3.extend([64, 17, 0, 0, 10, 0, (id >> 16) as u8, src, 10, 0, 0, 2]);
    let sum = checksum(&l3);
    l3[10..12].copy_from_slice(&sum.to_be_bytes());
    l3.resize(20 + LEN, 7);
    l3
}

/// CPU time of this thread in nanoseconds.
fn processor_time() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or_default()
}

/// Nanoseconds per fragment of one thread.
fn run(all: &Reassembly<u32>, packets: &[Vec<u8>], port: u32) -> f64 {
    let (start, mut removed, mut completed) = (processor_time(), Vec::new(), 0);
    for n in 0..FRAGMENTS {
        let l3 = &packets[n as usize % packets.len()];
        let Some(fragment) = all.read(0x0800, l3) else { return 0.0 };
        let origin = Origin { port, memory: 2048, ..Origin::default() };
        if let AddResult::Complete(whole) = all.add(&fragment, &origin, n, Millis(0), &mut removed) {
            completed += whole.parts.len();
        }
        removed.clear();
    }
    black_box(completed);
    (processor_time() - start) as f64 / f64::from(FRAGMENTS)
}

fn main() {
    // From one source each: datagrams of three fragments, one after another.
    let honest = |src: u8| {
        let of = |id: u32| [0, 1, 2].map(|part| fragment(id, src, part * LEN, part != 2));
        (0..1000).flat_map(of).collect::<Vec<_>>()
    };
    let flood = |src: u8| (0..20_000).map(|id| fragment(id, src, 0, true)).collect::<Vec<_>>();
    let spoofed = |_| (0..20_000).map(|n| fragment(n, (n % 251) as u8, 0, true)).collect::<Vec<_>>();
    let cases: [(&str, Packets<'_>); 3] =
        [("complete", &honest), ("flood of one source", &flood), ("flood of many sources", &spoofed)];
    for (name, packets) in cases {
        let sets = [packets(1), packets(2)];
        let one = run(&Reassembly::new(1), &sets[0], 1);
        let all = Reassembly::new(1);
        let two = std::thread::scope(|scope| {
            let threads = [0, 1].map(|n| {
                let (all, packets) = (&all, &sets[n]);
                scope.spawn(move || run(all, packets, n as u32))
            });
            threads.map(|t| t.join().unwrap_or_default()).iter().sum::<f64>() / 2.0
        });
        println!("{name}: {one:.0} ns with one thread, {two:.0} ns with two");
    }
}
