//! Reconfiguration: starts and ends PMD threads, and moves rx queues to the threads that will poll them.

use crate::answers::join;
use crate::handle::{KERNEL_WORKER, Mode, Runner, WorkerHandle, WorkerInfo, inline, threaded, worker_of};
use crate::load::WorkerLoad;
use crate::log::LOG;
use crate::mailbox::{Key, Mailbox, Order, Wakeup};
use crate::ports::QueueOwner;
use crate::thread_loops;
use crate::thread_state::ThreadState;
use crate::workers::Workers;
use datapath::{Datapath, Worker};
use pmd::Core;
use pmd::assign::assign;
use pmd::assign::keep::keep;
use pmd::cores::{SelectedCores, per_node, wanted};
use runtime::PollLoop;
use std::sync::Arc;
use units::{CoreId, WorkerId};

impl Workers {
    /// The cores that get a PMD thread. `polled`: count as if there were a poll-mode port.
    pub(crate) fn wanted(&self, polled: bool) -> SelectedCores {
        match polled || self.ports.has_pmd_ports() {
            true => wanted(&self.topology, self.pmd_settings.mask.as_deref()),
            // A PMD thread uses its core completely, so there are no PMD threads without a poll-mode port.
            false => SelectedCores::default(),
        }
    }

    /// Starts and ends PMD threads according to the mask, and moves every queue to the worker that will poll it. Does
    /// nothing if no change is recorded.
    pub fn reconfigure(&mut self, datapath: &Datapath) {
        if !std::mem::take(&mut self.reconfiguration_due) {
            return;
        }
        self.balancer.configuration_changed();
        let wanted = self.wanted(false);
        wanted.warnings.iter().for_each(|text| runtime::warn!(LOG, "{text}"));
        let surplus: Vec<WorkerId> = self
            .workers
            .iter()
            .filter(|(id, s)| **id != KERNEL_WORKER && !wanted.cores.iter().any(|c| c.id == s.info.core))
            .map(|(id, _)| *id)
            .collect();
        for id in &surplus {
            let Some(WorkerInfo { core, numa, .. }) = self.workers.get(id).map(|s| s.info) else {
                continue;
            };
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
            if let Some(handle) = self.workers.get(&id) {
                handle.mailbox.post(Order::Stop);
            }
            self.deliver();
            if let Some(WorkerHandle { runner: Runner::Thread(thread), info, .. }) = self.workers.remove(&id)
            {
                join(thread, info.core);
            }
        }
        datapath.set_senders(self.workers.len());
        for (n, handle) in self.workers.values().enumerate() {
            handle.mailbox.post(Order::TxQueue(n));
        }
        self.deliver();
    }

    /// Starts the missing workers; returns whether any were missing.
    fn create(&mut self, datapath: &Datapath, cores: &[Core]) -> bool {
        let mut created = false;
        for core in cores {
            let id = worker_of(core.id);
            if self.workers.contains_key(&id) {
                continue;
            }
            let info = WorkerInfo { id, core: core.id, numa: core.numa.0, isolated: false, since: self.now };
            match self.start(info, datapath.worker(id, self.workers.len())) {
                Ok(handle) => {
                    self.send_sleep_settings(&handle);
                    self.workers.insert(id, handle);
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

    /// Starts a PMD thread; in dummy mode only creates its state.
    fn start(&self, info: WorkerInfo, worker: Worker) -> std::io::Result<WorkerHandle> {
        let (mailbox, runner) = match &self.mode {
            Mode::Inline(park) => {
                let mailbox = Arc::new(Mailbox::new(Wakeup::None));
                let state = ThreadState::sleeping(inline(worker, &mailbox, *park), Arc::clone(&mailbox));
                (mailbox, Runner::Inline(Box::new(state)))
            }
            Mode::Threads(clock) => {
                let poll = PollLoop::new(clock.clone())?;
                let mailbox = Arc::new(Mailbox::new(Wakeup::poller(poll.waker())));
                let state = ThreadState::new(threaded(worker, &mailbox), Arc::clone(&mailbox));
                (mailbox, Runner::Thread(thread_loops::start_pmd_thread(state, poll, info.core)?))
            }
        };
        let mut handle = WorkerHandle { info, mailbox, runner, load: WorkerLoad::default(), recorded: false };
        self.metrics.apply(&mut handle, self.now);
        Ok(handle)
    }

    /// Assigns all queues to workers, and moves the queues whose worker changes.
    fn assign(&mut self, cores: &[Core]) {
        // A core whose thread could not be started has no handle.
        let cores: Vec<Core> =
            cores.iter().copied().filter(|c| self.workers.contains_key(&worker_of(c.id))).collect();
        let rxqs = self.ports.pmd_queues();
        let reassign = std::mem::take(&mut self.reassign) || !self.is_predictive();
        let assignment = match reassign {
            true => assign(&cores, &rxqs, self.pmd_settings.algorithm, self.pmd_settings.isolate),
            false => keep(&cores, &rxqs, &self.owning_cores(), self.pmd_settings.isolate),
        };
        for note in &assignment.notes {
            match note.warning {
                true => runtime::warn!(LOG, "{}", note.text),
                false => runtime::info!(LOG, "{}", note.text),
            }
        }
        for handle in self.workers.values_mut() {
            handle.info.isolated = assignment.isolated.contains(&handle.info.core);
        }
        for (rxq, core) in rxqs.iter().zip(&assignment.cores) {
            self.move_queue((rxq.no, rxq.queue), core.map_or(KERNEL_WORKER, worker_of), core.is_some());
        }
        for key in self.ports.take_unassigned_kernel_queues() {
            self.move_queue(key, KERNEL_WORKER, true);
        }
    }

    /// The core that polls each queue of `Ports::pmd_queues`.
    fn owning_cores(&self) -> Vec<Option<CoreId>> {
        let core = |owner: Option<WorkerId>| self.core_of(owner?);
        self.ports.last_owners().into_iter().map(core).collect()
    }

    /// Moves a queue to a worker. `polled`: that worker polls the queue; otherwise it only holds the queue.
    pub(crate) fn move_queue(&mut self, key: Key, to: WorkerId, polled: bool) {
        let Some(owner) = self.ports.owner_mut(key) else { return };
        let Some(handle) = self.workers.get(&to) else { return };
        match std::mem::replace(owner, QueueOwner::Worker(to)) {
            QueueOwner::Unassigned(mut moving) => {
                moving.polled = polled;
                handle.mailbox.post(Order::Take(*moving));
            }
            QueueOwner::Worker(from) if from == to => {}
            QueueOwner::Worker(from) => {
                if let Some(old) = self.workers.get(&from) {
                    old.mailbox.post(Order::Give(key, Arc::clone(&handle.mailbox), polled));
                }
            }
        }
    }
}
