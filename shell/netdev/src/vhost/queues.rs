//! The queues of a vhost-user port, as workers use them.

use super::back_end::{Sender, Source, Transmission};
use super::counters::{Counters, PairCounters, Run};
use packet::frame::{Frame, FrameBatch, FramePool};
use packet::queue::{RxQueue, RxResult, TxQueue, TxResult};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Settings of the port's owner, which its queues read once per burst.
#[derive(Debug)]
pub(super) struct Setting {
    pub mtu: AtomicU32,
    pub retries_max: AtomicU32,
    pub up: AtomicBool,
    pub rx_counters: PairCounters,
    pub tx_counters: PairCounters,
}

/// Bytes that the MTU does not count: Ethernet header and check sequence.
const ETHER: u32 = 18;

pub(super) struct VhostRx {
    /// `None`: no guest has connected yet, so there is no pool for packets.
    pub source: Option<Source>,
    pub setting: Arc<Setting>,
    pub counters: Arc<Counters>,
}

impl RxQueue for VhostRx {
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, max: usize) -> RxResult {
        let Some(source) = &mut self.source else { return RxResult::default() };
        if !self.setting.up.load(Ordering::Relaxed) {
            return RxResult::default();
        }
        let before = out.len();
        let got = source.receive(max, pool, out);
        if got.packets > 0 {
            let mut run = Run::default();
            out[before..].iter().for_each(|frame| run.packet(frame.head(), frame.len(), &self.counters));
            run.end(&self.counters);
            self.counters.interrupts.add(got.interrupts);
        }
        if got.refused > 0 {
            self.counters.dropped.add(got.refused as u64);
            self.counters.bad_offload.add(got.refused as u64);
        }
        let more = got.packets > 0 && got.packets >= max;
        RxResult { dropped: got.refused as u32, more, port: None, lent: got.lent }
    }

    fn give_back(&mut self) -> bool {
        let interrupts = self.source.as_mut().map_or(Some(0), Source::give_back);
        interrupts.inspect(|n| self.counters.interrupts.add(*n)).is_some()
    }

    fn waiting(&mut self) -> Option<u32> {
        Some(self.source.as_mut().map_or(0, Source::waiting))
    }

    fn arm(&mut self, on: bool) -> bool {
        self.source.as_mut().is_none_or(|source| source.arm(on))
    }
}

pub(super) struct VhostTx {
    /// `None`: no path was configured yet.
    pub sender: Option<Sender>,
    pub setting: Arc<Setting>,
    /// The counters of the queue pair that was used last.
    pub counters: (usize, Arc<Counters>),
}

impl TxQueue for VhostTx {
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
        let up = self.setting.up.load(Ordering::Relaxed);
        let retries = self.setting.retries_max.load(Ordering::Relaxed);
        let (setting, counters) = (&self.setting, &mut self.counters);
        let sent = match self.sender.as_mut().filter(|_| up) {
            None => None,
            Some(Sender::Own(sender)) => {
                let mut packets = vhost::Packets::default();
                sender.begin(&mut packets, retries).map(|s| send_own(s, frames, setting, counters))
            }
            Some(Sender::Library(sender)) => {
                sender.begin(retries).map(|s| send(s, frames, setting, counters))
            }
        };
        sent.unwrap_or_else(|| {
            self.counters.1.dropped.add(frames.len() as u64);
            TxResult { dropped: frames.len() as u32, ..TxResult::default() }
        })
    }

    fn releases_held(&self) -> bool {
        matches!(self.sender, Some(Sender::Own(_)))
    }

    fn takes_large(&self) -> bool {
        self.sender.as_ref().is_some_and(Sender::takes_large)
    }
}

/// Sends by our own back-end: usually the whole batch at once, as it is.
#[inline]
fn send_own<'f>(
    mut sending: vhost::Sending<'_, 'f>,
    frames: &'f mut FrameBatch,
    setting: &Setting,
    counters: &mut (usize, Arc<Counters>),
) -> TxResult {
    let longest = (setting.mtu.load(Ordering::Relaxed) + ETHER) as usize;
    if counters.0 != sending.pair() || frames.iter().any(|f| f.has_offload_state() || f.len() > longest) {
        return send(sending, frames, setting, counters);
    }
    let (counters, mut run) = (&counters.1, Run::default());
    let (mut sent, mut bytes_sent) = (0, 0);
    let unsent = sending.send_frames(frames, |bytes, len| {
        run.packet(bytes, len, counters);
        sent += 1;
        bytes_sent += len as u64;
    });
    run.end(counters);
    counters.retries.add(u64::from(sending.retries()));
    counters.interrupts.add(sending.interrupts());
    counters.unsent(unsent as u64);
    TxResult { sent, sent_bytes: bytes_sent, dropped: unsent as u32, ..TxResult::default() }
}

fn send<'f>(
    mut sending: impl Transmission<'f>,
    frames: &'f mut FrameBatch,
    setting: &Setting,
    counters: &mut (usize, Arc<Counters>),
) -> TxResult {
    if counters.0 != sending.pair() {
        *counters = (sending.pair(), setting.tx_counters.open(sending.pair()));
    }
    let longest = (setting.mtu.load(Ordering::Relaxed) + ETHER) as usize;
    let mut burst = Burst { counters: &counters.1, longest, result: TxResult::default() };
    for frame in frames.iter_mut() {
        burst.frame(&mut sending, frame);
    }
    burst.flush(&mut sending);
    burst.counters.retries.add(u64::from(sending.retries()));
    burst.counters.interrupts.add(sending.interrupts());
    burst.result
}

/// One call of `tx`.
struct Burst<'a> {
    counters: &'a Counters,
    longest: usize,
    result: TxResult,
}

impl Burst<'_> {
    #[inline]
    fn frame<'f>(&mut self, sending: &mut impl Transmission<'f>, frame: &'f mut Frame) {
        if sending.is_full() {
            self.flush(sending);
        }
        if frame.has_offload_state() {
            return self.send_with_offloads(sending, frame);
        }
        if frame.len() > self.longest || !sending.push(frame) {
            self.result.too_long += 1;
            self.counters.too_long.add(1);
            self.counters.dropped.add(1);
        }
    }

    /// A frame with an offload request: sent as it is if the guest supports the request, otherwise performed here.
    #[cold]
    fn send_with_offloads<'f>(&mut self, sending: &mut impl Transmission<'f>, frame: &'f mut Frame) {
        let offload = frame.offload();
        if frame.longest() <= self.longest && sending.takes(frame, &offload) {
            sending.push_with_offload(frame, &offload);
            return;
        }
        // Packets that were pushed before are sent and counted first.
        self.flush(sending);
        let (counters, longest, whole) = (self.counters, self.longest, frame.len() as u64);
        let (mut sent, mut unsent, mut too_long) = (0u32, 0u64, 0u64);
        let done = offload.finish(frame.bytes_mut(), |packet| {
            if packet.len() > longest {
                too_long += 1;
                return;
            }
            unsent += sending.send_now(packet, |bytes, len| {
                counters.packet(bytes, len);
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
                self.result.sent_bytes += whole;
            }
        }
    }

    #[inline]
    fn flush<'f>(&mut self, sending: &mut impl Transmission<'f>) {
        let (counters, result) = (self.counters, &mut self.result);
        let mut run = Run::default();
        let unsent = sending.flush(|bytes, len| {
            run.packet(bytes, len, counters);
            result.sent += 1;
            result.sent_bytes += len as u64;
        });
        run.end(counters);
        self.result.dropped += unsent as u32;
        counters.unsent(unsent as u64);
    }
}
