//! Forwards packets between two devices (`wire DEV1 DEV2`), to measure the ports without a datapath. `tap:NAME` creates a tap.

use netdev::device::Netdev;
use netdev::error::NetdevError;
use netdev::open::{DummyLevel, Netdevs};
use packet::frame::FramePool;
use packet::queue::RX_BURST;
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::BTreeMap;

fn open(netdevs: &mut Netdevs, word: &str) -> Result<Box<dyn Netdev>, NetdevError> {
    let (kind, name) = word.split_once(':').unwrap_or(("system", word));
    Ok(netdevs.open(name, kind, &BTreeMap::new())?.0)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let [a, b] = names.as_slice() else { return Err("usage: wire DEV1 DEV2".into()) };
    let mut netdevs = Netdevs::new(DummyLevel::Off);
    let mut a = open(&mut netdevs, a)?;
    let mut b = open(&mut netdevs, b)?;
    let (mut to_a, mut to_b) = (a.tx_queue(), b.tx_queue());
    let mut from_a = a.take_rx_queues().pop().ok_or("no queue")?;
    let mut from_b = b.take_rx_queues().pop().ok_or("no queue")?;
    let mut pool = FramePool::new(256);
    let mut batch = Vec::new();
    let mut lost = 0u64;
    loop {
        let fds = [&from_a.poll_fd, &from_b.poll_fd].into_iter().flatten();
        let mut fds: Vec<_> = fds.map(|fd| PollFd::new(&**fd, PollFlags::IN)).collect();
        poll(&mut fds, None)?;
        for (rx, tx) in [(&mut from_a, &mut to_b), (&mut from_b, &mut to_a)] {
            rx.queue.rx(&mut pool, &mut batch, RX_BURST);
            let result = tx.tx(&mut batch);
            lost += u64::from(result.dropped + result.too_long);
            if result.dropped + result.too_long > 0 && lost.is_power_of_two() {
                eprintln!("{lost} frames lost so far");
            }
            batch.drain(..).for_each(|frame| pool.free(frame));
        }
    }
}
