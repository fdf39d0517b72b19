//! Time of a worker by stage of the path, measured on demand.
//!
//! If it is not measured, it costs a check of one empty pointer per stage and batch.

/// A part of a worker's iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PathStage {
    /// The rx queues fill a batch.
    Receive,
    /// Keys are read from packets.
    Extract,
    /// Megaflows are found: in the last megaflow, the flow cache, the subtables.
    LookUp,
    /// Packets are counted, rewritten, and put into bursts; bursts that are full are sent.
    Execute,
    /// Bursts are sent at the end of the iteration, and buffers are freed.
    Transmit,
    /// Everything else: the fixed costs of an iteration, a queue or a batch.
    Turn,
}

impl PathStage {
    /// All stages, in the order of the path.
    pub const ALL: [PathStage; 6] = [
        PathStage::Receive,
        PathStage::Extract,
        PathStage::LookUp,
        PathStage::Execute,
        PathStage::Transmit,
        PathStage::Turn,
    ];

    /// The name in lower case.
    pub fn name(self) -> &'static str {
        ["receive", "extract", "look up", "execute", "transmit", "turn"][self as usize]
    }
}

/// The measurement of one stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTime {
    /// Total time, in the unit of the clock.
    pub time: u64,
    /// How many times the stage ended; each end reads the clock once.
    pub ends: u64,
}

/// All stages, by [`PathStage`].
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

    /// Ends a stage: the time since the end of the previous stage is added to it.
    pub(crate) fn end(&mut self, stage: PathStage) {
        let now = (self.read)();
        let StageTime { time, ends } = &mut self.times[stage as usize];
        (*time, *ends) = (*time + now.saturating_sub(self.last), *ends + 1);
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        wire.put(&compose(&key, b""));
        worker.poll(Millis(0), Cycles(0));
        // The fixed costs of an iteration arise before the first queue and after the last one.
        let times = |worker: &Worker| worker.stage_times().map(|stage| (stage.time, stage.ends));
        assert_eq!(times(&worker), [1, 1, 1, 1, 1, 2].map(|n| (n, n)));
        worker.poll(Millis(0), Cycles(0));
        assert_eq!(times(&worker), [2, 1, 1, 1, 2, 4].map(|n| (n, n)), "nothing came");
    }
}
