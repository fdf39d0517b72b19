//! Limits on the packet-ins of one connection: `controller_queue_size`, `controller_rate_limit`, `controller_burst_limit`.
//!
//! Without a rate, a packet-in is queued for the socket; if `queue_size` packet-ins wait there already, the new one is dropped.
//! With a rate, table misses and `controller` actions each have a token bucket in front of that queue. A packet-in
//! for which there is no token waits in a queue of its in port. The ports are served in turn, so that a port that floods the
//! controller does not delay others. If as many packet-ins wait as the burst allows, the oldest one of the longest queue is dropped.

use crate::conn_settings::ConnSettings;
use openflow::packet_io::PacketInReason;
use openflow::{Body, Dialect, Message};
use runtime::coverage::Counter;
use std::collections::{BTreeMap, VecDeque};
use units::Millis;

/// Packet-ins that were dropped because the peer did not read earlier ones.
pub(crate) static OVERFLOW: Counter = Counter::new("rconn_overflow");

/// A packet-in, and the variant of the wire format in which it is encoded.
pub(crate) type QueuedPacketIn = (Message, Dialect);

/// Kinds of packet-ins; each has its own scheduler and counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketKind {
    /// A `controller` action sent it.
    Action,
    /// The packet matched no flow or a table-miss flow.
    Miss,
}

impl PacketKind {
    /// All kinds, in the order of their numbers.
    pub(crate) const ALL: [PacketKind; 2] = [PacketKind::Action, PacketKind::Miss];

    pub(crate) fn from_reason(reason: PacketInReason) -> PacketKind {
        match reason {
            PacketInReason::NoMatch | PacketInReason::ExplicitMiss | PacketInReason::ImplicitMiss => {
                PacketKind::Miss
            }
            _ => PacketKind::Action,
        }
    }

    /// The name in the database keys `packet-in-TYPE-…`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            PacketKind::Action => "action",
            PacketKind::Miss => "miss",
        }
    }
}

/// Counters of packet-ins of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PacketCounts {
    /// Number of packet-ins sent at once, within the rate.
    pub(crate) bypassed: u64,
    /// Number queued because the rate was exceeded.
    pub(crate) queued: u64,
    /// Number dropped, because a queue was full or the peer did not read.
    pub(crate) dropped: u64,
    /// Number that wait in the queues now.
    pub(crate) backlog: usize,
}

/// The limits of one connection, and their counters.
#[derive(Debug, Default)]
pub(crate) struct PacketLimit {
    schedulers: Option<[Scheduler; 2]>,
    overflowed: [u64; 2],
}

impl PacketLimit {
    /// Applies the limits of the configuration.
    pub(crate) fn configure(&mut self, settings: &ConnSettings) {
        let Some(rate) = settings.rate_limit.filter(|rate| *rate > 0) else {
            self.schedulers = None;
            return;
        };
        let burst = settings.burst_limit.unwrap_or(rate / 4).max(1);
        let schedulers = self.schedulers.get_or_insert_with(Default::default);
        schedulers.iter_mut().for_each(|s| s.set_limits(rate, burst));
    }

    /// Returns the packet-in if it may be sent at once; otherwise it is queued.
    pub(crate) fn offer(
        &mut self,
        kind: PacketKind,
        message: QueuedPacketIn,
        now: Millis,
    ) -> Option<QueuedPacketIn> {
        match &mut self.schedulers {
            Some(schedulers) => schedulers[kind as usize].offer(message, now),
            None => Some(message),
        }
    }

    /// Removes and returns queued packet-ins that may be sent now, at most [`DUE_MAX`] of each kind.
    pub(crate) fn take_due(&mut self, now: Millis) -> Vec<(PacketKind, Message, Dialect)> {
        let Some(schedulers) = &mut self.schedulers else { return Vec::new() };
        let of = |(kind, s): (PacketKind, &mut Scheduler)| {
            s.due(now).into_iter().map(move |(m, dialect)| (kind, m, dialect))
        };
        PacketKind::ALL.into_iter().zip(schedulers).flat_map(of).collect()
    }

    /// When the next queued packet-in may be sent.
    pub(crate) fn deadline(&self) -> Option<Millis> {
        self.schedulers.iter().flatten().filter_map(Scheduler::deadline).min()
    }

    /// Empties the queues, for a new connection.
    pub(crate) fn clear(&mut self) {
        self.schedulers.iter_mut().flatten().for_each(Scheduler::clear);
    }

    /// Counts a packet-in that was dropped because the peer did not read.
    pub(crate) fn count_overflow(&mut self, kind: PacketKind) {
        self.overflowed[kind as usize] += 1;
    }

    /// The counters of a kind, and whether a rate is configured.
    pub(crate) fn counts(&self, kind: PacketKind) -> (PacketCounts, bool) {
        let scheduler = self.schedulers.as_ref().map(|s| &s[kind as usize]);
        let mut counts =
            scheduler.map(|s| PacketCounts { backlog: s.waiting, ..s.counts }).unwrap_or_default();
        counts.dropped += self.overflowed[kind as usize];
        (counts, scheduler.is_some())
    }
}

/// Limit of packet-ins of one kind that one call returns, so that other work is not delayed.
const DUE_MAX: usize = 50;
/// One token. Tokens are counted in thousandths, because a rate of `n` tokens per second is `n` thousandths per millisecond.
const TOKEN: u64 = 1000;

/// The token bucket of one kind, and the queues of packet-ins that wait for tokens.
#[derive(Debug, Default)]
struct Scheduler {
    /// Tokens per second.
    rate: u64,
    /// Size of the bucket in tokens, and limit of the waiting packet-ins.
    burst: usize,
    /// Thousandths of tokens in the bucket.
    tokens: u64,
    /// When tokens were last added.
    filled: Option<Millis>,
    /// Non-empty queues by in port.
    queues: BTreeMap<u32, VecDeque<QueuedPacketIn>>,
    /// The port that was served last.
    served: u32,
    waiting: usize,
    counts: PacketCounts,
}

impl Scheduler {
    fn set_limits(&mut self, rate: u32, burst: u32) {
        if self.rate == 0 {
            self.tokens = u64::from(burst) * TOKEN;
        }
        (self.rate, self.burst) = (u64::from(rate), burst as usize);
        while self.waiting > self.burst {
            self.drop_one();
        }
    }

    fn take_token(&mut self, now: Millis) -> bool {
        let elapsed = now.since(*self.filled.get_or_insert(now)).0;
        self.filled = Some(now);
        self.tokens = (self.tokens + elapsed.saturating_mul(self.rate)).min(self.burst as u64 * TOKEN);
        let enough = self.tokens >= TOKEN;
        self.tokens -= if enough { TOKEN } else { 0 };
        enough
    }

    fn offer(&mut self, message: QueuedPacketIn, now: Millis) -> Option<QueuedPacketIn> {
        if self.waiting == 0 && self.take_token(now) {
            self.counts.bypassed += 1;
            return Some(message);
        }
        if self.waiting >= self.burst {
            self.drop_one();
        }
        self.queues.entry(in_port(&message)).or_default().push_back(message);
        self.waiting += 1;
        self.counts.queued += 1;
        None
    }

    fn due(&mut self, now: Millis) -> Vec<QueuedPacketIn> {
        let mut out = Vec::new();
        while self.waiting > 0 && out.len() < DUE_MAX && self.take_token(now) {
            let next =
                self.queues.range(self.served.saturating_add(1)..).next().or(self.queues.iter().next());
            let Some(port) = next.map(|(port, _)| *port) else { break };
            self.served = port;
            out.extend(self.take_from(port));
        }
        out
    }

    fn take_from(&mut self, port: u32) -> Option<QueuedPacketIn> {
        let queue = self.queues.get_mut(&port)?;
        let message = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(&port);
        }
        self.waiting -= usize::from(message.is_some());
        message
    }

    fn drop_one(&mut self) {
        let longest = self.queues.iter().max_by_key(|(_, queue)| queue.len()).map(|(port, _)| *port);
        if let Some(port) = longest {
            self.take_from(port);
            self.counts.dropped += 1;
        }
    }

    fn deadline(&self) -> Option<Millis> {
        let missing = TOKEN.saturating_sub(self.tokens).div_ceil(self.rate.max(1));
        self.filled.filter(|_| self.waiting > 0).map(|filled| filled + Millis(missing))
    }

    fn clear(&mut self) {
        self.queues.clear();
        self.waiting = 0;
    }
}

fn in_port((message, _): &QueuedPacketIn) -> u32 {
    match &message.body {
        Body::PacketIn(packet, _) => packet.metadata.flow.in_port,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow::packet_io::{PacketIn, PacketInFormat};
    use openflow::{Version, Xid};

    fn packet(port: u32) -> QueuedPacketIn {
        let mut packet = PacketIn::default();
        packet.metadata.flow.in_port = port;
        let body = Body::PacketIn(Box::new(packet), PacketInFormat::Standard);
        (Message::new(Version::V13, Xid(0), body), Dialect::default())
    }

    fn scheduler(rate: u32, burst: u32) -> Scheduler {
        let mut s = Scheduler::default();
        s.set_limits(rate, burst);
        s
    }

    #[test]
    fn a_rate_holds_over_time() {
        let mut s = scheduler(100, 25);
        let sent_at_once = (0..100).filter(|_| s.offer(packet(1), Millis(0)).is_some()).count();
        assert_eq!((sent_at_once, s.waiting, s.counts.dropped), (25, 25, 50));
        let mut released = 0;
        for ms in 1..=100 {
            if s.deadline().is_some_and(|at| at <= Millis(ms)) {
                released += s.due(Millis(ms)).len();
            }
        }
        // 100 a second are 10 in 100 ms.
        assert_eq!(released, 10);
        assert_eq!((s.counts.bypassed, s.counts.queued, s.counts.dropped), (25, 75, 50));
    }

    #[test]
    fn a_port_that_floods_does_not_shut_another_out() {
        let mut s = scheduler(100, 25);
        (0..1000).for_each(|_| _ = s.offer(packet(1), Millis(0)));
        (0..5).for_each(|_| _ = s.offer(packet(2), Millis(0)));
        let ports: Vec<u32> = s.due(Millis(100)).iter().map(in_port).collect();
        assert_eq!(ports, [1, 2, 1, 2, 1, 2, 1, 2, 1, 2]);
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let mut limit = PacketLimit::default();
        assert!(limit.offer(PacketKind::Miss, packet(1), Millis(0)).is_some());
        assert_eq!(
            (limit.deadline(), limit.counts(PacketKind::Miss)),
            (None, (PacketCounts::default(), false))
        );
    }
}
