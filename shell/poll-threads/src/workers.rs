//! All workers of one datapath, as the main thread manages them.

use crate::answers::{Answers, Silent, Unanswered, join};
use crate::cycles;
use crate::forecast::ForecastLoop;
use crate::handle::{MAIN, Mode, Runner, WorkerHandle, WorkerPlace, inline, threaded};
use crate::load::WorkerLoad;
use crate::log::LOG;
use crate::mailbox::{Mailbox, Order, Wakeup};
use crate::polling::Polling;
use crate::ports::{PolledPort, Ports, RxqView};
use crate::recording::Metrics;
use crate::thread_state::ThreadState;
use crate::threads;
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
    pub(crate) polling: Polling,
    pub(crate) sleep: SleepMax,
    pub(crate) latency: LatencyTarget,
    /// By identity: first the worker of kernel ports, then by core.
    pub(crate) handles: BTreeMap<WorkerId, WorkerHandle>,
    pub(crate) metrics: Metrics,
    pub(crate) ports: Ports,
    pub(crate) unanswered: Unanswered,
    /// `reconfigure` has something to do.
    pub(crate) due: bool,
    /// The next reconfiguration reassigns every rx queue; without it queues keep their core where possible.
    pub(crate) reassign: bool,
    pub(crate) ticker: Ticker,
    pub(crate) balancer: Balancer,
    pub(crate) predict: ForecastLoop,
    /// As of the last `tick`.
    pub(crate) now: Millis,
}

impl Workers {
    /// The workers run in the main loop; `park`: handler threads translate for them.
    pub fn inline(datapath: &Datapath, topology: &Arc<Topology>, park: bool) -> Workers {
        let mailbox = Arc::new(Mailbox::new(Wakeup::None));
        let state =
            ThreadState::sleeping(inline(datapath.worker(MAIN, 0), &mailbox, park), Arc::clone(&mailbox));
        Workers::new(Mode::Inline(park), topology, mailbox, Runner::Inline(Box::new(state)))
    }

    /// Threads of their own.
    pub fn threads(datapath: &Datapath, topology: &Arc<Topology>, clock: &Clock) -> std::io::Result<Workers> {
        let poll = PollLoop::new(clock.clone())?;
        let mailbox = Arc::new(Mailbox::new(Wakeup::Waker(poll.waker())));
        let worker = threaded(datapath.worker(MAIN, 0), &mailbox);
        let state = ThreadState::sleeping(worker, Arc::clone(&mailbox));
        let thread = threads::sleeping(state, poll)?;
        Ok(Workers::new(Mode::Threads(clock.clone()), topology, mailbox, Runner::Thread(thread)))
    }

    fn new(mode: Mode, topology: &Arc<Topology>, mailbox: Arc<Mailbox>, runner: Runner) -> Workers {
        let place =
            WorkerPlace { id: MAIN, core: CoreId::UNPINNED, numa: 0, isolated: false, since: Millis(0) };
        Workers {
            mode,
            topology: Arc::clone(topology),
            polling: Polling::default(),
            sleep: SleepMax::default(),
            latency: LatencyTarget::default(),
            handles: BTreeMap::from([(
                MAIN,
                WorkerHandle { place, mailbox, runner, load: WorkerLoad::default(), recorded: false },
            )]),
            metrics: Metrics::default(),
            ports: Ports::default(),
            unanswered: Unanswered::default(),
            due: false,
            reassign: false,
            ticker: Ticker::default(),
            balancer: Balancer::default(),
            predict: ForecastLoop::default(),
            now: Millis(0),
        }
    }

    /// The settings of the database; in force after `reconfigure`.
    pub fn configure(&mut self, polling: &Polling) {
        let scheduling = |p: &Polling| (p.mask.clone(), p.algorithm, p.isolate);
        self.due |= scheduling(&self.polling) != scheduling(polling);
        self.reassign |= self.polling.algorithm != polling.algorithm;
        self.polling = polling.clone();
        self.record(polling.metrics);
        self.set_balance(polling.balance);
    }

    /// Sets the longest load-based sleep; logs it.
    pub fn set_sleep(&mut self, sleep: &SleepMax) {
        self.sleep = sleep.clone();
        runtime::info!(LOG, "Default PMD thread max sleep: {:4} us.", sleep.default.0);
        for handle in self.handles.values().filter(|s| s.place.id != MAIN) {
            self.log_sleep(handle);
        }
        self.deliver();
    }

    /// Sets the latency target of sleeps; logs it.
    pub fn set_latency(&mut self, target: &LatencyTarget) {
        if *target == self.latency {
            return;
        }
        self.latency = target.clone();
        runtime::info!(LOG, "Default PMD thread latency target: {:4} us.", target.default.0);
        for handle in self.handles.values().filter(|s| s.place.id != MAIN) {
            handle.mailbox.post(Order::LatencyTarget(target.of(handle.place.core)));
        }
        self.deliver();
    }

    /// The latency target of sleeps.
    pub fn latency(&self) -> &LatencyTarget {
        &self.latency
    }

    pub(crate) fn log_sleep(&self, handle: &WorkerHandle) {
        let WorkerPlace { core, numa, .. } = handle.place;
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

    /// The settings of the database.
    pub fn polling(&self) -> &Polling {
        &self.polling
    }

    /// The longest load-based sleep.
    pub fn sleep(&self) -> &SleepMax {
        &self.sleep
    }

    /// Reassigns all queues by their load in the last minute.
    pub fn rebalance(&mut self) {
        (self.due, self.reassign) = (true, true);
    }

    /// Adds a port's queues; `reconfigure` gives them to workers.
    pub fn add(&mut self, no: PortNo, port: PolledPort, handles: Vec<RxHandle>) {
        self.ports.add(no, port, handles);
        self.due = true;
    }

    /// The queues of a port that an administrator pinned.
    pub fn pin(&mut self, no: PortNo, affinity: BTreeMap<QueueId, CoreId>) {
        self.due |= self.ports.pin(no, affinity);
    }

    /// Sets the NUMA node of a port's memory.
    pub fn set_numa(&mut self, no: PortNo, numa: NumaId) {
        self.due |= self.ports.set_numa(no, numa);
    }

    /// Removes a port. After this no worker uses its queues, except workers that have not answered in time: those drop the queues
    /// when they continue.
    pub fn remove(&mut self, no: PortNo) {
        let _ = self.take_back(no);
        self.unanswered.forget(no);
        self.due |= self.ports.remove(no);
    }

    /// Takes a port's queues back before it gets new ones. After this no worker uses the old ones. An error: a worker may still use
    /// them; the next call asks it again.
    pub fn take_back(&mut self, no: PortNo) -> Result<(), Silent> {
        let mut answers = Answers::default();
        for (id, owner) in self.ports.queues_of(no) {
            if let Some(handle) = owner.and_then(|owner| self.handles.get(&owner)) {
                handle.mailbox.post(Order::Drop((no, id), answers.of(handle.place.id)));
            }
        }
        self.deliver();
        self.ports.clear(no);
        self.await_queues(no, answers)
    }

    /// Waits until no worker holds a part of the datapath that was replaced before. An error: a worker may still hold one.
    pub fn settle(&mut self) -> Result<(), Silent> {
        let mut answers = Answers::default();
        self.handles.iter().for_each(|(id, s)| s.mailbox.post(Order::Settle(answers.of(*id))));
        self.deliver();
        self.await_answers_of(answers)
    }

    /// The number of workers after `reconfigure`, each of which sends: a port with as many tx queues has one for each. `polled`: there
    /// will be a poll-mode port.
    pub fn senders(&self, polled: bool) -> usize {
        self.wanted(polled).cores.len() + 1
    }

    /// Whether `reconfigure` has something to do.
    pub fn is_due(&self) -> bool {
        self.due
    }

    /// Dummy mode: workers carry out their orders until no worker has any.
    pub(crate) fn deliver(&mut self) {
        loop {
            let mut busy = false;
            for handle in self.handles.values_mut() {
                if let Runner::Inline(state) = &mut handle.runner
                    && handle.mailbox.has_mail()
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

    /// Dummy mode: polls each worker once. Returns whether there were packets.
    pub fn poll_inline(&mut self, clock: &Clock) -> bool {
        let now = clock.now();
        let mut busy = false;
        for handle in self.handles.values_mut() {
            if let Runner::Inline(state) = &mut handle.runner {
                busy |= state.poll(now, cycles::now(), cycles::now);
                state.worker.rest();
            }
        }
        busy
    }

    /// Dummy mode: whether a worker has packets that wait for an answer.
    pub fn await_answers(&self) -> bool {
        self.handles.values().any(|s| match &s.runner {
            Runner::Inline(state) => state.worker.has_parked(),
            Runner::Thread(_) => false,
        })
    }

    /// When the main loop must wake: for the next forecast; in dummy mode also for packets.
    pub fn wait<'a>(&'a self, set: &mut WaitSet<'a>) {
        self.next_forecast().into_iter().for_each(|at| set.deadline(at));
        for handle in self.handles.values() {
            if let Runner::Inline(state) = &handle.runner {
                state.fds().for_each(|fd| {
                    set.fd(fd, Interest::Read);
                });
            }
        }
    }

    /// The workers: first the one of kernel ports, then by core.
    pub fn places(&self) -> Vec<WorkerPlace> {
        self.handles.values().map(|s| s.place).collect()
    }

    /// At the end of an interval, stores the load of queues and workers, and balances.
    pub fn tick(&mut self, datapath: &Datapath, now: Millis) {
        self.now = now;
        if self.ticker.due(now) {
            self.sample(datapath);
        }
        if self.policy() == Policy::Variance {
            self.balance(now);
        }
        self.predict(datapath, now);
    }

    /// How busy a worker was.
    pub fn load(&self, worker: WorkerId) -> Option<&WorkerLoad> {
        self.handles.get(&worker).map(|s| &s.load)
    }

    /// The queues of poll-mode ports that a worker polls.
    pub fn rxqs(&self, worker: WorkerId) -> impl Iterator<Item = RxqView<'_>> {
        self.ports.of_worker(worker, false)
    }

    /// The same, with the queues of kernel ports.
    pub fn all_rxqs(&self, worker: WorkerId) -> impl Iterator<Item = RxqView<'_>> {
        self.ports.of_worker(worker, true)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for no in self.ports.numbers() {
            self.remove(no);
        }
        for handle in self.handles.values() {
            handle.mailbox.post(Order::Stop);
        }
        for handle in std::mem::take(&mut self.handles).into_values() {
            if let Runner::Thread(thread) = handle.runner {
                join(thread, handle.place.core);
            }
        }
    }
}
