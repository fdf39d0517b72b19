//! `trtcm-policer`: a committed and an excess rate (RFC 4115), of the port and of each queue.
//!
//! The meter of the packet's queue gives the packet a colour. The meter of the port starts from that colour and gives
//! the final one. The packet is dropped if the final colour is red. Packets for a queue that does not exist belong to
//! queue 0; if queue 0 does not exist either, they are dropped.

use crate::counts_and_errors::{InvalidRates, QueueCounts};
use crate::tokens::Tokens;
use std::collections::BTreeMap;
use units::Nanos;

/// Rates and bursts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TwoRateSpec {
    /// Committed bytes per second.
    pub cir: u64,
    /// Committed burst in bytes.
    pub cbs: u64,
    /// Excess bytes per second.
    pub eir: u64,
    /// Excess burst in bytes.
    pub ebs: u64,
}

/// The rates of a port and of its queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TwoRateTree {
    /// Rates of the port.
    pub port: TwoRateSpec,
    /// Rates of queues, by number.
    pub queues: BTreeMap<u32, TwoRateSpec>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Colour {
    Green,
    Yellow,
    Red,
}

#[derive(Debug)]
struct Meter {
    spec: TwoRateSpec,
    committed: Tokens,
    excess: Tokens,
}

impl Meter {
    /// Creates a meter with full buckets. A rate without a burst is refused, because no packet would pass.
    fn new(spec: TwoRateSpec, now: Nanos) -> Result<Meter, InvalidRates> {
        if spec.cir != 0 && spec.cbs == 0 || spec.eir != 0 && spec.ebs == 0 {
            return Err(InvalidRates);
        }
        let (committed, excess) =
            (Tokens::new(spec.cir, spec.cbs, now), Tokens::new(spec.eir, spec.ebs, now));
        Ok(Meter { spec, committed, excess })
    }

    /// The colour of a packet. `before`: the colour that the packet already has; green if it was not metered before.
    fn colour(&mut self, bytes: u64, before: Colour, now: Nanos) -> Colour {
        self.committed.refill(now);
        self.excess.refill(now);
        if before == Colour::Green && self.committed.take(bytes) {
            return Colour::Green;
        }
        if before != Colour::Red && self.excess.take(bytes) { Colour::Yellow } else { Colour::Red }
    }
}

#[derive(Debug)]
struct Queue {
    meter: Meter,
    counts: QueueCounts,
}

/// A policer with two rates for the port and for each queue.
#[derive(Debug)]
pub struct TwoRate {
    port: Meter,
    queues: BTreeMap<u32, Queue>,
}

impl TwoRate {
    /// Creates a policer with full buckets and no queues.
    pub fn new(port: TwoRateSpec, now: Nanos) -> Result<TwoRate, InvalidRates> {
        Ok(TwoRate { port: Meter::new(port, now)?, queues: BTreeMap::new() })
    }

    /// Sets the rates of a queue; its counters are kept. If the rates are invalid, the queue is removed.
    pub fn set_queue(&mut self, queue: u32, spec: TwoRateSpec, now: Nanos) -> Result<(), InvalidRates> {
        let counts = match self.queues.get(&queue) {
            Some(known) if known.meter.spec == spec => return Ok(()),
            Some(known) => known.counts,
            None => QueueCounts::default(),
        };
        self.queues.remove(&queue);
        self.queues.insert(queue, Queue { meter: Meter::new(spec, now)?, counts });
        Ok(())
    }

    /// Removes the queues whose numbers `is_wanted` refuses.
    pub fn retain(&mut self, is_wanted: impl Fn(u32) -> bool) {
        self.queues.retain(|number, _| is_wanted(*number));
    }

    /// The rates in force.
    pub fn tree(&self) -> TwoRateTree {
        let queues = self.queues.iter().map(|(number, queue)| (*number, queue.meter.spec));
        TwoRateTree { port: self.port.spec, queues: queues.collect() }
    }

    /// Returns whether a packet of a queue passes.
    pub fn pass(&mut self, queue: u32, bytes: u64, now: Nanos) -> bool {
        let number = if self.queues.contains_key(&queue) { queue } else { 0 };
        let Some(queue) = self.queues.get_mut(&number) else { return false };
        let colour = queue.meter.colour(bytes, Colour::Green, now);
        match colour {
            Colour::Red => queue.counts.dropped += 1,
            _ => {
                queue.counts.packets += 1;
                queue.counts.bytes += bytes;
            }
        }
        self.port.colour(bytes, colour, now) != Colour::Red
    }

    /// Counters of a queue. They consider only the colour of the queue's own meter.
    pub fn counts(&self, queue: u32) -> Option<QueueCounts> {
        self.queues.get(&queue).map(|queue| queue.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn spec(cir: u64, cbs: u64, eir: u64, ebs: u64) -> TwoRateSpec {
        TwoRateSpec { cir, cbs, eir, ebs }
    }

    /// Sends 10 MB/s through each of two queues. Returns the bytes per second that pass.
    fn rates(policer: &mut TwoRate, len: u64) -> [f64; 2] {
        let step = len * 100;
        let mut bytes = [0; 2];
        for turn in 0..10 * SECOND / step {
            for (queue, bytes) in bytes.iter_mut().enumerate() {
                if policer.pass(queue as u32 + 1, len, Nanos(turn * step)) {
                    *bytes += len;
                }
            }
        }
        bytes.map(|bytes| bytes as f64 / 10.0)
    }

    #[test]
    fn committed_rates_hold_and_the_excess_is_shared() {
        for len in [46, 570, 1500] {
            let mut policer = TwoRate::new(spec(3_000_000, 10_000, 1_000_000, 10_000), Nanos(0)).unwrap();
            policer.set_queue(1, spec(2_000_000, 10_000, 5_000_000, 10_000), Nanos(0)).unwrap();
            policer.set_queue(2, spec(1_000_000, 10_000, 5_000_000, 10_000), Nanos(0)).unwrap();
            let [first, second] = rates(&mut policer, len);
            assert!((first + second - 4_000_000.0).abs() < 80_000.0, "{len}: {first} and {second}");
            assert!(first > 1_960_000.0 && second > 980_000.0, "{len}: {first} and {second}");
        }
    }

    #[test]
    fn packets_of_an_unknown_queue_belong_to_queue_0() {
        let mut policer = TwoRate::new(spec(1000, 1000, 0, 0), Nanos(0)).unwrap();
        assert!(!policer.pass(7, 10, Nanos(0)));
        policer.set_queue(0, spec(1000, 1000, 0, 0), Nanos(0)).unwrap();
        assert!(policer.pass(7, 600, Nanos(0)) && !policer.pass(7, 600, Nanos(0)));
        assert_eq!(policer.counts(0), Some(QueueCounts { packets: 1, bytes: 600, dropped: 1 }));
        assert_eq!(policer.counts(7), None);
    }

    #[test]
    fn a_rate_without_a_burst_is_refused_and_the_queue_goes() {
        assert!(TwoRate::new(spec(1, 0, 0, 0), Nanos(0)).is_err());
        let mut policer = TwoRate::new(spec(0, 0, 0, 0), Nanos(0)).unwrap();
        policer.set_queue(1, spec(1, 1, 0, 0), Nanos(0)).unwrap();
        assert!(policer.set_queue(1, spec(1, 1, 1, 0), Nanos(0)).is_err());
        assert!(policer.tree().queues.is_empty());
    }
}
