//! What the turns of one poll thread were like.
//!
//! A thread's counters say what a turn cost only when the next one has begun. So a turn is noted with what it found, and
//! entered later: some hundred turns together, which takes less time than one by one. Whoever wants to see
//! what was recorded has the rest entered first ([`Recorder::settle`]); while turns are watched each is entered at once.

use super::histogram::Histogram;
use super::watch::{Suspect, Suspicion, Watch};
use units::Millis;

/// How many turns and how many milliseconds are remembered.
pub const REMEMBERED: usize = 1000;

/// The counters of a thread, as they stand after a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Turns.
    pub turns: u64,
    /// Cycles of all turns before this one, without sleep.
    pub cycles: u64,
    /// Packets received.
    pub packets: u64,
    /// Upcalls.
    pub upcalls: u64,
    /// Cycles that they took.
    pub upcall_cycles: u64,
}

/// What one queue brought in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Packets: at least one.
    pub packets: u64,
    /// A guest's queue: how many more were waiting.
    pub waiting: Option<u64>,
}

/// A turn, or all turns of a millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Number of the turn, or the millisecond.
    pub stamp: u64,
    /// Turns.
    pub turns: u64,
    /// Cycles of all.
    pub cycles: u64,
    /// Cycles of those that found packets.
    pub busy_cycles: u64,
    /// Packets received.
    pub packets: u64,
    /// Bursts in which they came.
    pub batches: u64,
    /// Most packets in a guest's queue, summed over turns.
    pub queued: u64,
    /// Upcalls.
    pub upcalls: u64,
    /// Cycles that they took.
    pub upcall_cycles: u64,
}

impl Sample {
    fn add(&mut self, other: &Sample) {
        self.turns += other.turns;
        self.cycles += other.cycles;
        self.busy_cycles += other.busy_cycles;
        self.packets += other.packets;
        self.batches += other.batches;
        self.queued += other.queued;
        self.upcalls += other.upcalls;
        self.upcall_cycles += other.upcall_cycles;
    }
}

/// The last samples, in a ring. What has not been yet is all zero.
#[derive(Clone, Debug)]
struct Ring {
    samples: Vec<Sample>,
    next: usize,
}

impl Ring {
    fn new() -> Ring {
        Ring { samples: vec![Sample::default(); REMEMBERED], next: 0 }
    }

    fn push(&mut self, sample: Sample) {
        self.samples[self.next] = sample;
        self.next = (self.next + 1) % REMEMBERED;
    }

    /// The newest first.
    fn newest(&self, n: usize) -> Vec<Sample> {
        (1..=n.min(REMEMBERED)).map(|i| self.samples[(self.next + REMEMBERED - i) % REMEMBERED]).collect()
    }
}

/// The distributions, in the order of the table.
#[derive(Clone, Debug)]
pub struct Histograms {
    /// Cycles of a turn.
    pub cycles: Histogram,
    /// Packets of a turn.
    pub packets: Histogram,
    /// Cycles of a packet.
    pub cycles_per_packet: Histogram,
    /// Packets of a burst.
    pub packets_per_batch: Histogram,
    /// Most packets in a guest's queue in a turn.
    pub queued: Histogram,
    /// Upcalls of a turn.
    pub upcalls: Histogram,
    /// Cycles of an upcall: the mean of its turn's.
    pub cycles_per_upcall: Histogram,
}

impl Histograms {
    fn new() -> Histograms {
        Histograms {
            cycles: Histogram::logarithmic(500, 24_000_000),
            packets: Histogram::logarithmic(0, 1000),
            cycles_per_packet: Histogram::linear(100, 30_000),
            packets_per_batch: Histogram::linear(0, 32),
            queued: Histogram::logarithmic(0, 512),
            upcalls: Histogram::linear(0, 30),
            cycles_per_upcall: Histogram::logarithmic(1000, 1_000_000),
        }
    }

    fn enter(&mut self, turn: &Sample) {
        self.cycles.add(turn.cycles);
        self.packets.add_alike(turn.packets);
        if let Some(each) = turn.cycles.checked_div(turn.packets) {
            self.cycles_per_packet.add_alike(each);
        }
        self.upcalls.add_alike(turn.upcalls);
        if let Some(each) = turn.upcall_cycles.checked_div(turn.upcalls) {
            self.cycles_per_upcall.add_times(each, turn.upcalls);
        }
        self.queued.add_alike(turn.queued);
    }
}

/// So many turns are entered together.
const TOGETHER: usize = 128;

/// A turn that was not entered yet.
#[derive(Clone, Copy, Debug)]
struct Noted {
    /// As it stood after it.
    counted: Counted,
    batches: u32,
    queued: u32,
    at: Millis,
}

impl Noted {
    /// As a sample. `before`: what was counted before it; `next`: after the next turn.
    #[inline]
    fn sample(&self, before: &Counted, next: &Noted) -> Sample {
        let Counted { turns, cycles, packets, upcalls, upcall_cycles } = self.counted;
        let packets = packets.saturating_sub(before.packets);
        let cycles = next.counted.cycles.saturating_sub(cycles);
        Sample {
            stamp: turns,
            turns: 1,
            cycles,
            busy_cycles: if packets > 0 { cycles } else { 0 },
            packets,
            batches: self.batches.into(),
            queued: self.queued.into(),
            upcalls: upcalls.saturating_sub(before.upcalls),
            upcall_cycles: upcall_cycles.saturating_sub(before.upcall_cycles),
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Recorder {
    histograms: Histograms,
    turns: Ring,
    millis: Ring,
    /// The millisecond that is not over.
    present: Sample,
    totals: Sample,
    /// Turns that were not entered yet. What the first one found is known already; it says where the next begins.
    noted: Vec<Noted>,
    watch: Watch,
    suspect: Option<Suspect>,
}

impl Recorder {
    /// Records from now on.
    pub fn new(now: Millis, watch: Watch) -> Recorder {
        Recorder {
            histograms: Histograms::new(),
            turns: Ring::new(),
            millis: Ring::new(),
            present: Sample { stamp: now.0, ..Sample::default() },
            totals: Sample::default(),
            noted: Vec::with_capacity(TOGETHER),
            watch,
            suspect: None,
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self, now: Millis) {
        *self = Recorder::new(now, self.watch);
    }

    /// Tells other turns than before.
    pub fn set_watch(&mut self, watch: Watch) {
        self.settle();
        self.watch = watch;
    }

    /// A turn is over. What there may be to tell is of an earlier one.
    #[inline]
    pub fn turn(
        &mut self,
        counted: Counted,
        bursts: impl Iterator<Item = Burst>,
        now: Millis,
    ) -> Option<Suspicion> {
        let (mut batches, mut queued) = (0, 0);
        for burst in bursts {
            batches += 1;
            self.histograms.packets_per_batch.add_alike(burst.packets);
            queued = queued.max(burst.waiting.map_or(0, |n| (n + burst.packets) as u32));
        }
        self.noted.push(Noted { counted, batches, queued, at: now });
        let watched = self.watch.on || self.suspect.is_some();
        if watched || self.noted.len() == TOGETHER { self.settle() } else { None }
    }

    /// Enters all turns whose cycles are known. What there may be to tell is of the last of them: more than one are entered only
    /// where nobody watched.
    pub fn settle(&mut self) -> Option<Suspicion> {
        let noted = std::mem::take(&mut self.noted);
        let mut told = None;
        for turns in noted.windows(3) {
            let [before, turn, next] = turns else { continue };
            told = self.enter(&turn.sample(&before.counted, next), next.at);
        }
        // The last turn's cycles are not known, and what it found is told by the one before.
        let rest = noted.len().saturating_sub(2);
        self.noted = noted;
        self.noted.drain(..rest);
        told
    }

    #[inline]
    fn enter(&mut self, turn: &Sample, now: Millis) -> Option<Suspicion> {
        self.histograms.enter(turn);
        self.present.add(turn);
        self.turns.push(*turn);
        if self.present.stamp != now.0 {
            let over = std::mem::replace(&mut self.present, Sample { stamp: now.0, ..Sample::default() });
            self.totals.add(&over);
            self.millis.push(over);
        }
        self.look(turn)
    }

    /// Whether there is something to tell after this turn.
    fn look(&mut self, turn: &Sample) -> Option<Suspicion> {
        if !self.watch.on && self.suspect.is_none() {
            return None;
        }
        let told = self.watch.look(&mut self.suspect, turn);
        if told.is_some() {
            return told;
        }
        let done = self.suspect.take_if(|s| s.is_over(turn))?;
        let around = self.turns.newest(done.range(turn));
        self.watch.after(around.len());
        Some(done.tell(around))
    }

    /// The distributions.
    pub fn histograms(&self) -> &Histograms {
        &self.histograms
    }

    /// The sum of all milliseconds that are over.
    pub fn totals(&self) -> &Sample {
        &self.totals
    }

    /// The last turns, the newest first.
    pub fn last_turns(&self, n: usize) -> Vec<Sample> {
        self.turns.newest(n)
    }

    /// The last milliseconds that are over, the newest first.
    pub fn last_millis(&self, n: usize) -> Vec<Sample> {
        self.millis.newest(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns of 1000 cycles and two packets each, four in a millisecond.
    fn recorded(turns: u64, watch: Watch, slow: u64) -> (Recorder, Vec<Suspicion>) {
        let mut recorder = Recorder::new(Millis(100), watch);
        let (mut told, mut cycles) = (Vec::new(), 0);
        for i in 1..=turns {
            let counted =
                Counted { turns: i, cycles, packets: 2 * i, upcalls: i / 2, upcall_cycles: 2000 * (i / 2) };
            let bursts = [Burst { packets: 2, waiting: Some(i % 4) }];
            told.extend(recorder.turn(counted, bursts.into_iter(), Millis(100 + i / 4)));
            cycles += if i == slow { 5_000_000 } else { 1000 };
        }
        told.extend(recorder.settle());
        (recorder, told)
    }

    #[test]
    fn turns_and_milliseconds_are_remembered() {
        let (recorder, _) = recorded(42, Watch::default(), 0);
        // The first turn says where counting begins, the last one is not over.
        let histograms = recorder.histograms();
        assert_eq!(histograms.cycles.bins().iter().sum::<u64>(), 40);
        assert_eq!(histograms.packets.bins()[2], 40);
        assert_eq!((histograms.upcalls.bins()[0], histograms.upcalls.bins()[1]), (20, 20));
        let last = recorder.last_turns(2);
        assert_eq!((last[0].stamp, last[1].stamp, last[0].cycles, last[0].packets), (41, 40, 1000, 2));
        let ms = recorder.last_millis(3);
        assert_eq!((ms[0].stamp, ms[0].turns, ms[0].cycles, ms[0].busy_cycles), (109, 4, 4000, 4000));
        assert_eq!((recorder.totals().packets, recorder.totals().batches), (76, 38));
        // What has not been yet is empty.
        assert_eq!(
            (recorder.last_turns(5000).len(), recorder.last_turns(500)[499]),
            (1000, Sample::default())
        );
    }

    #[test]
    fn a_slow_turn_is_told_with_those_around_it() {
        let watch = Watch { on: true, cycles: 100_000, ..Watch::default() };
        let (_, told) = recorded(100, watch, 50);
        assert_eq!(told.len(), 1);
        let Suspicion { reason, turn, cycles, around } = &told[0];
        assert_eq!((*reason, *turn, *cycles), ("Excessive total cycles", 50, 5_000_000));
        let stamps: Vec<u64> = around.iter().map(|s| s.stamp).collect();
        assert_eq!(stamps, (45..=55).rev().collect::<Vec<_>>());
        assert!(recorded(100, Watch::default(), 50).1.is_empty());
    }

    #[test]
    fn what_was_cleared_is_gone() {
        let (mut recorder, _) = recorded(42, Watch::default(), 0);
        recorder.clear(Millis(500));
        assert_eq!((recorder.totals().packets, recorder.last_turns(1)[0]), (0, Sample::default()));
    }
}
