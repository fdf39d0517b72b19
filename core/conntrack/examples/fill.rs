//! Measures the cost of many connections: `cargo run --release -p conntrack --example fill [connections]`.
//!
//! Prints memory per connection, and nanoseconds per new connection, per packet of an existing connection, and per connection that the
//! connection sweep removes. Then prints what happens to established and new connections while a flood of first packets fills the table.

use conntrack::{Action, Conntrack, Metadata, Packet};
use flow::flow::ct_state::ESTABLISHED;
use std::time::Instant;
use units::Millis;

#[path = "shared/mod.rs"]
mod shared;
use shared::{packet, resident};

const COMMIT: Action = Action { commit: true, ..Action::TRACK };

fn track(ct: &Conntrack, l3: &[u8], now: u64) -> u8 {
    let mut meta = Metadata::default();
    ct.track(&Packet { ethertype: 0x0800, l3, sums: conntrack::VERIFIED }, &mut meta, &COMMIT, Millis(now));
    meta.state
}

/// Nanoseconds for each of `n` calls, without the time to make the packets.
fn each(n: u32, mut run: impl FnMut(&[u8]), reply: bool) -> f64 {
    let start = Instant::now();
    let bytes: usize = (0..n).map(|i| std::hint::black_box(packet(i.into(), reply)).len()).sum();
    let making = start.elapsed();
    let start = Instant::now();
    (0..n).for_each(|i| run(&packet(i.into(), reply)));
    assert!(bytes > 0);
    start.elapsed().saturating_sub(making).as_nanos() as f64 / f64::from(n)
}

fn main() {
    let n: u32 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(5_000_000);
    let ct = Conntrack::new(7);
    ct.set_max(n);
    let before = resident();
    let new = each(n, |l3| _ = track(&ct, l3, 0), false);
    let bytes = (resident() - before) as f64 / f64::from(n);
    let known = each(n, |l3| _ = track(&ct, l3, 1), true);
    println!("{n} connections: {bytes:.0} bytes each, new {new:.0} ns, known {known:.0} ns");

    // All connections are established now. A flood fills the remaining tenth of the table many times over.
    let start = Instant::now();
    ct.flush(None, &conntrack::Filter { proto: Some(6), ..Default::default() });
    println!("a look at all of them: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    ct.set_max(n + n / 10);
    let start = Instant::now();
    let flood = n;
    (0..flood).for_each(|i| _ = track(&ct, &packet((n + i).into(), false), 2));
    let took = start.elapsed().as_nanos() as f64 / f64::from(flood);
    let left =
        (0..n).step_by(97).filter(|i| track(&ct, &packet((*i).into(), false), 3) & ESTABLISHED != 0).count();
    let asked = (0..n).step_by(97).count();
    println!(
        "after a flood of {flood} ({took:.0} ns each): {left} of {asked} established connections are left"
    );
    let start = Instant::now();
    ct.sweep(Millis(100_000));
    ct.sweep(Millis(200_000));
    println!("a sweep of all: {:.1} ms, {} left", start.elapsed().as_secs_f64() * 1e3, ct.count());
    println!("resident: {} MB", resident() >> 20);
}
