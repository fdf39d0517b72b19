//! Time of a worker by stage of the path: measured in one iteration of 1,024, or in all iterations on demand.
//!
//! Without measurement, the cost is a check of one empty pointer per stage and batch.

/// A part of a worker's iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PathStage {
    /// A burst is received from an rx queue and becomes a batch.
    Receive,
    /// Keys are read from packets. In a small batch, this is part of the look-up.
    Extract,
    /// Megaflows are found: by the last packet's megaflow, in the flow cache, or in the subtables.
    LookUp,
    /// Packets are counted, rewritten, and added to bursts; full bursts are sent.
    Execute,
    /// The remaining bursts are sent at the end of the iteration, and buffers are freed.
    Transmit,
    /// Everything else: the fixed costs of an iteration, a queue or a batch.
    Overhead,
}

impl PathStage {
    /// All stages, in the order of the path.
    pub const ALL: [PathStage; 6] = [
        PathStage::Receive,
        PathStage::Extract,
        PathStage::LookUp,
        PathStage::Execute,
        PathStage::Transmit,
        PathStage::Overhead,
    ];

    /// The name in lower case.
    pub fn name(self) -> &'static str {
        ["receive", "extract", "lookup", "execute", "transmit", "overhead"][self as usize]
    }
}

/// The measurement of one stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTime {
    /// Total time, in the unit of the clock.
    pub time: u64,
    /// How many times the stage ended. Each end reads the clock once.
    pub ends: u64,
}

/// The measurements of all stages, by [`PathStage`].
pub type StageTimes = [StageTime; PathStage::ALL.len()];

/// The stage clock of a worker, and its measurements.
pub(crate) struct StageClock {
    read: fn() -> u64,
    last: u64,
    pub(crate) times: StageTimes,
}

impl StageClock {
    pub(crate) fn new(read: fn() -> u64) -> StageClock {
        StageClock { read, last: read(), times: StageTimes::default() }
    }

    /// Begins to measure at this moment.
    pub(crate) fn restart(&mut self) {
        self.last = (self.read)();
    }

    /// Ends a stage: adds the time since the end of the previous stage to it.
    pub(crate) fn end(&mut self, stage: PathStage) {
        let now = (self.read)();
        let StageTime { time, ends } = &mut self.times[stage as usize];
        (*time, *ends) = (*time + now.saturating_sub(self.last), *ends + 1);
        self.last = now;
    }
}

/// The cycles of each stage in the iterations that were measured, and the packets of these iterations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageSample {
    /// Cycles by [`PathStage`].
    pub cycles: [u64; PathStage::ALL.len()],
    /// Number of packets.
    pub packets: u64,
}

/// Measures single iterations of a worker. Iterations without packets are left out, because they say nothing about
/// the cost of a packet.
pub(crate) struct Sampler {
    /// The clock, while no iteration is measured.
    clock: Option<Box<StageClock>>,
    pub(crate) sample: StageSample,
}

impl Sampler {
    pub(crate) fn new(clock: fn() -> u64) -> Sampler {
        Sampler { clock: Some(Box::new(StageClock::new(clock))), sample: StageSample::default() }
    }

    /// Begins to measure the next iteration, unless all iterations are measured.
    pub(crate) fn begin(&mut self, stages: &mut Option<Box<StageClock>>) {
        if stages.is_none() {
            *stages = self.clock.take();
            stages.iter_mut().for_each(|clock| clock.restart());
        }
    }

    /// Ends the iteration that was measured, if one was.
    pub(crate) fn end(&mut self, stages: &mut Option<Box<StageClock>>, packets: u64) {
        let Some(mut clock) = stages.take_if(|_| self.clock.is_none()) else { return };
        let times = std::mem::take(&mut clock.times);
        if packets > 0 {
            self.sample.cycles.iter_mut().zip(times).for_each(|(sum, stage)| *sum += stage.time);
            self.sample.packets += packets;
        }
        self.clock = Some(clock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::small_batch::SMALL;
    use crate::port::Sink;
    use crate::tests::{Wire, tcp};
    use crate::{Config, Datapath, Worker};
    use dpif::{DpAction, NoOwner};
    use flow::Flow;
    use flow::compose::compose;
    use std::cell::Cell;
    use std::sync::Arc;
    use units::{Cycles, Millis, PortNo, QueueId, WorkerId};

    thread_local! {
        static NOW: Cell<u64> = const { Cell::new(0) };
    }

    /// Each reading is one later than the previous one.
    fn clock() -> u64 {
        NOW.replace(NOW.get() + 1)
    }

    #[test]
    fn every_stage_has_its_time() {
        let datapath = Datapath::new(&Config { max_flows: 10, seed: 1, ..Config::default() });
        for no in [1, 2] {
            datapath.add_port(PortNo(no), vec![Box::new(Sink)]).unwrap();
        }
        let (key, mask) = (Flow { in_port: 1, ..tcp(1, 80) }, Flow { tp_dst: 0xffff, ..Flow::ZERO });
        let actions: Arc<[DpAction]> = Arc::new([DpAction::Output(PortNo(2))]);
        datapath.flow_put(&key, &mask, actions, Arc::new(NoOwner)).unwrap();
        let mut worker = datapath.worker(WorkerId(0), 0);
        let wire = Wire::default();
        worker.add_rxq(PortNo(1), QueueId(0), Box::new(wire.clone()));
        assert_eq!(worker.stage_times(), StageTimes::default());
        worker.time_stages(clock);
        (0..=SMALL).for_each(|_| wire.put(&compose(&key, b"")));
        worker.poll(Millis(0), Cycles(0));
        // The fixed costs of an iteration arise before the first queue and after the last one.
        let times = |worker: &Worker| worker.stage_times().map(|stage| (stage.time, stage.ends));
        assert_eq!(times(&worker), [1, 1, 1, 1, 1, 2].map(|n| (n, n)));
        wire.put(&compose(&key, b""));
        worker.poll(Millis(0), Cycles(0));
        assert_eq!(
            times(&worker),
            [2, 1, 2, 2, 2, 4].map(|n| (n, n)),
            "packets of a small batch are read as they are looked up"
        );
        worker.poll(Millis(0), Cycles(0));
        assert_eq!(times(&worker), [3, 1, 2, 2, 3, 6].map(|n| (n, n)), "nothing came");
    }

    #[test]
    fn one_iteration_in_many_is_timed() {
        let datapath = Datapath::new(&Config { max_flows: 10, seed: 1, ..Config::default() });
        datapath.add_port(PortNo(1), vec![Box::new(Sink)]).unwrap();
        let mut worker = datapath.worker(WorkerId(0), 0);
        worker.sample_stages(clock);
        let wire = Wire::default();
        worker.add_rxq(PortNo(1), QueueId(0), Box::new(wire.clone()));
        let sample = || datapath.worker_stages(WorkerId(0));
        for _ in 0..1024 {
            wire.put(&compose(&Flow { in_port: 1, ..tcp(1, 80) }, b""));
            worker.poll(Millis(0), Cycles(0));
        }
        assert_eq!(sample(), StageSample::default());
        // A sleep between two iterations belongs to no stage.
        let before = NOW.get();
        NOW.set(before + 1_000_000);
        worker.slept(Cycles(1_000_000));
        for _ in 0..2 {
            wire.put(&compose(&Flow { in_port: 1, ..tcp(1, 80) }, b""));
            worker.poll(Millis(0), Cycles(0));
        }
        let StageSample { cycles, packets } = sample();
        assert_eq!(packets, 1);
        assert!(cycles[PathStage::Receive as usize] > 0 && cycles.iter().sum::<u64>() < 100, "{cycles:?}");
        // Iterations without packets do not count.
        for _ in 0..3000 {
            worker.poll(Millis(0), Cycles(0));
        }
        assert_eq!(sample(), StageSample { cycles, packets });
    }
}
