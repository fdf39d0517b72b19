//! A shaper for `linux-htb` rows: a port with a rate, and queues with a guaranteed and a maximum rate each.
//!
//! A queue below its guaranteed rate may always send. The rest of the port's rate goes to queues that have
//! more to send: first by priority, then in proportion to their guaranteed rates, up to their maximum rates.
//! As in Linux, bytes that a queue sends beyond its guarantee are not charged to the guarantee.
//!
//! Taking a packet costs the logarithm of the number of queues. A queue that must wait has one timer in an
//! ordered set.
//!
//! Source: Linux's `sch_htb` as tc-htb(8) describes it; shares by start-time fair queueing (Goyal, Vin, Cheng 1997).

mod class;
mod clock;
mod spec;
#[cfg(test)]
mod tests;

pub use spec::{ClassSpec, ShaperSpec};

use crate::outcome::QueueCounts;
use class::{Class, ClassState, PRIORITIES, VirtualTime, burst};
use clock::{FineTime, RateClock, fine, nanos};
use std::collections::{BTreeMap, BTreeSet};
use units::Nanos;

/// Maximum number of packets of a queue, Linux's default.
pub const QUEUE_MOST: usize = 1000;
/// Number of packets in all queues above which a queue holds at most [`QUEUE_LEAST`]: an eighth of the usual
/// pool of a DPDK port.
pub const PORT_MOST: usize = 32_768;
/// Number of packets that a queue may always hold.
pub const QUEUE_LEAST: usize = 16;
/// The queue of packets that select none, or one that does not exist.
pub const DEFAULT: u32 = 0;

/// Classes that may send, by virtual time.
#[derive(Debug, Default)]
struct Ready {
    by_time: BTreeSet<(VirtualTime, u32)>,
    /// Virtual time of the latest sender: a class that returns cannot make up for its absence.
    now: VirtualTime,
}

/// The shaper of a port.
#[derive(Debug)]
pub struct Shaper<T> {
    spec: ShaperSpec,
    port: RateClock,
    classes: BTreeMap<u32, Class<T>>,
    /// Classes below their guaranteed rates, and borrowing ones; by priority.
    ready: [[Ready; PRIORITIES]; 2],
    /// One timer for each class whose state must be checked again.
    timers: BTreeSet<(FineTime, u32)>,
    held: usize,
}

impl<T> Shaper<T> {
    /// Makes a shaper without packets.
    pub fn new(spec: ShaperSpec, now: Nanos) -> Shaper<T> {
        let port = RateClock::new(spec.rate, burst(spec.rate, 0, spec.mtu), fine(now));
        let mut shaper = Shaper {
            spec: ShaperSpec::default(),
            port,
            classes: BTreeMap::new(),
            ready: Default::default(),
            timers: BTreeSet::new(),
            held: 0,
        };
        // There are no packets that it could return.
        let _ = shaper.set(spec, now);
        shaper
    }

    /// Changes rates and queues. Remaining queues keep their packets and counters; the packets of removed
    /// queues are returned.
    pub fn set(&mut self, mut spec: ShaperSpec, now: Nanos) -> Vec<T> {
        let now = fine(now);
        let all = ClassSpec { min: spec.rate, max: spec.rate, ..ClassSpec::default() };
        spec.classes.entry(DEFAULT).or_insert(all);
        self.port = self.port.changed(spec.rate, burst(spec.rate, 0, spec.mtu), now);
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
        self.held -= gone.len();
        self.spec = spec;
        self.ready = Default::default();
        self.timers.clear();
        let numbers: Vec<u32> = self.classes.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.settle(number, now));
        gone
    }

    /// The rates in force.
    pub fn spec(&self) -> &ShaperSpec {
        &self.spec
    }

    /// Queues a packet of this many bytes. It is returned, and counted as dropped, if its queue is full.
    pub fn push(&mut self, queue: u32, bytes: u32, packet: T, now: Nanos) -> Result<(), T> {
        let number = if self.classes.contains_key(&queue) { queue } else { DEFAULT };
        let Some(class) = self.classes.get_mut(&number) else { return Err(packet) };
        let most = if self.held < PORT_MOST { QUEUE_MOST } else { QUEUE_LEAST };
        if class.packets.len() >= most {
            class.counts.dropped += 1;
            return Err(packet);
        }
        class.packets.push_back((bytes, packet));
        self.held += 1;
        if class.state == ClassState::Idle {
            self.settle(number, fine(now));
        }
        Ok(())
    }

    /// Takes the next packet that may be sent now.
    pub fn pop(&mut self, now: Nanos) -> Option<T> {
        if self.held == 0 {
            return None;
        }
        let now = fine(now);
        self.check_timers(now);
        let number = self.choose(now)?;
        let class = self.classes.get_mut(&number)?;
        let (bytes, packet) = class.packets.pop_front()?;
        self.held -= 1;
        class.counts.packets += 1;
        class.counts.bytes += u64::from(bytes);
        if class.state == ClassState::Guaranteed {
            class.min.charge(bytes, now);
        }
        class.max.charge(bytes, now);
        self.port.charge(bytes, now);
        if let Some(at) = set_of(class.state) {
            let ready = &mut self.ready[at][class.priority()];
            let time = class.virtual_times[at];
            ready.by_time.remove(&(time, number));
            ready.now = time;
            class.virtual_times[at] = time + class.weight(bytes);
        }
        class.state = ClassState::Idle;
        self.settle(number, now);
        Some(packet)
    }

    /// When `pop` may return a packet if it returns none now; `None` if no packet waits.
    pub fn next(&self) -> Option<Nanos> {
        let timer = self.timers.first().map(|(at, _)| *at);
        let may_borrow = self.ready[BORROWING].iter().any(|ready| !ready.by_time.is_empty());
        let port = may_borrow.then_some(self.port.at);
        timer.into_iter().chain(port).min().map(nanos)
    }

    /// Number of waiting packets.
    pub fn len(&self) -> usize {
        self.held
    }

    /// Returns whether no packet waits.
    pub fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Counters of a queue.
    pub fn counts(&self, queue: u32) -> Option<QueueCounts> {
        self.classes.get(&queue).map(|class| class.counts)
    }

    /// Takes all packets, when the shaper is removed.
    pub fn drain(&mut self) -> Vec<T> {
        self.held = 0;
        let packets = self.classes.values_mut().flat_map(|class| class.packets.drain(..));
        packets.map(|(_, packet)| packet).collect()
    }

    /// The class that sends next.
    fn choose(&self, now: FineTime) -> Option<u32> {
        let first =
            |sets: &[Ready]| sets.iter().find_map(|ready| ready.by_time.first()).map(|(_, number)| *number);
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
            self.settle(number, now);
        }
    }

    /// Updates the state of a class.
    fn settle(&mut self, number: u32, now: FineTime) {
        let Some(class) = self.classes.get_mut(&number) else { return };
        let (state, timer) = class.judge(now);
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
        if let Some(at) = set_of(old) {
            sets[at][class.priority()].by_time.remove(&(class.virtual_times[at], number));
        }
        if let Some(at) = set_of(state) {
            let ready = &mut sets[at][class.priority()];
            ready.by_time.insert((class.rejoin(at, ready.now), number));
        }
    }
}

const GUARANTEED: usize = 0;
const BORROWING: usize = 1;

/// The set of classes in this state that may send.
fn set_of(state: ClassState) -> Option<usize> {
    match state {
        ClassState::Guaranteed => Some(GUARANTEED),
        ClassState::Borrowing => Some(BORROWING),
        ClassState::Idle | ClassState::Waiting => None,
    }
}
