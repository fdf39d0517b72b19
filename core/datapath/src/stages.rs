//! Where a worker's time goes: the stages of the path, timed on demand.
//!
//! A worker that is not asked looks at one empty pointer per stage and batch.

/// A part of a worker's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PathStage {
    /// The rx queues fill a batch.
    Receive,
    /// Keys are read from packets.
    Extract,
    /// Megaflows are found: by the last one, the cache, the subtables.
    LookUp,
    /// Packets are counted, rewritten, and put into bursts; bursts that are full are sent.
    Execute,
    /// Bursts are sent at the end of the turn, and buffers freed.
    Transmit,
    /// Everything else: what a turn, a queue or a batch costs without packets.
    Turn,
}

impl PathStage {
    /// All of them, in the order of the path.
    pub const ALL: [PathStage; 6] = [
        PathStage::Receive,
        PathStage::Extract,
        PathStage::LookUp,
        PathStage::Execute,
        PathStage::Transmit,
        PathStage::Turn,
    ];

    /// In lower case.
    pub fn name(self) -> &'static str {
        ["receive", "extract", "look up", "execute", "transmit", "turn"][self as usize]
    }
}

/// What was found of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTime {
    /// How long it took in all, in the unit of the clock.
    pub time: u64,
    /// How often it ended, which reads the clock once.
    pub ends: u64,
}

/// All stages, by [`PathStage`].
pub type StageTimes = [StageTime; PathStage::ALL.len()];

/// The clock of a worker that is asked, and what it has found.
pub(crate) struct StageClock {
    read: fn() -> u64,
    last: u64,
    pub(crate) times: StageTimes,
}

impl StageClock {
    pub(crate) fn new(read: fn() -> u64) -> StageClock {
        StageClock { read, last: read(), times: StageTimes::default() }
    }

    /// A stage is over: the time since the one before it is its own.
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

    /// Each reading is one later than the one before.
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
        // What a turn costs comes before the first queue and behind the last.
        let times = |worker: &Worker| worker.stage_times().map(|stage| (stage.time, stage.ends));
        assert_eq!(times(&worker), [1, 1, 1, 1, 1, 2].map(|n| (n, n)));
        worker.poll(Millis(0), Cycles(0));
        assert_eq!(times(&worker), [2, 1, 1, 1, 2, 4].map(|n| (n, n)), "nothing came");
    }
}
