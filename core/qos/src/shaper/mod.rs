//! A shaper for `linux-htb` rows: a port with a rate, and queues with a guaranteed and a maximum rate each.
//!
//! A queue below its guaranteed rate may always send. The rest of the port's rate goes to queues that have
//! more to send: first by priority, then in proportion to their guaranteed rates, up to their maximum rates.
//! As in Linux, bytes that a queue sends beyond its guarantee are not charged to the guarantee.
//!
//! The cost of taking a packet grows with the logarithm of the number of queues. A queue that must wait has one timer
//! in an ordered set.
//!
//! Source: Linux's `sch_htb` as tc-htb(8) describes it; shares by start-time fair queueing (Goyal, Vin, Cheng 1997).

mod class;
mod clock;
mod spec;
#[cfg(test)]
mod tests;

pub use spec::{ClassSpec, ShaperSpec};

use crate::counts_and_errors::QueueCounts;
use class::{Class, ClassState, PRIORITIES, StartTag, burst};
use clock::{FineTime, RateClock, fine, nanos};
use std::collections::{BTreeMap, BTreeSet};
use units::Nanos;

/// Maximum number of packets of a queue, Linux's default.
pub const QUEUE_PACKETS_MAX: usize = 1000;
/// If all queues together hold this many packets, each queue may hold at most [`QUEUE_PACKETS_MIN`]. The number is an eighth
/// of the usual buffer pool of a DPDK port.
pub const PORT_PACKETS_MAX: usize = 32_768;
/// Number of packets that a queue may always hold.
pub const QUEUE_PACKETS_MIN: usize = 16;
/// The queue of packets that select no queue, or a queue that does not exist.
pub const DEFAULT_QUEUE: u32 = 0;

/// The classes of one state and priority that may send, ordered by their start tags.
#[derive(Debug, Default)]
struct ReadyClasses {
    by_tag: BTreeSet<(StartTag, u32)>,
    /// Start tag of the packet that was sent last. A class that returns continues from this tag, so that it cannot make up
    /// for its absence.
    last_tag: StartTag,
}

/// The shaper of a port.
#[derive(Debug)]
pub struct Shaper<T> {
    spec: ShaperSpec,
    port: RateClock,
    classes: BTreeMap<u32, Class<T>>,
    /// By priority: classes below their guaranteed rate (index 0), and borrowing classes (index 1).
    ready: [[ReadyClasses; PRIORITIES]; 2],
    /// One timer for each class whose state must be checked again.
    timers: BTreeSet<(FineTime, u32)>,
    /// Number of waiting packets.
    waiting: usize,
}

impl<T> Shaper<T> {
    /// Creates a shaper without packets.
    pub fn new(spec: ShaperSpec, now: Nanos) -> Shaper<T> {
        let port = RateClock::new(spec.rate, burst(spec.rate, 0, spec.mtu), fine(now));
        let mut shaper = Shaper {
            spec: ShaperSpec::default(),
            port,
            classes: BTreeMap::new(),
            ready: Default::default(),
            timers: BTreeSet::new(),
            waiting: 0,
        };
        // The shaper holds no packets yet, so none are returned.
        let _ = shaper.set(spec, now);
        shaper
    }

    /// Changes rates and queues. Remaining queues keep their packets and counters; the packets of removed
    /// queues are returned.
    pub fn set(&mut self, mut spec: ShaperSpec, now: Nanos) -> Vec<T> {
        let now = fine(now);
        let all = ClassSpec { min: spec.rate, max: spec.rate, ..ClassSpec::default() };
        spec.classes.entry(DEFAULT_QUEUE).or_insert(all);
        self.port = self.port.with_rate(spec.rate, burst(spec.rate, 0, spec.mtu), now);
        let mut gone = Vec::new();
        let known = std::mem::take(&mut self.classes);
        for (number, mut class) in known {
            match spec.classes.get(&number) {
                Some(wanted) => {
                    class.change(*wanted, spec.mtu, now);
                    (class.state, class.timer) = (ClassState::Idle, None);
                    self.classes.insert(number, class);
                }
                None => gone.extend(class.packets.into_iter().map(|(_, packet)| packet)),
            }
        }
        for (number, class) in &spec.classes {
            self.classes.entry(*number).or_insert_with(|| Class::new(*class, spec.mtu, now));
        }
        self.waiting -= gone.len();
        self.spec = spec;
        self.ready = Default::default();
        self.timers.clear();
        let numbers: Vec<u32> = self.classes.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.update_state(number, now));
        gone
    }

    /// The rates in force.
    pub fn spec(&self) -> &ShaperSpec {
        &self.spec
    }

    /// Queues a packet. If the queue is full, the packet is returned and counted as dropped. `bytes`: the length of the
    /// packet.
    pub fn push(&mut self, queue: u32, bytes: u32, packet: T, now: Nanos) -> Result<(), T> {
        let number = if self.classes.contains_key(&queue) { queue } else { DEFAULT_QUEUE };
        let Some(class) = self.classes.get_mut(&number) else { return Err(packet) };
        let most = if self.waiting < PORT_PACKETS_MAX { QUEUE_PACKETS_MAX } else { QUEUE_PACKETS_MIN };
        if class.packets.len() >= most {
            class.counts.dropped += 1;
            return Err(packet);
        }
        class.packets.push_back((bytes, packet));
        self.waiting += 1;
        if class.state == ClassState::Idle {
            self.update_state(number, fine(now));
        }
        Ok(())
    }

    /// Removes and returns the next packet that may be sent now.
    pub fn pop(&mut self, now: Nanos) -> Option<T> {
        if self.waiting == 0 {
            return None;
        }
        let now = fine(now);
        self.check_timers(now);
        let number = self.choose(now)?;
        let class = self.classes.get_mut(&number)?;
        let (bytes, packet) = class.packets.pop_front()?;
        self.waiting -= 1;
        class.counts.packets += 1;
        class.counts.bytes += u64::from(bytes);
        if class.state == ClassState::Guaranteed {
            class.min.charge(bytes, now);
        }
        class.max.charge(bytes, now);
        self.port.charge(bytes, now);
        if let Some(at) = ready_index(class.state) {
            let ready = &mut self.ready[at][class.priority()];
            let tag = class.start_tags[at];
            ready.by_tag.remove(&(tag, number));
            ready.last_tag = tag;
            class.start_tags[at] = tag + class.tag_increment(bytes);
        }
        class.state = ClassState::Idle;
        self.update_state(number, now);
        Some(packet)
    }

    /// When [`pop`](Self::pop) may return a packet, if it returns none now. `None`: no packet waits.
    pub fn next(&self) -> Option<Nanos> {
        let timer = self.timers.first().map(|(at, _)| *at);
        let may_borrow = self.ready[BORROWING].iter().any(|ready| !ready.by_tag.is_empty());
        let port = may_borrow.then_some(self.port.ready_at);
        timer.into_iter().chain(port).min().map(nanos)
    }

    /// Number of waiting packets.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Returns whether no packet waits.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Counters of a queue.
    pub fn counts(&self, queue: u32) -> Option<QueueCounts> {
        self.classes.get(&queue).map(|class| class.counts)
    }

    /// Removes and returns all packets, when the shaper is removed.
    pub fn drain(&mut self) -> Vec<T> {
        self.waiting = 0;
        let packets = self.classes.values_mut().flat_map(|class| class.packets.drain(..));
        packets.map(|(_, packet)| packet).collect()
    }

    /// The class that sends next.
    fn choose(&self, now: FineTime) -> Option<u32> {
        let first = |sets: &[ReadyClasses]| {
            sets.iter().find_map(|ready| ready.by_tag.first()).map(|(_, number)| *number)
        };
        first(&self.ready[GUARANTEED])
            .or_else(|| self.port.is_ready(now).then(|| first(&self.ready[BORROWING]))?)
    }

    /// Checks the classes whose timers are due.
    fn check_timers(&mut self, now: FineTime) {
        while let Some((at, number)) = self.timers.first().copied()
            && at <= now
        {
            self.timers.pop_first();
            if let Some(class) = self.classes.get_mut(&number) {
                class.timer = None;
            }
            self.update_state(number, now);
        }
    }

    /// Updates the state of a class.
    fn update_state(&mut self, number: u32, now: FineTime) {
        let Some(class) = self.classes.get_mut(&number) else { return };
        let (state, timer) = class.state_at(now);
        let before = std::mem::replace(&mut class.timer, timer);
        if before != timer {
            if let Some(at) = before {
                self.timers.remove(&(at, number));
            }
            self.timers.extend(timer.map(|at| (at, number)));
        }
        let old = std::mem::replace(&mut class.state, state);
        if state == old {
            return;
        }
        let sets = &mut self.ready;
        if let Some(at) = ready_index(old) {
            sets[at][class.priority()].by_tag.remove(&(class.start_tags[at], number));
        }
        if let Some(at) = ready_index(state) {
            let ready = &mut sets[at][class.priority()];
            ready.by_tag.insert((class.rejoin(at, ready.last_tag), number));
        }
    }
}

/// Index in `ready` of classes below their guaranteed rate.
const GUARANTEED: usize = 0;
/// Index in `ready` of borrowing classes.
const BORROWING: usize = 1;

/// The index in `ready` of classes in this state; `None`: such classes may not send.
fn ready_index(state: ClassState) -> Option<usize> {
    match state {
        ClassState::Guaranteed => Some(GUARANTEED),
        ClassState::Borrowing => Some(BORROWING),
        ClassState::Idle | ClassState::Waiting => None,
    }
}
