//! The exporter thread, and its interface for other threads.

use crate::netflows::Netflows;
use crate::queue::{Queue, SampledPacket, lock};
use crate::sample_exporters::SampleExporters;
use crate::settings::{BridgeSettings, SamplingProbabilities};
use exporter::ipfix::Stats;
use exporter::netflow::{Delta, Key};
use exporter::sflow::{CounterRecord, Source};
use exporter::{Now, PortFacts};
use runtime::{Clock, Module};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use units::{Millis, PortNo};

static LOG: Module = Module::new("sflow");

/// Number of samples that are processed before the lock is released, so that the main loop waits for the lock for less than a
/// millisecond.
const BATCH: usize = 64;
/// Pause of the thread after some work: samples that workers queue during the pause cost them no wake-up.
const PAUSE: Duration = Duration::from_millis(5);
/// The thread checks its timers at least in this interval.
const SLEEP_MAX: Millis = Millis(1000);

/// The exporters of all bridges, and the thread that runs them.
pub struct Exporters {
    queue: Queue,
    sample_exporters: Mutex<SampleExporters>,
    netflows: Mutex<Netflows>,
    /// The bridges that have exporters, and which packets they sample.
    probabilities: Mutex<HashMap<u32, SamplingProbabilities>>,
    clock: Clock,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// A thread runs the exporters; false: the main loop does.
    threaded: bool,
    /// The thread must end.
    close: AtomicBool,
}

impl Exporters {
    /// Creates the state without exporters. `threaded`: a thread runs the exporters; otherwise the main loop does.
    pub fn new(clock: &Clock, threaded: bool) -> Arc<Exporters> {
        Arc::new(Exporters {
            queue: Queue::default(),
            sample_exporters: Mutex::default(),
            netflows: Mutex::default(),
            probabilities: Mutex::default(),
            clock: clock.clone(),
            thread: Mutex::default(),
            threaded,
            close: AtomicBool::new(false),
        })
    }

    fn now(&self) -> Now {
        Now { mono: self.clock.now(), wall: self.clock.wall_ms().saturating_mul(1000) }
    }

    /// Applies the settings of a bridge, and starts the thread with the first exporter. Called by the main loop.
    pub fn configure(
        self: &Arc<Self>,
        bridge: u32,
        settings: &BridgeSettings,
        seed: u64,
    ) -> SamplingProbabilities {
        let now = self.now();
        let probabilities = lock(&self.sample_exporters).configure(bridge, settings, now, seed);
        lock(&self.netflows).configure(bridge, settings.netflow.as_ref(), now);
        if *settings == BridgeSettings::default() {
            lock(&self.probabilities).remove(&bridge);
        } else {
            lock(&self.probabilities).insert(bridge, probabilities);
            if self.threaded {
                self.start();
            }
        }
        self.queue.wake();
        probabilities
    }

    /// Removes the exporters of a bridge.
    pub fn remove(&self, bridge: u32) {
        let now = self.now();
        lock(&self.sample_exporters).remove(bridge, now);
        lock(&self.netflows).configure(bridge, None, now);
        lock(&self.probabilities).remove(&bridge);
    }

    /// The bridges that have exporters.
    pub fn bridges(&self) -> Vec<u32> {
        lock(&self.probabilities).keys().copied().collect()
    }

    /// Which packets a bridge samples; `None`: it has no exporters.
    pub fn sampling_probabilities(&self, bridge: u32) -> Option<SamplingProbabilities> {
        lock(&self.probabilities).get(&bridge).copied()
    }

    /// Sets the ports of a bridge that has exporters.
    pub fn set_ports(&self, bridge: u32, ports: HashMap<PortNo, PortFacts>) {
        lock(&self.sample_exporters).set_ports(bridge, ports);
    }

    /// Queues a sampled packet. Called by workers; never waits.
    pub fn put(&self, packet: SampledPacket) {
        self.queue.put(packet);
    }

    /// Adds the counts of a megaflow to a NetFlow flow.
    pub fn netflow(&self, bridge: u32, flow: (Key, u16), delta: Delta) {
        lock(&self.netflows).update(bridge, flow, delta, self.now());
        self.queue.wake();
    }

    /// Called when the megaflow of a NetFlow flow was deleted.
    pub fn end_netflow(&self, bridge: u32, key: Key) {
        lock(&self.netflows).end_flow(bridge, key, self.now());
        self.queue.wake();
    }

    /// The sFlow sources whose counters must be reported now, by bridge. The main loop reads the counters, passes them to
    /// [`add_counters`](Self::add_counters), and then calls [`flush`](Self::flush).
    pub fn tick(&self) -> Option<Vec<(u32, Source)>> {
        let now = self.now();
        let mut exporters = lock(&self.sample_exporters);
        let is_due = exporters.next_tick().is_some_and(|tick| tick <= now.mono);
        is_due.then(|| {
            self.process_batch(&mut exporters, now);
            exporters.tick(now)
        })
    }

    /// Adds counters to the sFlow datagram of a bridge.
    pub fn add_counters(&self, bridge: u32, source: Source, records: &[CounterRecord]) {
        lock(&self.sample_exporters).add_counters(bridge, source, records);
    }

    /// Completes the sFlow datagrams.
    pub fn flush(&self) {
        lock(&self.sample_exporters).flush();
        self.queue.wake();
    }

    /// When the main loop must call [`tick`](Self::tick); without a thread also when it must call [`run`](Self::run).
    pub fn deadline(&self) -> Option<Millis> {
        let exporters = lock(&self.sample_exporters);
        let timers = (!self.threaded).then(|| [exporters.deadline(), lock(&self.netflows).deadline()]);
        timers.into_iter().flatten().chain([exporters.next_tick()]).flatten().min()
    }

    /// Called by the main loop. Without a thread, does all the work of the thread.
    pub fn run(&self) {
        if !self.threaded {
            while self.work() {}
        }
    }

    /// The statistics of a bridge's IPFIX exporter, including all packets that were sampled before this call.
    pub fn bridge_stats(&self, bridge: u32) -> Option<Stats> {
        self.catch_up();
        lock(&self.sample_exporters).bridge_stats(bridge)
    }

    /// The statistics of the exporters of a bridge's `sample` actions, by set of collectors.
    pub fn collector_set_stats(&self, bridge: u32) -> Vec<(u32, Stats)> {
        self.catch_up();
        lock(&self.sample_exporters).collector_set_stats(bridge)
    }

    /// Processes all queued packets.
    fn catch_up(&self) {
        let now = self.now();
        while self.process_batch(&mut lock(&self.sample_exporters), now) {}
        if !self.threaded {
            self.run();
        }
    }

    /// Passes up to [`BATCH`] queued packets to their exporters. Returns whether there may be more.
    fn process_batch(&self, exporters: &mut SampleExporters, now: Now) -> bool {
        for _ in 0..BATCH {
            let Some(packet) = self.queue.take() else { return false };
            exporters.sample(&packet, now);
        }
        true
    }

    /// Processes some queued packets, runs timers, and sends complete datagrams. Returns whether there may be more packets.
    fn work(&self) -> bool {
        let now = self.now();
        let more = {
            let mut exporters = lock(&self.sample_exporters);
            let more = self.process_batch(&mut exporters, now);
            exporters.run(now);
            exporters.send();
            more
        };
        lock(&self.netflows).run(now);
        more
    }

    fn start(self: &Arc<Self>) {
        let mut thread = lock(&self.thread);
        if thread.is_some() {
            return;
        }
        let exporters = Arc::clone(self);
        let started = std::thread::Builder::new().name("exporter".to_owned()).spawn(move || {
            runtime::log::set_thread_name("exporter");
            exporters.serve();
        });
        match started {
            Ok(handle) => {
                self.queue.set_thread(Some(handle.thread().clone()));
                *thread = Some(handle);
            }
            Err(e) => runtime::err!(LOG, "exporter thread: {}", runtime::error_text(&e)),
        }
    }

    /// The loop of the exporter thread.
    fn serve(&self) {
        while !self.close.load(Ordering::Acquire) {
            runtime::ordered_panic::panic_if_ordered();
            while self.work() {}
            std::thread::sleep(PAUSE);
            self.queue.set_idle(true);
            // Samples that were queued before the thread was marked as idle did not wake it.
            if self.work() {
                self.queue.set_idle(false);
                continue;
            }
            let now = self.clock.now();
            let deadline = self.timers().unwrap_or(now + SLEEP_MAX).min(now + SLEEP_MAX);
            std::thread::park_timeout(Duration::from_millis(deadline.since(now).0));
            self.queue.set_idle(false);
        }
    }

    fn timers(&self) -> Option<Millis> {
        [lock(&self.sample_exporters).deadline(), lock(&self.netflows).deadline()].into_iter().flatten().min()
    }

    /// Sends all waiting records, and ends the exporters of sFlow and IPFIX and the thread. NetFlow reports only flows whose timeout has passed.
    pub fn close(&self) {
        let now = self.now();
        {
            let mut exporters = lock(&self.sample_exporters);
            while self.process_batch(&mut exporters, now) {}
            exporters.flush();
            exporters.send();
            exporters.bridges().into_iter().for_each(|bridge| exporters.remove(bridge, now));
        }
        lock(&self.netflows).run(now);
        self.close.store(true, Ordering::Release);
        let thread = lock(&self.thread).take();
        self.queue.set_thread(None);
        if let Some(thread) = thread {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
