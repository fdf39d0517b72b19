//! Measures the cost of a guest's rings per packet on one thread, without a second core: a driver in the same process makes
//! bursts available, the switch receives them and sends them back.
//!
//! `cargo run --release -p vhost --example rings [bytes [packets per burst]]` prints nanoseconds per packet of receive
//! and of transmit. If `PACKETS` is set, it processes that many packets without using the clock, as instruction counters
//! need it. If `TWO_COPIES` is set, long packets are copied twice, as on other ports. If `PACKED` is set, the rings are packed.

use packet::frame::FramePool;
use packet::queue::RX_BURST;
use std::hint::black_box;
use std::time::{Duration, Instant};
use vhost::{BenchDriver, FromGuest, Packets, ToGuest};

struct Loop {
    driver: BenchDriver,
    from: FromGuest,
    to: ToGuest,
    pool: FramePool,
    burst: usize,
    /// Whether long packets keep their tails in the guest's memory.
    with_tails: bool,
}

impl Loop {
    /// One burst; `clock` is called before, between, and after receive and transmit.
    fn turn(&mut self, mut clock: impl FnMut()) {
        self.driver.offer(self.burst as u16);
        let mut frames = Vec::with_capacity(RX_BURST);
        clock();
        let got = match self.with_tails {
            true => self.from.receive_with_leases(self.burst, &mut self.pool, &mut frames),
            false => self.from.receive(self.burst, &mut self.pool, &mut frames),
        };
        clock();
        assert_eq!((got.packets, got.refused), (self.burst, 0));
        let mut packets = Packets::default();
        let mut sending = self.to.begin(&mut packets, 0).expect("the ring is in use");
        let mut sent = 0;
        assert_eq!(sending.send_frames(&frames, |_, len| sent += len), 0);
        black_box(sent);
        drop(sending);
        drop(packets);
        clock();
        self.pool.free_all(&mut frames);
        assert!(self.from.return_buffers().is_some());
    }
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|n| n.parse().expect("a number"));
    let (len, burst) = (numbers.next().unwrap_or(60), numbers.next().unwrap_or(32));
    assert!((14..=65_500).contains(&len) && (1..=RX_BURST).contains(&burst));
    let driver = BenchDriver::new(len, std::env::var_os("PACKED").is_some()).expect("memory");
    let with_tails = std::env::var_os("TWO_COPIES").is_none();
    let (from, to) = (driver.receiver(), driver.sender());
    let mut run = Loop { driver, from, to, pool: FramePool::new(256), burst, with_tails };
    if let Some(packets) = std::env::var("PACKETS").ok().and_then(|n| n.parse::<usize>().ok()) {
        (0..packets / burst).for_each(|_| run.turn(|| {}));
        return;
    }
    for _ in 0..5 {
        let (mut times, mut bursts) = ([Duration::ZERO; 2], 0);
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(200) {
            for _ in 0..100 {
                let (mut marks, mut n) = ([Instant::now(); 3], 0);
                run.turn(|| {
                    marks[n] = Instant::now();
                    n += 1;
                });
                times[0] += marks[1] - marks[0];
                times[1] += marks[2] - marks[1];
                bursts += 1;
            }
        }
        let [receive, transmit] = times.map(|t| t.as_nanos() as f64 / (bursts * burst) as f64);
        println!(
            "{len} bytes, bursts of {burst}: receive {receive:.1} ns, transmit {transmit:.1} ns a packet"
        );
    }
    println!("header and first bytes of the last burst: {:02x?}", run.driver.received(0));
}
