//! Recently dropped packets, for `ofproto/trace --last-drop`.
//!
//! A worker keeps the packet that it dropped last until its iteration ends, or until it drops a packet of another
//! port or for another reason. Only then are the bytes copied. So forwarded packets cost nothing, and one packet per
//! iteration of a dropped stream is copied. For a packet that a device did not accept, the metadata is lost: only
//! its bytes and its output port are recorded.
//!
//! One packet of each flow, port and reason is kept: a newer packet replaces it. If there are too many, the oldest
//! packet of the port and reason with the most packets is removed. So a flood of one kind does not remove the others.
//!
//! **Bounds**: [`SLOTS`] packets of [`KEPT`] bytes for each worker; [`PER_ITERATION`] copies in one iteration. Of the
//! iterations that drop more than [`FLOOD_THRESHOLD`] packets only [`FLOODS_PER_MS`] per millisecond are recorded, so that
//! recording costs little in a flood.
//!
//! **Threads**: the worker writes, any thread reads. If a reader holds the lock, the worker does not wait, but
//! discards its copies.

use crate::capture::Captures;
use crate::drop_counters::{PortDrops, SharedPortDrops};
pub use crate::drop_port::DropPort;
use crate::packet::{Meta, Packet};
use crate::port::Frame;
use dpif::DropReason;
use flow::{Flow, Mac, Vlan};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use units::{Millis, WorkerId};

/// Maximum number of packets that are kept for one worker.
pub const SLOTS: usize = 128;
/// Maximum number of bytes of each packet that are kept: enough for a complete frame of the common MTU.
pub const KEPT: usize = 2048;
/// Maximum number of packets that are copied in one iteration, if port or reason change with each packet. Copying eight
/// packets takes a few microseconds.
const PER_ITERATION: u8 = 8;
/// An iteration that drops at most this many packets is always recorded.
const FLOOD_THRESHOLD: u64 = 8;
/// Number of iterations of a flood that are recorded per millisecond. At 20 Mpps there are about 300 iterations with
/// full bursts (64 packets) per millisecond, and recording one costs about 1,000 instructions if every packet is of
/// another flow.
const FLOODS_PER_MS: u32 = 16;

/// A packet as it was when it was dropped, with all edits made before.
#[derive(Clone, Debug)]
pub struct LastDrop {
    /// Time of the drop.
    pub at: Millis,
    /// The worker that dropped it.
    pub worker: WorkerId,
    /// The reason.
    pub reason: DropReason,
    /// The port.
    pub port: DropPort,
    /// Length in bytes; 0 if the device received the packet and could not deliver it.
    pub len: usize,
    /// Its first bytes, at most [`KEPT`].
    pub bytes: Vec<u8>,
    meta: Meta,
    kind: FlowFields,
    /// Increases with each packet that the worker records.
    serial: u64,
}

impl LastDrop {
    /// Sort key by the time of the drop. Between different workers the order is approximate.
    pub(crate) fn order(&self) -> (Millis, u64) {
        (self.at, self.serial)
    }

    /// Replaces the record by another one and reuses the memory of `bytes`, so that a flood of drops does not
    /// allocate.
    fn overwrite(&mut self, new: LastDrop, bytes: &[u8]) {
        let mut memory = std::mem::take(&mut self.bytes);
        memory.clear();
        memory.extend_from_slice(bytes);
        *self = LastDrop { bytes: memory, ..new };
    }

    /// The fields of the packet. `in_port` is a datapath port number, or 0 if unknown.
    pub fn flow(&self) -> Flow {
        self.meta.flow_of(&self.bytes)
    }
}

/// The fields that distinguish flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FlowFields {
    macs: (Mac, Mac),
    vlans: [Vlan; 2],
    dl_type: u16,
    nw_proto: u8,
    v4: (u32, u32),
    v6: ([u8; 16], [u8; 16]),
    ports: (u16, u16),
}

impl FlowFields {
    fn of(f: &Flow) -> FlowFields {
        FlowFields {
            macs: (f.dl_src, f.dl_dst),
            vlans: f.vlans,
            dl_type: f.dl_type,
            nw_proto: f.nw_proto,
            v4: (f.nw_src, f.nw_dst),
            v6: (f.ipv6_src, f.ipv6_dst),
            ports: (f.tp_src, f.tp_dst),
        }
    }
}

/// The records of one worker.
#[derive(Debug, Default)]
pub(crate) struct LastDrops(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    drops: Vec<LastDrop>,
    /// Number of records of each port and reason.
    classes: BTreeMap<(DropPort, DropReason), usize>,
    /// Number of packets ever recorded.
    serial: u64,
}

impl Ring {
    /// Writes a record in place of the record of the same flow, or into a free slot, or in place of the oldest record
    /// of the most frequent port and reason.
    fn write(&mut self, mut new: LastDrop, bytes: &[u8]) {
        self.serial += 1;
        new.serial = self.serial;
        let class = (new.port, new.reason);
        let same = |d: &LastDrop| (d.port, d.reason) == class && d.kind == new.kind;
        if let Some(old) = self.drops.iter_mut().find(|d| same(d)) {
            return old.overwrite(new, bytes);
        }
        *self.classes.entry(class).or_default() += 1;
        if self.drops.len() < SLOTS {
            new.bytes = bytes.to_vec();
            return self.drops.push(new);
        }
        let most = self.classes.iter().max_by_key(|(_, n)| **n).map(|(class, _)| *class);
        let of_most = |d: &&mut LastDrop| most == Some((d.port, d.reason));
        // The new record is not in the list yet, but it is counted, and may itself make its class the most frequent.
        let victim = match self.drops.iter_mut().filter(of_most).min_by_key(|d| d.serial) {
            Some(victim) => Some(victim),
            None => self.drops.iter_mut().min_by_key(|d| d.serial),
        };
        if let Some(victim) = victim {
            let gone = (victim.port, victim.reason);
            victim.overwrite(new, bytes);
            self.release(gone);
        }
    }

    fn release(&mut self, class: (DropPort, DropReason)) {
        if let Some(n) = self.classes.get_mut(&class) {
            *n -= 1;
            if *n == 0 {
                self.classes.remove(&class);
            }
        }
    }
}

impl LastDrops {
    fn write(&self, drop: LastDrop, bytes: &[u8]) {
        match self.0.try_lock() {
            Ok(mut ring) => ring.write(drop, bytes),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().write(drop, bytes),
            Err(TryLockError::WouldBlock) => {}
        }
    }

    /// All records.
    pub(crate) fn all(&self) -> Vec<LastDrop> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drops.clone()
    }

    /// Removes the records of a removed port.
    pub(crate) fn forget(&self, port: u32) {
        let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ring.drops.retain(|d| d.port.port() != port);
        ring.classes.retain(|(drop_port, _), _| drop_port.port() != port);
    }
}

/// The worker's side: the packets that it has dropped in the present iteration.
pub(crate) struct DropLog {
    worker: WorkerId,
    drops: Arc<LastDrops>,
    /// The packet that was dropped last.
    held: Option<(Packet, DropReason)>,
    /// Copies that may still be made in this iteration.
    left: u8,
    /// Number of packets that the worker had dropped before this iteration.
    before: u64,
    /// The present millisecond, and the number of flood iterations recorded in it.
    floods: (Millis, u32),
    /// Drops by port and reason.
    pub(crate) ports: PortDrops,
    /// The captures, if one of them captures drops.
    captures: Option<Arc<Captures>>,
    /// The port that was checked last, and whether a capture captures its drops. Most drops are at the same port as
    /// the previous one.
    last_port: (u32, bool),
}

/// Initial value of `last_port`. No port has this number.
const NO_PORT: (u32, bool) = (u32::MAX, false);

impl DropLog {
    pub(crate) fn new(worker: WorkerId, drops: Arc<LastDrops>, ports: Arc<SharedPortDrops>) -> DropLog {
        DropLog {
            worker,
            drops,
            held: None,
            left: PER_ITERATION,
            before: 0,
            floods: (Millis(0), 0),
            ports: PortDrops::new(ports),
            captures: None,
            last_port: NO_PORT,
        }
    }

    /// Sets the captures; called when ports or captures have changed.
    pub(crate) fn refresh(&mut self, captures: &Arc<Captures>) {
        self.last_port = NO_PORT;
        self.captures = captures.captures_drops().then(|| Arc::clone(captures));
        self.ports.refresh();
    }

    /// Returns whether each dropped packet that one of these ports received must be passed to this log, rather than
    /// one of a burst. Without a capture the ports are not checked.
    #[inline]
    pub(crate) fn needs_all(&mut self, mut ports: impl Iterator<Item = u32>) -> bool {
        self.captures.is_some() && ports.any(|port| self.captures_port(port))
    }

    /// Returns whether a capture captures the drops of this port.
    #[inline]
    fn captures_port(&mut self, port: u32) -> bool {
        if self.last_port.0 != port {
            self.last_port =
                (port, self.captures.as_ref().is_some_and(|captures| captures.captures_drops_of(port)));
        }
        self.last_port.1
    }

    /// Keeps a dropped packet and returns the frame of the packet that was kept before.
    pub(crate) fn hold(&mut self, packet: Packet, reason: DropReason, now: Millis) -> Option<Frame> {
        let port = packet.meta.in_port;
        if self.captures.is_some() && self.captures_port(port) {
            self.offer(&packet, reason);
        }
        let (before, why) = self.held.replace((packet, reason))?;
        if (before.meta.in_port, why) != (port, reason) {
            self.record_packet(&before, why, now);
        }
        Some(before.frame)
    }

    #[cold]
    fn offer(&self, packet: &Packet, reason: DropReason) {
        if let Some(captures) = &self.captures {
            let drop_port = DropPort::In(packet.meta.in_port);
            captures.offer_drop(self.worker, (packet.frame.bytes(), &packet.meta), reason, drop_port);
        }
    }

    /// Ends the iteration and returns the frame that was kept. `dropped`: total number of packets that the worker has
    /// dropped.
    #[inline]
    pub(crate) fn end_iteration(&mut self, now: Millis, dropped: u64) -> Option<Frame> {
        let is_flood = dropped.wrapping_sub(std::mem::replace(&mut self.before, dropped)) > FLOOD_THRESHOLD;
        if self.held.is_none() && self.left == PER_ITERATION {
            return None;
        }
        self.end_drops(now, is_flood)
    }

    #[cold]
    fn end_drops(&mut self, now: Millis, is_flood: bool) -> Option<Frame> {
        let held = self.held.take();
        self.ports.list();
        self.left = PER_ITERATION;
        let (packet, reason) = held?;
        if !is_flood || self.may_record_flood(now) {
            self.record_packet(&packet, reason, now);
            self.left = PER_ITERATION;
        }
        Some(packet.frame)
    }

    fn may_record_flood(&mut self, now: Millis) -> bool {
        let (ms, iterations) = &mut self.floods;
        if *ms != now {
            (*ms, *iterations) = (now, 0);
        }
        *iterations += 1;
        *iterations <= FLOODS_PER_MS
    }

    /// Records a packet.
    #[cold]
    pub(crate) fn log_packet(&mut self, packet: &Packet, reason: DropReason, now: Millis) {
        self.log_bytes(packet.frame.bytes(), &packet.meta, reason, DropPort::In(packet.meta.in_port), now);
    }

    /// Records a packet of which only the bytes and the output port are known.
    #[cold]
    pub(crate) fn log_unsent(&mut self, bytes: &[u8], reason: DropReason, port: u32, now: Millis) {
        self.log_bytes(bytes, &Meta::default(), reason, DropPort::Out(port), now);
    }

    /// Records a packet with these bytes.
    #[cold]
    pub(crate) fn log_bytes(
        &mut self,
        bytes: &[u8],
        meta: &Meta,
        reason: DropReason,
        drop_port: DropPort,
        now: Millis,
    ) {
        if let Some(captures) = &self.captures {
            captures.offer_drop(self.worker, (bytes, meta), reason, drop_port);
        }
        self.record(bytes, meta, reason, drop_port, now);
    }

    #[cold]
    fn record_packet(&mut self, packet: &Packet, reason: DropReason, now: Millis) {
        self.record(packet.frame.bytes(), &packet.meta, reason, DropPort::In(packet.meta.in_port), now);
    }

    #[cold]
    fn record(&mut self, bytes: &[u8], meta: &Meta, reason: DropReason, drop_port: DropPort, now: Millis) {
        let Some(left) = self.left.checked_sub(1) else { return };
        self.left = left;
        let kept = &bytes[..bytes.len().min(KEPT)];
        let kind = FlowFields::of(&meta.flow_of(kept));
        let (worker, len, meta) = (self.worker, bytes.len(), meta.clone());
        let drop = LastDrop {
            at: now,
            worker,
            reason,
            port: drop_port,
            len,
            bytes: Vec::new(),
            meta,
            kind,
            serial: 0,
        };
        self.drops.write(drop, kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::by_source_tests::{BySource, packet};
    use crate::port::{FrameBatch, RX_BURST, RxQueue, RxResult, TxQueue, TxResult};
    use crate::tests::Wire;
    use units::{PortNo, QueueId};

    /// Accepts this many frames and refuses the others.
    struct Full(usize);

    impl TxQueue for Full {
        fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
            let sent = frames.len().min(self.0);
            TxResult { sent: sent as u32, dropped: (frames.len() - sent) as u32, ..TxResult::default() }
        }
    }

    /// Refuses frames and does not give them back.
    struct Picky;

    impl TxQueue for Picky {
        fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
            TxResult { dropped: frames.drain(..).len() as u32, ..TxResult::default() }
        }
        fn refused(&self) -> Option<&[u8]> {
            Some(&[7; 20])
        }
    }

    /// Fails to deliver a frame, and then leaves an empty frame in its place.
    struct Broken(u32);

    impl RxQueue for Broken {
        fn rx(&mut self, pool: &mut crate::port::FramePool, out: &mut FrameBatch, _: usize) -> RxResult {
            self.0 += 1;
            match self.0 {
                1 => RxResult { dropped: 3, ..RxResult::default() },
                2 => {
                    out.extend(pool.frame_of(&[1; 5]));
                    RxResult::default()
                }
                _ => RxResult::default(),
            }
        }
    }

    impl BySource {
        /// Reason, place and length of all records, the newest first. Checks that each counted reason is
        /// among them.
        fn drops(&self) -> Vec<(DropReason, DropPort, usize)> {
            let drops = self.datapath.last_drops();
            for (reason, _) in self.datapath.drops() {
                assert!(
                    drops.iter().any(|d| d.reason == reason),
                    "{reason:?} is counted, and not remembered"
                );
            }
            drops.iter().map(|d| (d.reason, d.port, d.len)).collect()
        }
    }

    const PIPELINE: DropReason = DropReason::ActionOfPipeline;

    #[test]
    fn the_newest_of_each_flow_and_why() {
        let mut setup = BySource::new();
        setup.send(&[1]);
        assert!(setup.drops().is_empty());
        // First by an upcall, then by megaflows: for whole batches and for parts of batches.
        for sources in [&[10, 20][..], &[20, 20], &[20, 10, 1, 20, 1]] {
            setup.send(sources);
            let last = &setup.datapath.last_drops()[0];
            assert_eq!((last.at, last.worker), (Millis(setup.at), WorkerId(1)));
        }
        let mut drops = setup.datapath.last_drops();
        drops.sort_by_key(|d| d.reason);
        let seen: Vec<_> =
            drops.iter().map(|d| (d.reason, d.at, d.flow().in_port, d.flow().nw_src)).collect();
        let deep = DropReason::ActionRecursionTooDeep;
        assert_eq!(seen, [(PIPELINE, Millis(4), 1, 20), (deep, Millis(4), 1, 10)]);
        assert_eq!(drops[0].bytes, packet(20));
        setup.datapath.del_port(PortNo(1)).unwrap();
        assert!(setup.datapath.last_drops().is_empty());
    }

    #[test]
    fn what_a_device_does_not_take_is_remembered_with_its_port() {
        let mut setup = BySource::new();
        let txqs: [Box<dyn TxQueue>; 3] = [Box::new(Full(1)), Box::new(Picky), Box::new(Wire::default())];
        for (no, txq) in (2..).zip(txqs) {
            setup.datapath.add_port(PortNo(no), vec![txq]).unwrap();
        }
        setup.datapath.add_port(PortNo(5), Vec::new()).unwrap();
        setup.send(&[2, 2]);
        setup.send(&[3]);
        let long = [packet(4), vec![0; 1600]].concat();
        setup.wire.put(&long);
        setup.wire.put(&packet(4));
        setup.iteration();
        setup.send(&[5]);
        setup.send(&[9]);
        let (failed, len) = (DropReason::TxFailed, packet(2).len());
        let wanted = [
            (DropReason::InvalidPort, DropPort::Out(9), len),
            (failed, DropPort::Out(5), len),
            (DropReason::TxTooLong, DropPort::Out(4), long.len()),
            (failed, DropPort::Out(3), 20),
            (failed, DropPort::Out(2), len),
        ];
        assert_eq!(setup.drops(), wanted);
        assert_eq!(setup.datapath.last_drops()[4].bytes, packet(2));
    }

    #[test]
    fn what_a_device_does_not_deliver_is_remembered_too() {
        let mut setup = BySource::new();
        setup.worker.add_rxq(PortNo(1), QueueId(1), Box::new(Broken(0)));
        setup.iteration();
        assert_eq!(setup.drops(), [(DropReason::RxInvalidPacket, DropPort::In(1), 0)]);
        setup.iteration();
        assert_eq!(setup.drops()[0], (DropReason::RxInvalidPacket, DropPort::In(1), 5));
    }

    #[test]
    fn a_flood_leaves_what_else_was_dropped() {
        let mut setup = BySource::new();
        setup.send(&[10]);
        setup.send(&[9]);
        for src in 0..10 * SLOTS as u32 {
            setup.send(&[1000 + src]);
        }
        let drops = setup.drops();
        assert_eq!(drops.len(), SLOTS);
        assert_eq!(drops.iter().filter(|(reason, ..)| *reason == PIPELINE).count(), SLOTS - 2);
        let newest = setup.datapath.last_drops();
        assert!(
            newest[..SLOTS - 2]
                .iter()
                .zip((0..10 * SLOTS as u32).rev())
                .all(|(d, n)| d.flow().nw_src == 1000 + n)
        );
        // However many packets an iteration drops, few are copied; the last one is always copied.
        let mixed: Vec<u32> = (0..RX_BURST as u32).map(|n| if n % 2 == 0 { 10 } else { 5000 + n }).collect();
        let before = setup.at;
        setup.send(&mixed);
        let copied = setup.datapath.last_drops().into_iter().filter(|d| d.at.0 > before).count();
        assert!((1..=usize::from(PER_ITERATION) + 1).contains(&copied), "{copied}");
        assert_eq!(setup.datapath.last_drops().iter().filter(|d| d.flow().nw_src == 5000 + 63).count(), 1);
    }
}
