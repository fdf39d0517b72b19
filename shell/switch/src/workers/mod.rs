//! Who polls the rx queues: poll threads on cores of their own for poll-mode ports, one thread that may sleep for the
//! kernel's ports, or (in dummy mode) the main loop itself.
//!
//! ```text
//! Workers (here, main thread)   seats and ports; reconfigure() says who polls what (core/pmd decides)
//!   ├ ports.rs     the ports and their queues, as the main thread knows them
//!   ├ balance.rs   queues are given out anew when a core has too much to do
//!   ├ predict.rs   the same by forecast, each second
//!   ├ mailbox.rs   orders to a worker; one relaxed load tells that there are none
//!   ├ desk.rs      a worker and how it obeys: queues travel from desk to desk
//!   ├ metrics.rs   what every turn was like, while somebody wants to know
//!   ├ latency_sleep.rs  latency-target sleep
//!   ├ threads.rs   the loops: polling, sleeping
//!   └ waits.rs     the main thread waits for a worker's answer, for a limited time
//! ```
//!
//! Changes are noted and carried out together by `reconfigure`: nobody stops but who gives or takes a queue, between two
//! of its turns. Taking a port away waits for the worker's answer, so that a device is never closed under it; a worker that
//! does not answer keeps what it has, and everything else goes on.
//!
//! In dummy mode time is virtual and scheduling must not show: the main loop polls every worker until none has
//! anything to do, at each of its turns. The workers of poll-mode ports are there all the same.

mod balance;
mod desk;
mod latency_sleep;
mod load;
mod mailbox;
mod metrics;
mod ports;
mod predict;
mod threads;
mod waits;

pub use load::SeatLoad;
pub use ports::{PolledPort, RxqView};
pub use predict::Planned;
pub use waits::Silent;

use crate::cycles;
use datapath::{Datapath, Worker};
use desk::{Desk, Order};
use mailbox::{Bell, Mailbox};
use metrics::Metrics;
use netdev::device::RxHandle;
use pmd::assign::assign;
use pmd::assign::keep::keep;
use pmd::balance::{Balancer, Settings};
use pmd::cores::{Wanted, per_node, wanted};
use pmd::load::Ticker;
use pmd::{Algorithm, Core, LatencyTarget, Policy, SleepMax, Topology};
use ports::{Home, Ports};
use runtime::poll_loop::Interest;
use runtime::{Clock, Module, PollLoop, WaitSet};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use units::{CoreId, Millis, NumaId, PortNo, QueueId, WorkerId};
use waits::{Answers, Unanswered};

static LOG: Module = Module::new("dpif_netdev");

/// The worker of the kernel's ports ("main thread" in `pmd-stats-show`).
pub const MAIN: WorkerId = WorkerId(0);

/// The worker of a core.
fn worker_of(core: CoreId) -> WorkerId {
    WorkerId(1 + core.0 as u16)
}

/// Where a worker runs, for tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerPlace {
    /// Which worker.
    pub id: WorkerId,
    /// The core it is pinned to; `UNPINNED` for the worker of kernel ports.
    pub core: CoreId,
    /// The NUMA node of that core.
    pub numa: u32,
    /// It polls pinned queues only.
    pub isolated: bool,
    /// Since when it is there.
    pub since: Millis,
}

/// What the database says of poll threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Polling {
    /// `pmd-cpu-mask`
    pub mask: Option<String>,
    /// `pmd-rxq-assign`
    pub algorithm: Algorithm,
    /// `pmd-rxq-isolate`
    pub isolate: bool,
    /// `pmd-perf-metrics`
    pub metrics: bool,
    /// `pmd-auto-lb` and what belongs to it.
    pub balance: Settings,
}

impl Default for Polling {
    fn default() -> Polling {
        Polling {
            mask: None,
            algorithm: Algorithm::default(),
            isolate: true,
            metrics: false,
            balance: Settings::default(),
        }
    }
}

/// How workers run.
enum Mode {
    /// In the main loop; whether misses leave them.
    Inline(bool),
    Threads(Clock),
}

/// What runs a worker.
enum Runner {
    Inline(Box<Desk>),
    Thread(JoinHandle<()>),
}

/// A worker, as the main thread knows it.
struct Seat {
    place: WorkerPlace,
    mailbox: Arc<Mailbox>,
    runner: Runner,
    load: SeatLoad,
    /// It records its iterations.
    recorded: bool,
}

/// A worker that lets handler threads translate for it.
fn parking(mut worker: Worker, mailbox: &Arc<Mailbox>) -> Worker {
    let bell = Arc::clone(mailbox);
    worker.park_misses(datapath::park::Limits::default(), Arc::new(move || bell.ring()), cycles::now);
    worker
}

/// A worker on a thread of its own.
fn threaded(worker: Worker, mailbox: &Arc<Mailbox>) -> Worker {
    let mut worker = parking(worker, mailbox);
    worker.set_tick(cycles::per_second() / 1000);
    worker
}

/// A worker of the main loop, where time is virtual and misses leave it or do not.
fn inline(worker: Worker, mailbox: &Arc<Mailbox>, park: bool) -> Worker {
    if park { parking(worker, mailbox) } else { worker }
}

/// All workers of one datapath.
pub struct Workers {
    mode: Mode,
    topology: Arc<Topology>,
    polling: Polling,
    sleep: SleepMax,
    latency: LatencyTarget,
    /// By identity: the one of kernel ports first, then by core.
    seats: BTreeMap<WorkerId, Seat>,
    metrics: Metrics,
    ports: Ports,
    unanswered: Unanswered,
    /// There is something for `reconfigure` to do.
    due: bool,
    /// All queues are to be given out anew, where those that can stay would stay.
    anew: bool,
    ticker: Ticker,
    balancer: Balancer,
    predict: predict::Loop,
    /// As of the last `tick`.
    now: Millis,
}

impl Workers {
    /// The workers run in the main loop; `park`: handler threads translate for them.
    pub fn inline(datapath: &Datapath, topology: &Arc<Topology>, park: bool) -> Workers {
        let mailbox = Arc::new(Mailbox::new(Bell::None));
        let desk = Desk::new(inline(datapath.worker(MAIN, 0), &mailbox, park), Arc::clone(&mailbox));
        Workers::new(Mode::Inline(park), topology, mailbox, Runner::Inline(Box::new(desk)))
    }

    /// Threads of their own.
    pub fn threads(datapath: &Datapath, topology: &Arc<Topology>, clock: &Clock) -> std::io::Result<Workers> {
        let poll = PollLoop::new(clock.clone())?;
        let mailbox = Arc::new(Mailbox::new(Bell::Waker(poll.waker())));
        let worker = threaded(datapath.worker(MAIN, 0), &mailbox);
        let desk = Desk::new(worker, Arc::clone(&mailbox));
        let thread = threads::sleeping(desk, poll)?;
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
            seats: BTreeMap::from([(
                MAIN,
                Seat { place, mailbox, runner, load: SeatLoad::default(), recorded: false },
            )]),
            metrics: Metrics::default(),
            ports: Ports::default(),
            unanswered: Unanswered::default(),
            due: false,
            anew: false,
            ticker: Ticker::default(),
            balancer: Balancer::default(),
            predict: predict::Loop::default(),
            now: Millis(0),
        }
    }

    /// What the database wants; in force after `reconfigure`.
    pub fn configure(&mut self, polling: &Polling) {
        let scheduling = |p: &Polling| (p.mask.clone(), p.algorithm, p.isolate);
        self.due |= scheduling(&self.polling) != scheduling(polling);
        self.anew |= self.polling.algorithm != polling.algorithm;
        self.polling = polling.clone();
        self.record(polling.metrics);
        self.set_balance(polling.balance);
    }

    /// How long poll threads may sleep; tells the log.
    pub fn set_sleep(&mut self, sleep: &SleepMax) {
        self.sleep = sleep.clone();
        runtime::info!(LOG, "Default PMD thread max sleep: {:4} us.", sleep.default.0);
        for seat in self.seats.values().filter(|s| s.place.id != MAIN) {
            self.tell_sleep(seat);
        }
        self.deliver();
    }

    /// How long packets may wait for a poll thread that sleeps; tells the log.
    pub fn set_latency(&mut self, target: &LatencyTarget) {
        if *target == self.latency {
            return;
        }
        self.latency = target.clone();
        runtime::info!(LOG, "Default PMD thread latency target: {:4} us.", target.default.0);
        for seat in self.seats.values().filter(|s| s.place.id != MAIN) {
            seat.mailbox.post(Order::LatencyTarget(target.of(seat.place.core)));
        }
        self.deliver();
    }

    /// How long packets may wait for a poll thread that sleeps.
    pub fn latency(&self) -> &LatencyTarget {
        &self.latency
    }

    fn tell_sleep(&self, seat: &Seat) {
        let WorkerPlace { core, numa, .. } = seat.place;
        let max = self.sleep.of(core);
        runtime::info!(
            LOG,
            "PMD thread on numa_id: {numa}, core id: {:2}, max sleep: {:4} us.",
            core.0,
            max.0
        );
        seat.mailbox.post(Order::SleepMax(max));
        seat.mailbox.post(Order::LatencyTarget(self.latency.of(core)));
    }

    /// What the database says of poll threads.
    pub fn polling(&self) -> &Polling {
        &self.polling
    }

    /// How long poll threads may sleep.
    pub fn sleep(&self) -> &SleepMax {
        &self.sleep
    }

    /// Gives the queues out anew, by what they took in the last minute.
    pub fn rebalance(&mut self) {
        (self.due, self.anew) = (true, true);
    }

    /// Takes a port's queues, to be given to workers by `reconfigure`.
    pub fn add(&mut self, no: PortNo, port: PolledPort, handles: Vec<RxHandle>) {
        self.ports.add(no, port, handles);
        self.due = true;
    }

    /// The queues of a port that an administrator pinned.
    pub fn pin(&mut self, no: PortNo, affinity: BTreeMap<QueueId, CoreId>) {
        self.due |= self.ports.pin(no, affinity);
    }

    /// A port's memory is on that node.
    pub fn set_numa(&mut self, no: PortNo, numa: NumaId) {
        self.due |= self.ports.set_numa(no, numa);
    }

    /// Takes a port away; when this returns no worker touches its queues any more, but those that have not answered in
    /// time: those hold what they hold, and drop it when they are back.
    pub fn remove(&mut self, no: PortNo) {
        let _ = self.take_back(no);
        self.unanswered.forget(no);
        self.due |= self.ports.remove(no);
    }

    /// Takes a port's queues back, to be given new ones; when this returns no worker touches the old ones any more. An
    /// error: some worker may; it is asked again the next time.
    pub fn take_back(&mut self, no: PortNo) -> Result<(), Silent> {
        let mut answers = Answers::default();
        for (id, owner) in self.ports.queues_of(no) {
            if let Some(seat) = owner.and_then(|owner| self.seats.get(&owner)) {
                seat.mailbox.post(Order::Drop((no, id), answers.of(seat.place.id)));
            }
        }
        self.deliver();
        self.ports.clear(no);
        self.await_queues(no, answers)
    }

    /// Waits until no worker holds anything of the datapath that has been replaced before. An error: some worker may.
    pub fn settle(&mut self) -> Result<(), Silent> {
        let mut answers = Answers::default();
        self.seats.iter().for_each(|(id, s)| s.mailbox.post(Order::Settle(answers.of(*id))));
        self.deliver();
        self.await_answers_of(answers)
    }

    /// How many workers send after `reconfigure`: each can have a tx queue of its own where a port has so many. `polled`:
    /// there will be a poll-mode port.
    pub fn senders(&self, polled: bool) -> usize {
        self.wanted(polled).cores.len() + 1
    }

    /// Something was noted that `reconfigure` is to carry out.
    pub fn is_due(&self) -> bool {
        self.due
    }

    fn wanted(&self, polled: bool) -> Wanted {
        match polled || self.ports.any_polled() {
            true => wanted(&self.topology, self.polling.mask.as_deref()),
            // Poll threads burn their core: there are none as long as nobody needs one.
            false => Wanted::default(),
        }
    }

    /// Makes and ends poll threads as the mask says, and gives every queue to the worker that is to poll it.
    pub fn reconfigure(&mut self, datapath: &Datapath) {
        if !std::mem::take(&mut self.due) {
            return;
        }
        self.balancer.changed();
        let wanted = self.wanted(false);
        wanted.warnings.iter().for_each(|text| runtime::warn!(LOG, "{text}"));
        let surplus: Vec<WorkerId> = self
            .seats
            .iter()
            .filter(|(id, s)| **id != MAIN && !wanted.cores.iter().any(|c| c.id == s.place.core))
            .map(|(id, _)| *id)
            .collect();
        for id in &surplus {
            let Some(WorkerPlace { core, numa, .. }) = self.seats.get(id).map(|s| s.place) else { continue };
            runtime::info!(LOG, "PMD thread on numa_id: {numa}, core id: {:2} destroyed.", core.0);
        }
        let created = self.create(datapath, &wanted.cores);
        if created || !surplus.is_empty() {
            for (numa, n) in per_node(wanted.cores.iter().copied()) {
                runtime::info!(LOG, "There are {n} pmd threads on numa node {}", numa.0);
            }
        }
        self.assign(&wanted.cores);
        for id in surplus {
            if let Some(seat) = self.seats.get(&id) {
                seat.mailbox.post(Order::Stop);
            }
            self.deliver();
            if let Some(Seat { runner: Runner::Thread(thread), place, .. }) = self.seats.remove(&id) {
                waits::join(thread, place.core);
            }
        }
        datapath.set_senders(self.seats.len());
        for (n, seat) in self.seats.values().enumerate() {
            seat.mailbox.post(Order::TxQueue(n));
        }
        self.deliver();
    }

    /// Makes the workers that are missing; whether there were any.
    fn create(&mut self, datapath: &Datapath, cores: &[Core]) -> bool {
        let mut created = false;
        for core in cores {
            let id = worker_of(core.id);
            if self.seats.contains_key(&id) {
                continue;
            }
            let place =
                WorkerPlace { id, core: core.id, numa: core.numa.0, isolated: false, since: self.now };
            match self.seat(place, datapath.worker(id, self.seats.len())) {
                Ok(seat) => {
                    self.tell_sleep(&seat);
                    self.seats.insert(id, seat);
                    runtime::info!(
                        LOG,
                        "PMD thread on numa_id: {}, core id: {:2} created.",
                        core.numa.0,
                        core.id.0
                    );
                    created = true;
                }
                Err(e) => runtime::err!(LOG, "PMD thread on core {}: {}", core.id.0, runtime::error_text(&e)),
            }
        }
        created
    }

    fn seat(&self, place: WorkerPlace, worker: Worker) -> std::io::Result<Seat> {
        let (mailbox, runner) = match &self.mode {
            Mode::Inline(park) => {
                let mailbox = Arc::new(Mailbox::new(Bell::None));
                let desk = Desk::new(inline(worker, &mailbox, *park), Arc::clone(&mailbox));
                (mailbox, Runner::Inline(Box::new(desk)))
            }
            Mode::Threads(clock) => {
                let poll = PollLoop::new(clock.clone())?;
                let mailbox = Arc::new(Mailbox::new(Bell::poller(poll.waker())));
                let desk = Desk::new(threaded(worker, &mailbox), Arc::clone(&mailbox));
                (mailbox, Runner::Thread(threads::polling(desk, poll, place.core)?))
            }
        };
        let mut seat = Seat { place, mailbox, runner, load: SeatLoad::default(), recorded: false };
        self.metrics.apply(&mut seat, self.now);
        Ok(seat)
    }

    /// Says who polls what, and lets the queues travel there.
    fn assign(&mut self, cores: &[Core]) {
        // A core whose thread could not be made has no seat.
        let cores: Vec<Core> =
            cores.iter().copied().filter(|c| self.seats.contains_key(&worker_of(c.id))).collect();
        let rxqs = self.ports.polled();
        let anew = std::mem::take(&mut self.anew) || !self.predicts();
        let assignment = match anew {
            true => assign(&cores, &rxqs, self.polling.algorithm, self.polling.isolate),
            false => keep(&cores, &rxqs, &self.owning_cores(), self.polling.isolate),
        };
        for note in &assignment.notes {
            match note.warning {
                true => runtime::warn!(LOG, "{}", note.text),
                false => runtime::info!(LOG, "{}", note.text),
            }
        }
        for seat in self.seats.values_mut() {
            seat.place.isolated = assignment.isolated.contains(&seat.place.core);
        }
        for (rxq, core) in rxqs.iter().zip(&assignment.cores) {
            self.send((rxq.no, rxq.queue), core.map_or(MAIN, worker_of), core.is_some());
        }
        for key in self.ports.unpolled() {
            self.send(key, MAIN, true);
        }
    }

    /// Of each polled queue: the core that has it.
    fn owning_cores(&self) -> Vec<Option<CoreId>> {
        let core = |owner: Option<WorkerId>| self.core_of(owner?);
        self.ports.owners().into_iter().map(core).collect()
    }

    /// Lets a queue travel to a worker.
    fn send(&mut self, key: desk::Key, to: WorkerId, polled: bool) {
        let Some(home) = self.ports.home_mut(key) else { return };
        let Some(seat) = self.seats.get(&to) else { return };
        match std::mem::replace(home, Home::At(to)) {
            Home::Here(mut travelling) => {
                travelling.polled = polled;
                seat.mailbox.post(Order::Take(*travelling));
            }
            Home::At(from) if from == to => {}
            Home::At(from) => {
                if let Some(old) = self.seats.get(&from) {
                    old.mailbox.post(Order::Give(key, Arc::clone(&seat.mailbox), polled));
                }
            }
        }
    }

    /// Workers of the main loop read their letters, until no more are written.
    fn deliver(&mut self) {
        loop {
            let mut busy = false;
            for seat in self.seats.values_mut() {
                if let Runner::Inline(desk) = &mut seat.runner
                    && seat.mailbox.has_mail()
                {
                    desk.obey(self.now);
                    busy = true;
                }
            }
            if !busy {
                return;
            }
        }
    }

    /// In dummy mode: one poll of each worker. True if there was anything.
    pub fn poll_inline(&mut self, clock: &Clock) -> bool {
        let now = clock.now();
        let mut busy = false;
        for seat in self.seats.values_mut() {
            if let Runner::Inline(desk) = &mut seat.runner {
                busy |= desk.poll(now, cycles::now(), cycles::now);
                desk.worker.rest();
            }
        }
        busy
    }

    /// In dummy mode: packets of some worker wait for an answer.
    pub fn await_answers(&self) -> bool {
        self.seats.values().any(|s| match &s.runner {
            Runner::Inline(desk) => desk.worker.has_parked(),
            Runner::Thread(_) => false,
        })
    }

    /// What the main loop wakes for: the next forecast; in dummy mode the queues, too.
    pub fn wait<'a>(&'a self, set: &mut WaitSet<'a>) {
        self.next_forecast().into_iter().for_each(|at| set.deadline(at));
        for seat in self.seats.values() {
            if let Runner::Inline(desk) = &seat.runner {
                desk.fds().for_each(|fd| {
                    set.fd(&**fd, Interest::Read);
                });
            }
        }
    }

    /// The workers that there are, the one of kernel ports first, then by core.
    pub fn places(&self) -> Vec<WorkerPlace> {
        self.seats.values().map(|s| s.place).collect()
    }

    /// Remembers how busy queues and workers were, whenever an interval has ended, and heeds it.
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
    pub fn load(&self, worker: WorkerId) -> Option<&SeatLoad> {
        self.seats.get(&worker).map(|s| &s.load)
    }

    /// The queues of poll-mode ports that a worker polls.
    pub fn rxqs(&self, worker: WorkerId) -> impl Iterator<Item = RxqView<'_>> {
        self.ports.of_worker(worker, false)
    }

    /// The same with the queues of the kernel's ports.
    pub fn all_rxqs(&self, worker: WorkerId) -> impl Iterator<Item = RxqView<'_>> {
        self.ports.of_worker(worker, true)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for no in self.ports.numbers() {
            self.remove(no);
        }
        for seat in self.seats.values() {
            seat.mailbox.post(Order::Stop);
        }
        for seat in std::mem::take(&mut self.seats).into_values() {
            if let Runner::Thread(thread) = seat.runner {
                waits::join(thread, seat.place.core);
            }
        }
    }
}

#[cfg(test)]
mod tests;
