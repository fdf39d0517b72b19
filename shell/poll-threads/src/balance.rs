//! Auto load balance (`pmd-auto-lb`): passes the loads to crate `pmd`, and carries out its decisions.

use crate::handle::{KERNEL_WORKER, WorkerHandle, worker_of};
use crate::log::LOG;
use crate::workers::Workers;
use datapath::{Datapath, Event};
use pmd::balance::{DryRunCore, Settings, dry_run};
use runtime::log::Level;
use units::{CoreId, Cycles, Millis, NumaId, WorkerId};

impl Workers {
    /// Applies the settings of auto load balance.
    pub(crate) fn set_balance(&mut self, settings: Settings) {
        for line in self.balancer.configure(settings) {
            runtime::info!(LOG, "{line}");
        }
    }

    /// Stores the load of queues and workers at the end of an interval of 5 s.
    pub(crate) fn sample(&mut self, datapath: &Datapath) {
        self.ports.sample();
        let settings = self.balancer.settings();
        for (id, handle) in &mut self.workers {
            let tally = datapath.worker_tally(*id);
            let busy = tally.get(Event::BusyCycles);
            let all = busy + tally.get(Event::IdleCycles);
            let load = &mut handle.load;
            load.busy.sample(Cycles(busy));
            load.all.sample(Cycles(all));
            load.asleep.sample(Cycles(tally.get(Event::SleepCycles)));
            if settings.on && !handle.info.isolated {
                load.overload.interval(load.busy.last(), load.elapsed(), settings.load);
            }
        }
    }

    /// Reassigns the queues if a dry run reaches the configured improvement.
    pub(crate) fn balance(&mut self, now: Millis) {
        if !self.balancer.begin_check_if_due(now)
            || self.reconfiguration_due
            || !self.pmd_threads().any(|s| s.load.overload.lasts_a_minute())
        {
            return;
        }
        let queues = |handle: &WorkerHandle| self.ports.of_worker(handle.info.id, false).count();
        let cores: Vec<(DryRunCore, usize)> =
            self.pmd_threads().map(|s| (dry_run_core(s), queues(s))).collect();
        if let Err(why) = self.balancer.can_improve(self.pmd_settings.algorithm, &cores) {
            runtime::debug!(LOG, "PMD auto load balance nothing to do, {why}");
            return;
        }
        runtime::debug!(LOG, "PMD auto load balance performing dry run.");
        let cores: Vec<DryRunCore> = cores.into_iter().map(|(core, _)| core).collect();
        let rxqs = self.ports.pmd_queues();
        let owners: Vec<_> = rxqs.iter().map(|q| self.core_of(self.ports.owner((q.no, q.queue))?)).collect();
        let how = (self.pmd_settings.algorithm, self.pmd_settings.isolate);
        let dry_run_result = dry_run(&cores, &rxqs, &owners, how, self.balancer.settings().improvement);
        for line in dry_run_result.lines.iter().filter(|_| LOG.enabled(Level::Dbg)) {
            runtime::debug!(LOG, "{line}");
        }
        if dry_run_result.worthwhile {
            runtime::info!(LOG, "PMD auto load balance dry run. Requesting datapath reconfigure.");
            self.request_reassignment();
        }
    }

    /// The PMD threads.
    fn pmd_threads(&self) -> impl Iterator<Item = &WorkerHandle> {
        self.workers.values().filter(|s| s.info.id != KERNEL_WORKER)
    }

    /// The core of a PMD thread; `None` for the worker of kernel ports.
    pub(crate) fn core_of(&self, worker: WorkerId) -> Option<CoreId> {
        self.pmd_threads().map(|s| s.info.core).find(|core| worker_of(*core) == worker)
    }
}

fn dry_run_core(handle: &WorkerHandle) -> DryRunCore {
    let info = &handle.info;
    let core = pmd::Core { id: info.core, numa: NumaId(info.numa) };
    DryRunCore { core, isolated: info.isolated, cycles: handle.load.elapsed() }
}
