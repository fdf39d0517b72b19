//! The queues of a vhost-user port, as workers use them.

use super::back_end::{Sender, Source, Transmission};
use super::counters::{Counters, EqualLengthRun, PairCounters};
use packet::frame::{Frame, FrameBatch, FramePool};
use packet::queue::{RxQueue, RxResult, TxQueue, TxResult};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Settings and counters that the port shares with its queues. A queue reads the settings once per burst.
#[derive(Debug)]
pub(super) struct PortShared {
    pub mtu: AtomicU32,
    pub retries_max: AtomicU32,
    pub up: AtomicBool,
    pub rx_counters: PairCounters,
    pub tx_counters: PairCounters,
}

/// Bytes of a frame that the MTU does not include: Ethernet header (14) and check sequence (4).
const ETHERNET_OVERHEAD: u32 = 18;

/// An rx queue of the port. In cache lines of its own (see [`sync::CachePadded`]).
#[repr(align(128))]
pub(super) struct VhostRx {
    /// `None`: no guest has connected yet, so the pool for packets does not exist.
    pub source: Option<Source>,
    pub shared: Arc<PortShared>,
    pub counters: Arc<Counters>,
}

impl RxQueue for VhostRx {
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, max: usize) -> RxResult {
        let Some(source) = &mut self.source else { return RxResult::default() };
        if !self.shared.up.load(Ordering::Relaxed) {
            return RxResult::default();
        }
        let before = out.len();
        let got = source.receive(max, pool, out);
        if got.packets > 0 {
            let mut run = EqualLengthRun::default();
            out[before..].iter().for_each(|frame| run.add_packet(frame.head(), frame.len(), &self.counters));
            run.end(&self.counters);
            self.counters.interrupts.add(got.interrupts);
        }
        if got.refused > 0 {
            self.counters.dropped.add(got.refused as u64);
            self.counters.bad_offload.add(got.refused as u64);
        }
        let more = got.packets > 0 && got.packets >= max;
        RxResult { dropped: got.refused as u32, more, port: None, needs_return: got.needs_return }
    }

    fn return_buffers(&mut self) -> bool {
        let interrupts = self.source.as_mut().map_or(Some(0), Source::return_buffers);
        interrupts.inspect(|n| self.counters.interrupts.add(*n)).is_some()
    }

    fn waiting(&mut self) -> Option<u32> {
        Some(self.source.as_mut().map_or(0, Source::waiting))
    }

    fn arm(&mut self, on: bool) -> bool {
        self.source.as_mut().is_none_or(|source| source.arm(on))
    }
}

/// A tx queue of the port. In cache lines of its own (see [`sync::CachePadded`]).
#[repr(align(128))]
pub(super) struct VhostTx {
    /// `None`: no path was configured yet.
    pub sender: Option<Sender>,
    pub shared: Arc<PortShared>,
    /// The queue pair that was used last, and its counters.
    pub counters: (usize, Arc<Counters>),
}

impl TxQueue for VhostTx {
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
        let up = self.shared.up.load(Ordering::Relaxed);
        let retries = self.shared.retries_max.load(Ordering::Relaxed);
        let (shared, counters) = (&self.shared, &mut self.counters);
        let sent = match self.sender.as_mut().filter(|_| up) {
            None => None,
            Some(Sender::Own(sender)) => {
                let mut packets = vhost::Packets::default();
                sender.begin(&mut packets, retries).map(|s| send_own(s, frames, shared, counters))
            }
            Some(Sender::Library(sender)) => sender.begin(retries).map(|s| send(s, frames, shared, counters)),
        };
        sent.unwrap_or_else(|| {
            self.counters.1.dropped.add(frames.len() as u64);
            TxResult { dropped: frames.len() as u32, ..TxResult::default() }
        })
    }

    fn releases_held_buffers(&self) -> bool {
        matches!(self.sender, Some(Sender::Own(_)))
    }

    fn accepts_large(&self) -> bool {
        self.sender.as_ref().is_some_and(Sender::accepts_large)
    }
}

/// Sends with the own back-end. Usually the whole batch is sent by one call. If a frame is longer than the MTU or has an offload request, or
/// the queue pair has changed, the frames are sent by [`send`].
#[inline]
fn send_own<'f>(
    mut sending: vhost::Sending<'_, 'f>,
    frames: &'f mut FrameBatch,
    shared: &PortShared,
    counters: &mut (usize, Arc<Counters>),
) -> TxResult {
    let max_len = (shared.mtu.load(Ordering::Relaxed) + ETHERNET_OVERHEAD) as usize;
    if counters.0 != sending.pair() || frames.iter().any(|f| f.has_offload_state() || f.len() > max_len) {
        return send(sending, frames, shared, counters);
    }
    let (counters, mut run) = (&counters.1, EqualLengthRun::default());
    let (mut sent, mut bytes_sent) = (0, 0);
    let unsent = sending.send_frames(frames, |bytes, len| {
        run.add_packet(bytes, len, counters);
        sent += 1;
        bytes_sent += len as u64;
    });
    run.end(counters);
    counters.retries.add(u64::from(sending.retries()));
    counters.interrupts.add(sending.interrupts());
    counters.count_unsent(unsent as u64);
    TxResult { sent, sent_bytes: bytes_sent, dropped: unsent as u32, ..TxResult::default() }
}

/// Sends frames one after another. The switch performs the offload requests that the guest does not support.
fn send<'f>(
    mut sending: impl Transmission<'f>,
    frames: &'f mut FrameBatch,
    shared: &PortShared,
    counters: &mut (usize, Arc<Counters>),
) -> TxResult {
    if counters.0 != sending.pair() {
        *counters = (sending.pair(), shared.tx_counters.new_counters(sending.pair()));
    }
    let max_len = (shared.mtu.load(Ordering::Relaxed) + ETHERNET_OVERHEAD) as usize;
    let mut burst = Burst { counters: &counters.1, max_len, result: TxResult::default() };
    for frame in frames.iter_mut() {
        burst.push_frame(&mut sending, frame);
    }
    burst.flush(&mut sending);
    burst.counters.retries.add(u64::from(sending.retries()));
    burst.counters.interrupts.add(sending.interrupts());
    burst.result
}

/// The state of one call of `tx`.
struct Burst<'a> {
    counters: &'a Counters,
    max_len: usize,
    result: TxResult,
}

impl Burst<'_> {
    #[inline]
    fn push_frame<'f>(&mut self, sending: &mut impl Transmission<'f>, frame: &'f mut Frame) {
        if sending.is_full() {
            self.flush(sending);
        }
        if frame.has_offload_state() {
            return self.send_with_offloads(sending, frame);
        }
        if frame.len() > self.max_len || !sending.push(frame) {
            self.result.too_long += 1;
            self.counters.too_long.add(1);
            self.counters.dropped.add(1);
        }
    }

    /// Sends a frame with an offload request. If the guest does not support the request, the switch performs it.
    #[cold]
    fn send_with_offloads<'f>(&mut self, sending: &mut impl Transmission<'f>, frame: &'f mut Frame) {
        let offload = frame.offload();
        if frame.longest_segment() <= self.max_len && sending.supports(frame, &offload) {
            sending.push_with_offload(frame, &offload);
            return;
        }
        // Packets that were pushed before must be sent and counted first.
        self.flush(sending);
        let (counters, max_len, frame_len) = (self.counters, self.max_len, frame.len() as u64);
        let (mut sent, mut unsent, mut too_long) = (0u32, 0u64, 0u64);
        let done = offload.finish(frame.bytes_mut(), |packet| {
            if packet.len() > max_len {
                too_long += 1;
                return;
            }
            unsent += sending.send_now(packet, |bytes, len| {
                counters.count_packet(bytes, len);
                sent += 1;
            }) as u64;
        });
        if done.is_none() {
            counters.bad_offload.add(1);
            unsent = 1;
        } else {
            counters.full.add(unsent);
        }
        counters.too_long.add(too_long);
        counters.dropped.add(too_long + unsent);
        // The caller counts one frame, even if it became several segments.
        match (sent, unsent) {
            (0, 0) => self.result.too_long += 1,
            (0, _) => self.result.dropped += 1,
            _ => {
                self.result.sent += 1;
                self.result.sent_bytes += frame_len;
            }
        }
    }

    #[inline]
    fn flush<'f>(&mut self, sending: &mut impl Transmission<'f>) {
        let (counters, result) = (self.counters, &mut self.result);
        let mut run = EqualLengthRun::default();
        let unsent = sending.flush(|bytes, len| {
            run.add_packet(bytes, len, counters);
            result.sent += 1;
            result.sent_bytes += len as u64;
        });
        run.end(counters);
        self.result.dropped += unsent as u32;
        counters.count_unsent(unsent as u64);
    }
}
