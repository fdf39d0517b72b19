//! Auto load balance: what the decision (core/pmd) needs to know, and what comes of it.

use super::{LOG, MAIN, Seat, Workers, worker_of};
use datapath::{Datapath, Event};
use pmd::balance::{Polling, Settings, try_out};
use runtime::log::Level;
use units::{CoreId, Cycles, Millis, NumaId, WorkerId};

impl Workers {
    /// What the database says of it.
    pub(super) fn set_balance(&mut self, settings: Settings) {
        for line in self.balancer.configure(settings) {
            runtime::info!(LOG, "{line}");
        }
    }

    /// Remembers how busy queues and workers were in the interval that ended.
    pub(super) fn sample(&mut self, datapath: &Datapath) {
        self.ports.sample();
        let settings = self.balancer.settings();
        for (id, seat) in &mut self.seats {
            let tally = datapath.worker_tally(*id);
            let busy = tally.get(Event::BusyCycles);
            let all = busy + tally.get(Event::IdleCycles);
            let load = &mut seat.load;
            load.busy.sample(Cycles(busy));
            load.all.sample(Cycles(all));
            load.asleep.sample(Cycles(tally.get(Event::SleepCycles)));
            if settings.on && !seat.place.isolated {
                load.overload.interval(load.busy.last(), load.elapsed(), settings.load);
            }
        }
    }

    /// Gives the queues out anew where that promises to help.
    pub(super) fn balance(&mut self, now: Millis) {
        if !self.balancer.is_time(now) || self.due || !self.poll_threads().any(|s| s.load.overload.lasts()) {
            return;
        }
        let queues = |seat: &Seat| self.ports.of_worker(seat.place.id, false).count();
        let cores: Vec<(Polling, usize)> = self.poll_threads().map(|s| (polling(s), queues(s))).collect();
        if let Err(why) = self.balancer.is_promising(self.polling.algorithm, &cores) {
            runtime::debug!(LOG, "PMD auto load balance nothing to do, {why}");
            return;
        }
        runtime::debug!(LOG, "PMD auto load balance performing dry run.");
        let cores: Vec<Polling> = cores.into_iter().map(|(core, _)| core).collect();
        let rxqs = self.ports.polled();
        let owners: Vec<_> = rxqs.iter().map(|q| self.core_of(self.ports.owner((q.no, q.queue))?)).collect();
        let how = (self.polling.algorithm, self.polling.isolate);
        let trial = try_out(&cores, &rxqs, &owners, how, self.balancer.settings().improvement);
        for line in trial.lines.iter().filter(|_| LOG.enabled(Level::Dbg)) {
            runtime::debug!(LOG, "{line}");
        }
        if trial.worthwhile {
            runtime::info!(LOG, "PMD auto load balance dry run. Requesting datapath reconfigure.");
            self.rebalance();
        }
    }

    fn poll_threads(&self) -> impl Iterator<Item = &Seat> {
        self.seats.values().filter(|s| s.place.id != MAIN)
    }

    pub(super) fn core_of(&self, worker: WorkerId) -> Option<CoreId> {
        self.poll_threads().map(|s| s.place.core).find(|core| worker_of(*core) == worker)
    }
}

fn polling(seat: &Seat) -> Polling {
    let place = &seat.place;
    let core = pmd::Core { id: place.core, numa: NumaId(place.numa) };
    Polling { core, isolated: place.isolated, cycles: seat.load.elapsed() }
}
