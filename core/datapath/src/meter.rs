//! Meters: token buckets, and the table that numbers them.
//!
//! **Any worker may use any meter, and none waits**: all numbers are atomic, and a batch takes its tokens by one
//! exchange if there are enough. The worker that advances a meter's clock adds the tokens for the time since the
//! clock's last advance. Sources: OpenFlow 1.3.5 §5.7. If several bands are exceeded, the band with the highest rate
//! applies, as in Open vSwitch.

use crate::token_bucket::{BYTE, Bucket, PACKET, RefillClock};
use dpif::Counter;
use dpif::meter::{Band, MAX_METERS, MeterCounts, MeterSpec};
use rpds::HashTrieMapSync;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use sync::SnapshotCell;
use units::{Cycles, Micros, Millis};

/// Stands for no band.
pub(crate) const NO_BAND: u8 = u8::MAX;

/// A band and its tokens.
#[derive(Debug)]
struct MeterBand {
    band: Band,
    bucket: Bucket,
    exceeded: Counter,
}

impl MeterBand {
    fn new(band: Band) -> MeterBand {
        let bucket = Bucket::new(band.rate.into(), band.burst.into());
        MeterBand { band, bucket, exceeded: Counter::default() }
    }
}

/// One meter.
#[derive(Debug)]
pub(crate) struct Meter {
    /// The rates and bursts are in packets; otherwise in kilobits.
    is_packet_rate: bool,
    clock: RefillClock,
    total: Counter,
    bands: Box<[MeterBand]>,
}

impl Meter {
    fn new(spec: &MeterSpec, now: Micros) -> Meter {
        Meter {
            is_packet_rate: spec.packets,
            clock: RefillClock::new(now),
            total: Counter::default(),
            bands: spec.bands.iter().copied().map(MeterBand::new).collect(),
        }
    }

    fn cost(&self, len: u32) -> u64 {
        if self.is_packet_rate { PACKET } else { u64::from(len) * BYTE }
    }

    /// Meters packets of these lengths that arrive together. Returns false if no packet exceeds a band. Otherwise
    /// `verdicts` contains for each packet the band that applies, or [`NO_BAND`].
    pub(crate) fn meter_packets(&self, lens: &[u32], now: Micros, verdicts: &mut Vec<u8>) -> bool {
        self.advance(now);
        self.total.add(lens.len() as u64, lens.iter().map(|l| u64::from(*l)).sum());
        let cost = lens.iter().map(|l| self.cost(*l)).sum();
        verdicts.clear();
        for (i, MeterBand { band, bucket, .. }) in self.bands.iter().enumerate() {
            let mut left = bucket.take_some(cost);
            if left == cost {
                continue;
            }
            verdicts.resize(lens.len(), NO_BAND);
            for (len, verdict) in lens.iter().zip(verdicts.iter_mut()) {
                match left.checked_sub(self.cost(*len)) {
                    Some(rest) => left = rest,
                    None if band.rate > self.rate_of(*verdict) => *verdict = i as u8,
                    None => {}
                }
            }
            bucket.return_tokens(left);
        }
        self.count_met(lens, verdicts)
    }

    /// Counts packets for the bands that apply to them. Returns whether a band applies to any packet.
    fn count_met(&self, lens: &[u32], verdicts: &[u8]) -> bool {
        let mut all = 0;
        for (i, band) in self.bands.iter().enumerate().take(usize::from(NO_BAND)) {
            let exceeded = lens.iter().zip(verdicts).filter(|(_, verdict)| usize::from(**verdict) == i);
            let (packets, bytes) =
                exceeded.fold((0, 0), |(packets, bytes), (len, _)| (packets + 1, bytes + u64::from(*len)));
            if packets != 0 {
                band.exceeded.add(packets, bytes);
                all += packets;
            }
        }
        all != 0
    }

    /// Returns whether all bands drop the packets that exceed them.
    pub(crate) fn only_drops(&self) -> bool {
        self.bands.iter().all(|band| band.band.remark.is_none())
    }

    /// Takes tokens for these packets and bytes from every band. Returns `false` and takes none if a band has too
    /// few.
    pub(crate) fn take_all(&self, (packets, bytes): (u64, u64), now: Micros) -> bool {
        self.advance(now);
        let cost = if self.is_packet_rate { packets * PACKET } else { bytes * BYTE };
        let short = self.bands.iter().position(|band| !band.bucket.take(cost));
        let taken = short.map_or(&[][..], |short| &self.bands[..short]);
        taken.iter().for_each(|band| band.bucket.return_tokens(cost));
        short.is_none()
    }

    /// Returns tokens that were taken and not used.
    pub(crate) fn return_all(&self, (packets, bytes): (u64, u64)) {
        let cost = if self.is_packet_rate { packets * PACKET } else { bytes * BYTE };
        self.bands.iter().for_each(|band| band.bucket.return_tokens(cost));
    }

    /// Counts packets and bytes that passed and whose tokens were taken.
    pub(crate) fn count(&self, (packets, bytes): (u64, u64)) {
        self.total.add(packets, bytes);
    }

    /// Adds the tokens since the meter's clock was advanced last.
    fn advance(&self, now: Micros) {
        if let Some(passed) = self.clock.advance(now) {
            self.bands.iter().for_each(|band| band.bucket.add_tokens(passed));
        }
    }

    /// Returns what a band does with a packet that exceeds it: see [`Band::remark`].
    pub(crate) fn remark(&self, band: u8) -> Option<u8> {
        self.bands.get(usize::from(band))?.band.remark
    }

    fn rate_of(&self, band: u8) -> u32 {
        self.bands.get(usize::from(band)).map_or(0, |b| b.band.rate)
    }

    fn counts(&self) -> MeterCounts {
        MeterCounts { total: self.total.get(), bands: self.bands.iter().map(|b| b.exceeded.get()).collect() }
    }
}

/// The meters of a datapath as workers see them.
pub(crate) type Meters = HashTrieMapSync<u32, Arc<Meter>>;

/// Allocates meter numbers, and publishes meters to workers.
pub(crate) struct MeterTable {
    set: SnapshotCell<Meters>,
    numbers: Mutex<Numbers>,
}

/// The free meter numbers: those in `returned`, and all from `next` on.
#[derive(Default)]
struct Numbers {
    returned: BTreeSet<u32>,
    next: u32,
}

impl Default for MeterTable {
    fn default() -> MeterTable {
        MeterTable { set: SnapshotCell::from_pointee(Meters::new_sync()), numbers: Mutex::default() }
    }
}

impl MeterTable {
    pub(crate) fn load(&self) -> Arc<Meters> {
        self.set.load_full()
    }

    pub(crate) fn allocate(&self) -> Option<u32> {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = numbers.returned.pop_first() {
            return Some(id);
        }
        let id = numbers.next;
        (id < MAX_METERS).then(|| numbers.next += 1).map(|()| id)
    }

    pub(crate) fn put(&self, id: u32, spec: &MeterSpec, now: Millis) {
        let _one_at_a_time = self.numbers.lock();
        let meter = Arc::new(Meter::new(spec, micros(now)));
        self.set.store(Arc::new(self.set.load().insert(id, meter)));
    }

    pub(crate) fn release(&self, id: u32) {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        self.set.store(Arc::new(self.set.load().remove(&id)));
        numbers.returned.insert(id);
    }

    pub(crate) fn counts(&self, id: u32) -> MeterCounts {
        self.set.load().get(&id).map(|m| m.counts()).unwrap_or_default()
    }
}

/// Converts a time to microseconds.
fn micros(now: Millis) -> Micros {
    Micros(now.0.saturating_mul(1000))
}

/// A clock with a resolution of one microsecond: milliseconds, and the cycles since the last millisecond began. A
/// bucket that is smaller than the tokens of one millisecond needs this resolution.
#[derive(Debug, Default)]
pub(crate) struct FineClock {
    /// Cycles per millisecond; 0: not known, and then the clock advances only by whole milliseconds.
    pub(crate) per_ms: u64,
    now: Millis,
    began: Cycles,
    at: Cycles,
}

impl FineClock {
    /// Begins an iteration.
    #[inline]
    pub(crate) fn begin_iteration(&mut self, now: Millis, at: Cycles) {
        if self.now != now {
            (self.now, self.began) = (now, at);
        }
        self.at = at;
    }

    /// Returns the time in the present iteration, which began in millisecond `now`. The time never goes back.
    pub(crate) fn read(&self, now: Millis) -> Micros {
        let passed = (self.at - self.began).0.saturating_mul(1000).checked_div(self.per_ms).unwrap_or(0);
        Micros(micros(now).0 + if now == self.now { passed.min(999) } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(packets: bool, bands: &[(u32, u32)]) -> Meter {
        let bands = bands.iter().map(|&(rate, burst)| Band { rate, burst, remark: None }).collect();
        Meter::new(&MeterSpec { packets, bands }, Micros(0))
    }

    /// Returns how many of these packets pass.
    fn pass(meter: &Meter, lens: &[u32], now: u64) -> usize {
        let mut verdicts = Vec::new();
        let exceeded = meter.meter_packets(lens, Micros(now), &mut verdicts);
        if exceeded { verdicts.iter().filter(|v| **v == NO_BAND).count() } else { lens.len() }
    }

    #[test]
    fn a_rate_holds_for_every_size_of_packet() {
        for len in [58, 60, 64, 100, 333, 1500, 9000, 65_000] {
            let meter = meter(false, &[(10_000, 1000)]);
            let second: usize = (0..10_000_000 / 500).map(|i| pass(&meter, &[len; 32], i * 500)).sum();
            // Ten seconds at 10 Mbit/s and the burst.
            let expected = 101_000_000.0 / (f64::from(len) * 8.0);
            let error = (second as f64 - expected).abs() / expected;
            assert!(error < 0.02, "{len}: {second} packets, {expected} expected");
        }
    }

    #[test]
    fn what_comes_in_odd_intervals_is_not_rounded() {
        let meter = meter(true, &[(3, 1)]);
        let passed: usize = (0..30_000).map(|i| pass(&meter, &[60], i * 1111)).sum();
        assert!((99..=101).contains(&passed), "{passed}");
    }

    #[test]
    fn the_exceeded_band_with_the_highest_rate_fires() {
        let meter = meter(true, &[(1, 1), (5, 5), (3, 3)]);
        assert_eq!(pass(&meter, &[100; 10], 0), 1);
        let bands: Vec<u64> = meter.counts().bands.iter().map(|c| c.0).collect();
        assert_eq!((bands, meter.counts().total), (vec![2, 5, 2], (10, 1000)));
    }

    #[test]
    fn a_bucket_never_holds_more_than_its_burst() {
        let meter = meter(true, &[(u32::MAX, 2)]);
        assert_eq!(pass(&meter, &[60; 5], u64::MAX / 2), 2);
        assert_eq!(pass(&meter, &[60; 5], 0), 0);
    }

    #[test]
    fn time_passes_within_a_millisecond() {
        let mut clock = FineClock { per_ms: 2_000_000, ..FineClock::default() };
        let mut read = |ms, at| {
            clock.begin_iteration(Millis(ms), Cycles(at));
            clock.read(Millis(ms)).0
        };
        assert_eq!(
            [read(7, 100), read(7, 2_100), read(7, 1_000_100), read(7, 9_000_100)],
            [7000, 7001, 7500, 7999]
        );
        assert_eq!(read(8, 9_000_200), 8000);
        let mut coarse = FineClock::default();
        coarse.begin_iteration(Millis(3), Cycles(5));
        coarse.begin_iteration(Millis(3), Cycles(5_000));
        assert_eq!((coarse.read(Millis(3)).0, coarse.read(Millis(4)).0), (3000, 4000));
    }

    #[test]
    fn numbers_come_back() {
        let table = MeterTable::default();
        assert_eq!([table.allocate(), table.allocate(), table.allocate()], [Some(0), Some(1), Some(2)]);
        table.put(1, &MeterSpec::default(), Millis(0));
        assert!(table.load().contains_key(&1));
        table.release(1);
        assert!(!table.load().contains_key(&1));
        assert_eq!([table.allocate(), table.allocate()], [Some(1), Some(3)]);
    }
}
