//! All workers of one datapath, as the main thread manages them.

use crate::answers::{Answers, Unanswered, WorkerTimeout, join};
use crate::cycles;
use crate::forecast::PredictiveState;
use crate::handle::{KERNEL_WORKER, Mode, Runner, WorkerHandle, WorkerInfo, inline, threaded};
use crate::load::WorkerLoad;
use crate::log::LOG;
use crate::mailbox::{Mailbox, Order, Wakeup};
use crate::pmd_settings::PmdSettings;
use crate::ports::{PortScheduling, Ports, RxqView};
use crate::recording::Metrics;
use crate::thread_loops;
use crate::thread_state::ThreadState;
use datapath::Datapath;
use netdev::device::RxHandle;
use pmd::balance::Balancer;
use pmd::load::Ticker;
use pmd::{LatencyTarget, Policy, SleepMax, Topology};
use runtime::poll_loop::Interest;
use runtime::{Clock, PollLoop, WaitSet};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{CoreId, Millis, NumaId, PortNo, QueueId, WorkerId};

/// All workers of one datapath.
pub struct Workers {
    pub(crate) mode: Mode,
    pub(crate) topology: Arc<Topology>,
    pub(crate) pmd_settings: PmdSettings,
    pub(crate) sleep: SleepMax,
    pub(crate) latency: LatencyTarget,
    /// The workers: first the worker of kernel ports, then by core.
    pub(crate) workers: BTreeMap<WorkerId, WorkerHandle>,
    pub(crate) metrics: Metrics,
    pub(crate) ports: Ports,
    pub(crate) unanswered: Unanswered,
    /// There are recorded changes that `reconfigure` must carry out.
    pub(crate) reconfiguration_due: bool,
    /// The next reconfiguration reassigns every rx queue, also under the predictive policy, which otherwise keeps queues on
    /// their cores where possible. (The variance policy always reassigns every queue.)
    pub(crate) reassign: bool,
    pub(crate) ticker: Ticker,
    pub(crate) balancer: Balancer,
    pub(crate) predict: PredictiveState,
    /// Time of the last `tick`.
    pub(crate) now: Millis,
}

impl Workers {
    /// Creates the worker of kernel ports, which the main loop runs (dummy mode); `reconfigure` adds workers. `park`:
    /// handlers translate their misses.
    pub fn new_inline(datapath: &Datapath, topology: &Arc<Topology>, park: bool) -> Workers {
        let mailbox = Arc::new(Mailbox::new(Wakeup::None));
        let state = ThreadState::sleeping(
            inline(datapath.worker(KERNEL_WORKER, 0), &mailbox, park),
            Arc::clone(&mailbox),
        );
        Workers::new(Mode::Inline(park), topology, mailbox, Runner::Inline(Box::new(state)))
    }

    /// Creates the worker of kernel ports, on a thread of its own; `reconfigure` starts PMD threads.
    pub fn new_threaded(
        datapath: &Datapath,
        topology: &Arc<Topology>,
        clock: &Clock,
    ) -> std::io::Result<Workers> {
        let poll = PollLoop::new(clock.clone())?;
        let mailbox = Arc::new(Mailbox::new(Wakeup::Waker(poll.waker())));
        let worker = threaded(datapath.worker(KERNEL_WORKER, 0), &mailbox);
        let state = ThreadState::sleeping(worker, Arc::clone(&mailbox));
        let thread = thread_loops::start_kernel_thread(state, poll)?;
        Ok(Workers::new(Mode::Threads(clock.clone()), topology, mailbox, Runner::Thread(thread)))
    }

    fn new(mode: Mode, topology: &Arc<Topology>, mailbox: Arc<Mailbox>, runner: Runner) -> Workers {
        let info = WorkerInfo {
            id: KERNEL_WORKER,
            core: CoreId::UNPINNED,
            numa: 0,
            isolated: false,
            since: Millis(0),
        };
        Workers {
            mode,
            topology: Arc::clone(topology),
            pmd_settings: PmdSettings::default(),
            sleep: SleepMax::default(),
            latency: LatencyTarget::default(),
            workers: BTreeMap::from([(
                KERNEL_WORKER,
                WorkerHandle { info, mailbox, runner, load: WorkerLoad::default(), recorded: false },
            )]),
            metrics: Metrics::default(),
            ports: Ports::default(),
            unanswered: Unanswered::default(),
            reconfiguration_due: false,
            reassign: false,
            ticker: Ticker::default(),
            balancer: Balancer::default(),
            predict: PredictiveState::default(),
            now: Millis(0),
        }
    }

    /// Records the settings of the database. Cores and assignment change at the next `reconfigure`.
    pub fn configure(&mut self, settings: &PmdSettings) {
        let scheduling = |p: &PmdSettings| (p.mask.clone(), p.algorithm, p.isolate);
        self.reconfiguration_due |= scheduling(&self.pmd_settings) != scheduling(settings);
        self.reassign |= self.pmd_settings.algorithm != settings.algorithm;
        self.pmd_settings = settings.clone();
        self.set_recording(settings.metrics);
        self.set_balance(settings.balance);
    }

    /// Sets and logs the longest load-based sleep.
    pub fn set_sleep(&mut self, sleep: &SleepMax) {
        self.sleep = sleep.clone();
        runtime::info!(LOG, "Default PMD thread max sleep: {:4} us.", sleep.default.0);
        for handle in self.workers.values().filter(|s| s.info.id != KERNEL_WORKER) {
            self.send_sleep_settings(handle);
        }
        self.deliver();
    }

    /// Sets and logs the latency target.
    pub fn set_latency(&mut self, target: &LatencyTarget) {
        if *target == self.latency {
            return;
        }
        self.latency = target.clone();
        runtime::info!(LOG, "Default PMD thread latency target: {:4} us.", target.default.0);
        for handle in self.workers.values().filter(|s| s.info.id != KERNEL_WORKER) {
            handle.mailbox.post(Order::LatencyTarget(target.of(handle.info.core)));
        }
        self.deliver();
    }

    /// The latency target.
    pub fn latency_target(&self) -> &LatencyTarget {
        &self.latency
    }

    /// Sends a PMD thread its settings of sleeps, and logs its longest load-based sleep.
    pub(crate) fn send_sleep_settings(&self, handle: &WorkerHandle) {
        let WorkerInfo { core, numa, .. } = handle.info;
        let max = self.sleep.of(core);
        runtime::info!(
            LOG,
            "PMD thread on numa_id: {numa}, core id: {:2}, max sleep: {:4} us.",
            core.0,
            max.0
        );
        handle.mailbox.post(Order::SleepMax(max));
        handle.mailbox.post(Order::LatencyTarget(self.latency.of(core)));
    }

    /// The settings of PMD threads in the database.
    pub fn pmd_settings(&self) -> &PmdSettings {
        &self.pmd_settings
    }

    /// The longest load-based sleep.
    pub fn sleep_max(&self) -> &SleepMax {
        &self.sleep
    }

    /// The next `reconfigure` reassigns all queues by their load in the last minute.
    pub fn request_reassignment(&mut self) {
        (self.reconfiguration_due, self.reassign) = (true, true);
    }

    /// Adds a port's queues; the next `reconfigure` assigns them to workers.
    pub fn add(&mut self, no: PortNo, port: PortScheduling, rx_queues: Vec<RxHandle>) {
        self.ports.add(no, port, rx_queues);
        self.reconfiguration_due = true;
    }

    /// Sets which queues of a port are pinned to cores (`pmd-rxq-affinity`).
    pub fn pin(&mut self, no: PortNo, affinity: BTreeMap<QueueId, CoreId>) {
        self.reconfiguration_due |= self.ports.pin(no, affinity);
    }

    /// Sets the NUMA node of a port's memory.
    pub fn set_numa(&mut self, no: PortNo, numa: NumaId) {
        self.reconfiguration_due |= self.ports.set_numa(no, numa);
    }

    /// Removes a port. After this call no worker uses its queues, except workers that did not answer in time: they drop
    /// the queues when they continue.
    pub fn remove(&mut self, no: PortNo) {
        let _ = self.withdraw_queues(no);
        self.unanswered.forget(no);
        self.reconfiguration_due |= self.ports.remove(no);
    }

    /// Withdraws a port's queues from the workers, before the port gets new queues. After `Ok` no worker uses the old
    /// queues. After an error a worker may still use them; the next call for
    /// this port, or its removal, waits for that worker again.
    pub fn withdraw_queues(&mut self, no: PortNo) -> Result<(), WorkerTimeout> {
        let mut answers = Answers::default();
        for (id, owner) in self.ports.queues_of(no) {
            if let Some(handle) = owner.and_then(|owner| self.workers.get(&owner)) {
                handle.mailbox.post(Order::Release((no, id), answers.sender_for(handle.info.id)));
            }
        }
        self.deliver();
        self.ports.withdraw_queues(no);
        self.await_queues(no, answers)
    }

    /// Waits until no worker holds a part of the datapath that was replaced before this call. After an error a worker may
    /// still hold such a part.
    pub fn wait_for_release(&mut self) -> Result<(), WorkerTimeout> {
        let mut answers = Answers::default();
        self.workers
            .iter()
            .for_each(|(id, s)| s.mailbox.post(Order::ReleaseReplaced(answers.sender_for(*id))));
        self.deliver();
        self.await_answers_of(answers)
    }

    /// The number of workers after `reconfigure`. Each worker sends, so a port with this many tx queues has one for each.
    /// `polled`: count as if there were a poll-mode port.
    pub fn worker_count(&self, polled: bool) -> usize {
        self.wanted(polled).cores.len() + 1
    }

    /// Whether there are recorded changes that `reconfigure` must carry out.
    pub fn is_due(&self) -> bool {
        self.reconfiguration_due
    }

    /// In dummy mode, the workers carry out orders until no mailbox has an order. Otherwise does nothing.
    pub(crate) fn deliver(&mut self) {
        loop {
            let mut busy = false;
            for handle in self.workers.values_mut() {
                if let Runner::Inline(state) = &mut handle.runner
                    && handle.mailbox.may_have_orders()
                {
                    state.carry_out_orders(self.now);
                    busy = true;
                }
            }
            if !busy {
                return;
            }
        }
    }

    /// In dummy mode, polls each worker once. Returns whether a worker had something to do.
    pub fn poll_inline(&mut self, clock: &Clock) -> bool {
        let now = clock.now();
        let mut busy = false;
        for handle in self.workers.values_mut() {
            if let Runner::Inline(state) = &mut handle.runner {
                busy |= state.poll(now, cycles::now(), cycles::now);
                state.worker.go_idle();
            }
        }
        busy
    }

    /// In dummy mode, whether a worker has parked packets.
    pub fn has_parked_packets(&self) -> bool {
        self.workers.values().any(|s| match &s.runner {
            Runner::Inline(state) => state.worker.has_parked(),
            Runner::Thread(_) => false,
        })
    }

    /// Adds the events for which the main loop must wake: the next forecast, and in dummy mode received packets.
    pub fn wait<'a>(&'a self, set: &mut WaitSet<'a>) {
        self.next_forecast().into_iter().for_each(|at| set.deadline(at));
        for handle in self.workers.values() {
            if let Runner::Inline(state) = &handle.runner {
                state.fds().for_each(|fd| {
                    set.fd(fd, Interest::Read);
                });
            }
        }
    }

    /// All workers: first the worker of kernel ports, then by core.
    pub fn infos(&self) -> Vec<WorkerInfo> {
        self.workers.values().map(|s| s.info).collect()
    }

    /// Called in every turn of the main loop: stores the load of queues and workers at the end of each interval, and runs
    /// auto load balance.
    pub fn tick(&mut self, datapath: &Datapath, now: Millis) {
        self.now = now;
        if self.ticker.due(now) {
            self.sample(datapath);
        }
        if self.policy() == Policy::Variance {
            self.balance(now);
        }
        self.balance_by_forecast(datapath, now);
    }

    /// The load of a worker in the last minute.
    pub fn load(&self, worker: WorkerId) -> Option<&WorkerLoad> {
        self.workers.get(&worker).map(|s| &s.load)
    }

    /// The queues of poll-mode ports that a worker polls.
    pub fn rxqs(&self, worker: WorkerId) -> impl Iterator<Item = RxqView<'_>> {
        self.ports.of_worker(worker, false)
    }

    /// The queues that a worker polls, including those of kernel ports.
    pub fn all_rxqs(&self, worker: WorkerId) -> impl Iterator<Item = RxqView<'_>> {
        self.ports.of_worker(worker, true)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for no in self.ports.numbers() {
            self.remove(no);
        }
        for handle in self.workers.values() {
            handle.mailbox.post(Order::Stop);
        }
        for handle in std::mem::take(&mut self.workers).into_values() {
            if let Runner::Thread(thread) = handle.runner {
                join(thread, handle.info.core);
            }
        }
    }
}
