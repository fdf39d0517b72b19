//! Egress: a policer or a shaper between the workers and a port's device.
//!
//! The tx queues of a port with QoS are [`EgressQueue`]s, which are placed in front of the device's queues; a port
//! without QoS has the device's own queues. All queues of a port share one [`Egress`], whose lock a worker holds
//! while the policer checks one burst, or while the shaper accepts one burst and sends up to [`BURSTS`]. A shaper sends
//! only by the first tx queue of the device, so the packets of a flow stay in order whichever worker sends them.
//!
//! A shaper holds frames. The worker that left frames in it serves it in each iteration until the shaper is empty
//! (`path/transmit.rs`).

use crate::engine::bursts::TX_BURST;
use crate::port::{Frame, FrameBatch, QosResult, TxQueue, TxResult};
use crate::port_count::{PortCount, QueueCount};
use qos::shaper::DEFAULT_QUEUE;
use qos::{InvalidRates, QueueCounts, Shaper, ShaperSpec, SingleRate, SingleRateSpec, TwoRate, TwoRateTree};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use sync::CachePadded;
use units::Nanos;

/// Bytes of each frame that policers do not count: the Ethernet header.
const ETHERNET: u64 = 14;

/// Maximum number of bursts that a shaper sends in one call, so that other ports are served, too.
const BURSTS: usize = 8;

/// The tx queues of a device. Each worker writes the lock of its queue for every burst.
pub(crate) type DeviceQueues = Arc<[CachePadded<Mutex<CountedQueue>>]>;

/// A tx queue, and the counter of what it has sent. Only the holder of the queue's lock uses it.
pub(crate) struct CountedQueue {
    pub(crate) queue: Box<dyn TxQueue>,
    pub(crate) sent: Arc<QueueCount>,
}

impl CountedQueue {
    /// Creates the queue with its lock, and adds its counter to the port's counters.
    pub(crate) fn with_lock(queue: Box<dyn TxQueue>, port: &PortCount) -> CachePadded<Mutex<CountedQueue>> {
        CachePadded::new(Mutex::new(CountedQueue { queue, sent: port.queue() }))
    }
}

/// The QoS of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EgressSpec {
    /// `egress-policer`
    SingleRate(SingleRateSpec),
    /// `trtcm-policer`
    TwoRate(TwoRateTree),
    /// `linux-htb`
    Shaper(ShaperSpec),
}

#[derive(Debug)]
enum State {
    SingleRate(SingleRateSpec, SingleRate),
    TwoRate(TwoRate),
    Shaper(Box<Shaper<Frame>>),
    /// QoS was removed from the port. A worker with an older snapshot sends to the device directly.
    Closed,
}

impl State {
    fn new(spec: EgressSpec, now: Nanos) -> Result<State, InvalidRates> {
        Ok(match spec {
            EgressSpec::SingleRate(spec) => State::SingleRate(spec, SingleRate::new(spec, now)?),
            EgressSpec::TwoRate(tree) => {
                let mut policer = TwoRate::new(tree.port, now)?;
                set_queues(&mut policer, &tree, now);
                State::TwoRate(policer)
            }
            EgressSpec::Shaper(spec) => State::Shaper(Box::new(Shaper::new(spec, now))),
        })
    }
}

/// Sets the queues. A queue with invalid rates is ignored.
fn set_queues(policer: &mut TwoRate, tree: &TwoRateTree, now: Nanos) {
    policer.retain(|queue| tree.queues.contains_key(&queue));
    for (queue, spec) in &tree.queues {
        let _ = policer.set_queue(*queue, *spec, now);
    }
}

/// Reads the clock.
pub type EgressClock = Arc<dyn Fn() -> Nanos + Send + Sync>;

/// The egress policer or shaper of a port.
pub struct Egress {
    state: Mutex<State>,
    clock: EgressClock,
}

impl Egress {
    /// Creates a policer or shaper with full buckets and no packets.
    pub fn new(spec: EgressSpec, clock: EgressClock) -> Result<Egress, InvalidRates> {
        let state = Mutex::new(State::new(spec, clock())?);
        Ok(Egress { state, clock })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the rates. Queues that remain keep their counters and packets. Returns the packets of removed queues. If the
    /// kind of QoS or the rates of a port's policer change, a new state replaces the old one; then all held packets are returned.
    pub(crate) fn set(&self, spec: EgressSpec) -> Result<Vec<Frame>, InvalidRates> {
        let now = (self.clock)();
        let mut state = self.lock();
        match (&mut *state, spec) {
            (State::SingleRate(known, _), EgressSpec::SingleRate(spec)) if *known == spec => {}
            (State::TwoRate(policer), EgressSpec::TwoRate(tree)) if policer.tree().port == tree.port => {
                set_queues(policer, &tree, now);
            }
            (State::Shaper(shaper), EgressSpec::Shaper(spec)) => return Ok(shaper.set(spec, now)),
            (state, spec) => return Ok(replace(state, State::new(spec, now)?)),
        }
        Ok(Vec::new())
    }

    /// Returns the specification in force; `None` after `close`.
    pub fn spec(&self) -> Option<EgressSpec> {
        match &*self.lock() {
            State::SingleRate(spec, _) => Some(EgressSpec::SingleRate(*spec)),
            State::TwoRate(policer) => Some(EgressSpec::TwoRate(policer.tree())),
            State::Shaper(shaper) => Some(EgressSpec::Shaper(shaper.spec().clone())),
            State::Closed => None,
        }
    }

    /// Returns the counters of a queue; `None` if the queue does not exist or is not counted.
    pub fn counts(&self, queue: u32) -> Option<QueueCounts> {
        match &*self.lock() {
            State::TwoRate(policer) => policer.counts(queue),
            State::Shaper(shaper) => shaper.counts(queue),
            State::SingleRate(..) | State::Closed => None,
        }
    }

    /// Ends QoS and returns the packets that were held.
    pub(crate) fn close(&self) -> Vec<Frame> {
        replace(&mut self.lock(), State::Closed)
    }

    /// Sends frames by tx queue `at` of the device. `queues` contains the QoS queue of each frame; if it is shorter
    /// than `frames`, the remaining frames use the default queue. `Err`: QoS was closed, so the frames were sent to
    /// the device directly, with this result.
    fn send(
        &self,
        frames: &mut FrameBatch,
        queues: &[u32],
        device: &DeviceQueues,
        at: usize,
    ) -> Result<QosResult, TxResult> {
        let now = (self.clock)();
        let mut state = self.lock();
        let mut result = QosResult::default();
        let mut refused = FrameBatch::new();
        match &mut *state {
            State::Closed => return Err(lock(device, at).queue.tx_queued(frames, queues)),
            State::SingleRate(_, policer) => {
                refused.extend(frames.extract_if(.., |f| !policer.pass(counted(f), now)));
                drop(state);
                result.add(&lock(device, at).queue.tx(frames));
            }
            State::TwoRate(policer) => {
                let mut queues = queues.iter().copied().chain(std::iter::repeat(DEFAULT_QUEUE));
                let mut exceeds =
                    |f: &Frame| !policer.pass(queues.next().unwrap_or(DEFAULT_QUEUE), counted(f), now);
                refused.extend(frames.extract_if(.., |f| exceeds(f)));
                drop(state);
                result.add(&lock(device, at).queue.tx(frames));
            }
            State::Shaper(shaper) => {
                let queues = queues.iter().copied().chain(std::iter::repeat(DEFAULT_QUEUE));
                for (frame, queue) in frames.drain(..).zip(queues) {
                    // The shaper keeps the frame for longer than this iteration, so its tail must be copied.
                    frame.complete();
                    let bytes = frame.offload().total(frame.bytes()).try_into().unwrap_or(u32::MAX);
                    refused.extend(shaper.push(queue, bytes, frame, now).err());
                }
                release(shaper, device, now, frames, &mut result);
                result.holds = !shaper.is_empty();
            }
        }
        result.qos_dropped = refused.len() as u32;
        frames.append(&mut refused);
        Ok(result)
    }
}

/// Replaces the state and returns the packets that the old state held.
fn replace(state: &mut State, new: State) -> Vec<Frame> {
    match std::mem::replace(state, new) {
        State::Shaper(mut shaper) => shaper.drain(),
        _ => Vec::new(),
    }
}

/// Sends the packets that may leave now. Packets that the device does not accept are added to `back`.
fn release(
    shaper: &mut Shaper<Frame>,
    device: &DeviceQueues,
    now: Nanos,
    back: &mut FrameBatch,
    result: &mut QosResult,
) {
    let mut burst = FrameBatch::new();
    for _ in 0..BURSTS {
        burst.extend(std::iter::from_fn(|| shaper.pop(now)).take(TX_BURST));
        if burst.is_empty() {
            return;
        }
        result.add(&lock(device, 0).queue.tx(&mut burst));
        back.append(&mut burst);
    }
}

/// Returns the bytes of a frame that policers count.
fn counted(frame: &Frame) -> u64 {
    (frame.len() as u64).saturating_sub(ETHERNET)
}

/// Locks a tx queue of a device, which must have at least one.
fn lock(device: &DeviceQueues, at: usize) -> MutexGuard<'_, CountedQueue> {
    device[at % device.len()].lock().unwrap_or_else(PoisonError::into_inner)
}

/// A tx queue of a port with QoS, in front of a queue of the device.
pub(crate) struct EgressQueue {
    egress: Arc<Egress>,
    device: DeviceQueues,
    at: usize,
    /// Result of the last send.
    last: Option<QosResult>,
}

impl EgressQueue {
    /// Creates one queue for each queue of the device. `sent` counts the packets that the port sends.
    pub(crate) fn all(egress: &Arc<Egress>, device: &DeviceQueues, sent: &PortCount) -> DeviceQueues {
        let queue =
            |at| EgressQueue { egress: Arc::clone(egress), device: Arc::clone(device), at, last: None };
        (0..device.len()).map(|at| CountedQueue::with_lock(Box::new(queue(at)), sent)).collect()
    }
}

impl TxQueue for EgressQueue {
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
        self.tx_queued(frames, &[])
    }

    fn tx_queued(&mut self, frames: &mut FrameBatch, queues: &[u32]) -> TxResult {
        match self.egress.send(frames, queues, &self.device, self.at) {
            Ok(result) => {
                self.last = Some(result);
                TxResult::default()
            }
            Err(result) => {
                self.last = None;
                result
            }
        }
    }

    fn take_qos(&mut self) -> Option<QosResult> {
        self.last.take()
    }
}
