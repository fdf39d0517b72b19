//! `tnl_push` and `tnl_pop`: add and remove tunnel headers.

use super::megaflow_guard::Programs;
use super::prepare::{copy, finish_numbered, finish_offloads, truncate};
use crate::action::hash;
use crate::batch::{BATCH, MAX_PASSES};
use crate::checksum_counters::ChecksumCounter;
use crate::engine::Engine;
use crate::engine::groups::Group;
use crate::packet::{Meta, Packet};
use crate::popped::{PoppedBatch, PoppedMeta};
use crate::port::{Frame, FrameBatch};
use crate::program::Push;
use crate::tally::{Event, Tally};
use classifier::megaflow::Options;
use classifier::megaflow::convert::options_of_bytes;
use cpu::{Level, Stage};
use dpif::DropReason;
use flow::{Tlv, Tunnel};
use tunnel::{
    BatchSourcePorts, ChecksumCounts, FastChecksumCounts, FastGeneve, FastPop, FastPush, FastVxlan,
    HeaderLengths, Kind, PerPacket, Popped,
};

/// How many packets ahead a frame's second cache line is prefetched, which contains the inner headers.
const AHEAD: usize = 4;

/// Length in bytes of the shortest inner frame: an Ethernet header.
const SHORTEST_FRAME: usize = 14;

/// Adds a header to frames of the batch. Returns `false` and changes nothing if offloads of some frames must be
/// finished first.
#[inline]
pub(super) fn push_frames(engine: &mut Engine, push: &Push, group: &mut Group) -> bool {
    if group.frames.iter().any(Frame::has_offload_state) {
        return false;
    }
    push_finished(engine, push, group);
    true
}

/// Adds a header to frames without unfinished offloads. Frames to which the header cannot be added are dropped.
#[inline]
pub(super) fn push_finished(engine: &mut Engine, push: &Push, group: &mut Group) {
    group.numbers.clear();
    let Some(header) = push.template.fast_push().filter(|_| engine.view.ports.tunnels.contain(push.port))
    else {
        return push_each_header(engine, group, |_| Some(push));
    };
    let left = cpu::stage(PushOnAll { engine, group, header });
    push_on_left(engine, group, left, |_| Some(push));
}

/// Adds to each frame the header of its program. Each header must have a fast form.
#[inline]
pub(super) fn push_programs(engine: &mut Engine, programs: &Programs<'_>, group: &mut Group) {
    group.numbers.clear();
    let left = cpu::stage(PushPrograms { engine, group, programs });
    push_on_left(engine, group, left, |i| push_of(programs, i));
}

/// Returns the header that the program of frame `i` adds.
#[inline(always)]
pub(super) fn push_of<'p>(programs: &Programs<'p>, i: usize) -> Option<&'p Push> {
    Some((*programs.get(i)?)?.push()?.0)
}

/// Adds the same header to all frames; only the UDP source port depends on the packet. The stage returns a bit for
/// each frame that has too little headroom or is too long.
struct PushOnAll<'a> {
    engine: &'a Engine,
    group: &'a mut Group,
    header: &'a FastPush,
}

impl Stage for PushOnAll<'_> {
    type Out = u64;

    #[inline(always)]
    fn run<L: Level>(self, _: L) -> u64 {
        let PushOnAll { engine, group, header } = self;
        let Group { frames, own, .. } = group;
        let ports = source_ports(engine, frames, own);
        header.push_on_all(frames, &ports)
    }
}

/// As [`PushOnAll`], but each frame gets the header of its program.
struct PushPrograms<'a, 'g> {
    engine: &'a Engine,
    group: &'a mut Group,
    programs: &'a Programs<'g>,
}

impl Stage for PushPrograms<'_, '_> {
    type Out = u64;

    #[inline(always)]
    fn run<L: Level>(self, _: L) -> u64 {
        let PushPrograms { engine, group, programs } = self;
        let Group { frames, own, .. } = group;
        let header = |i: usize| (*programs.get(i)?)?.header();
        let ports = source_ports(engine, frames, own);
        FastPush::push_on_each(frames, header, &ports)
    }
}

/// Computes the UDP source port of each frame. `own`: metadata of the frames.
#[inline(always)]
fn source_ports(engine: &Engine, frames: &[Frame], own: &[Meta]) -> BatchSourcePorts {
    let range = engine.view.ports.tunnels.source_ports();
    let mut ports = [0; BATCH];
    for (i, (frame, port)) in frames.iter().zip(&mut ports).enumerate() {
        *port = range.port(match hash::of_plain(frame.head()) {
            Some(hash) => hash,
            None => hash::of_other(frame.bytes(), own.get(i).unwrap_or(&engine.batch.common)),
        });
    }
    ports
}

/// Adds the header to the frames whose bit in `left` is set; drops the frames to which it cannot be added.
#[inline]
fn push_on_left<'p>(
    engine: &mut Engine,
    group: &mut Group,
    left: u64,
    push: impl Fn(usize) -> Option<&'p Push>,
) {
    if left == 0 {
        return;
    }
    let failed = push_on_some(engine, group, left, &push);
    if failed != 0 {
        drop_failed(engine, group, failed, push);
    }
}

/// Adds the header to the frames whose bit in `left` is set; returns a bit for each frame to which it cannot be
/// added.
#[cold]
fn push_on_some<'p>(
    engine: &Engine,
    group: &mut Group,
    left: u64,
    push: impl Fn(usize) -> Option<&'p Push>,
) -> u64 {
    let Group { frames, own, .. } = group;
    let mut failed = 0;
    for (i, frame) in frames.iter_mut().enumerate().filter(|(i, _)| left >> (i % BATCH) & 1 != 0) {
        let meta = own.get(i).unwrap_or(&engine.batch.common);
        let done = push(i).and_then(|push| push_on(engine, push, frame, meta));
        failed |= u64::from(done.is_none()) << (i % BATCH);
    }
    failed
}

/// Adds to each frame the header that `push` returns for it. Frames to which the header cannot be added are
/// dropped.
#[inline]
pub(super) fn push_each_header<'p>(
    engine: &mut Engine,
    group: &mut Group,
    push: impl Fn(usize) -> Option<&'p Push>,
) {
    let failed = cpu::stage(PushOnEach { engine, group, push: &push });
    if failed != 0 {
        drop_failed(engine, group, failed, push);
    }
}

/// Adds to each frame the header that `push` returns for it. The stage returns a bit for each frame to
/// which the header cannot be added.
struct PushOnEach<'a, F> {
    engine: &'a Engine,
    group: &'a mut Group,
    push: &'a F,
}

impl<'p, F: Fn(usize) -> Option<&'p Push>> Stage for PushOnEach<'_, F> {
    type Out = u64;

    #[inline(always)]
    fn run<L: Level>(self, _: L) -> u64 {
        let PushOnEach { engine, group, push } = self;
        let Group { frames, own, .. } = group;
        let mut failed = 0;
        for (i, frame) in frames.iter_mut().enumerate() {
            let meta = own.get(i).unwrap_or(&engine.batch.common);
            let done = push(i).and_then(|push| push_on(engine, push, frame, meta));
            failed |= u64::from(done.is_none()) << i;
        }
        failed
    }
}

/// Adds a header to a frame. Returns `None` if the tunnel port does not exist or the header cannot be added.
#[inline(always)]
fn push_on(engine: &Engine, push: &Push, frame: &mut Frame, meta: &Meta) -> Option<()> {
    let (template, ports) = (&push.template, &engine.view.ports.tunnels);
    let port = ports.get(push.port)?;
    let mut each = PerPacket::default();
    if template.needs_hash() {
        let hash = hash::of_frame_endpoints(frame, meta);
        (each.source_port, each.hash) = (ports.source_ports().port(hash), hash);
    }
    if template.has_sequence_number() {
        each.seq = port.next_seq();
        each.timestamp = (engine.now.0 as u32).wrapping_mul(10);
    }
    template.push_on(frame, &each)
}

/// Drops the packets of the group whose bit in `failed` is set.
#[cold]
fn drop_failed<'p>(
    engine: &mut Engine,
    group: &mut Group,
    failed: u64,
    push: impl Fn(usize) -> Option<&'p Push>,
) {
    let (mut frames, mut own) =
        (std::mem::take(&mut group.frames), std::mem::take(&mut group.own).into_iter());
    for (i, frame) in frames.drain(..).enumerate() {
        let meta = own.next();
        if failed >> i & 1 == 0 {
            group.frames.push(frame);
            group.own.extend(meta);
        } else {
            let meta = meta.unwrap_or_else(|| engine.batch.common.clone());
            drop_one(engine, push(i).map_or(u32::MAX, |push| push.port), Packet::new(frame, meta));
        }
    }
}

/// Adds a header to each packet.
pub(super) fn push(engine: &mut Engine, push: &Push, group: &mut Vec<Packet>) {
    let mut numbers = Vec::new();
    // After the header is added, inner checksums cannot be finished and inner packets cannot be segmented any more.
    if group.iter().any(|p| p.frame.has_offload_state()) {
        finish_numbered(engine, group, |n| numbers.push(n));
    }
    let (mut i, mut numbers) = (0, numbers.into_iter());
    while i < group.len() {
        let (p, number) = (&mut group[i], numbers.next());
        truncate(p);
        if push_on(engine, push, &mut p.frame, &p.meta).is_some() {
            // As if the packet had been segmented together with its outer header: the IPv4 identification of each
            // segment is increased by its number. Open vSwitch does the same.
            number.filter(|n| *n != 0).into_iter().for_each(|n| tunnel::add_to_id(p.frame.bytes_mut(), n));
            p.frame.shift_offload(push.template.len() as i16);
            (p.offsets, p.number, p.meta.packet_type) = (None, None, 0);
            if let Some(port) = push.recirculated_on {
                let Meta { passes, vlan_limit, .. } = p.meta;
                p.meta = Meta { passes, vlan_limit, ..Meta::received(port) };
            }
            i += 1;
        } else {
            let p = group.remove(i);
            drop_one(engine, push.port, p);
        }
    }
}

/// Drops a packet to which the header cannot be added.
#[cold]
fn drop_one(engine: &mut Engine, port: u32, packet: Packet) {
    let known = engine.view.ports.tunnels.get(port).is_some();
    let reason = if known { DropReason::TunnelPushError } else { DropReason::InvalidTunnelPort };
    engine.drop_packet(packet, reason);
}

/// Removes the header of each frame of the batch; the inner packets are queued as received on the tunnel port.
/// Returns `false` and changes nothing if offloads of some frames must be finished first, if the frames have metadata
/// of their own, or if they exceed the recirculation limit.
#[inline]
pub(super) fn pop_frames(engine: &mut Engine, port: u32, group: &mut Group) -> bool {
    if !group.own.is_empty() || group.frames.iter().any(Frame::has_offload_state) {
        return false;
    }
    let Some(kind) = engine.view.ports.tunnels.get(port).map(|tunnel| tunnel.kind) else { return false };
    let popped_meta = PoppedMeta::new(port, &engine.batch.common);
    if popped_meta.passes > MAX_PASSES {
        return false;
    }
    group.numbers.clear();
    let mut popped_batch = engine.popped.take_for_append(popped_meta, group.frames.len());
    let PoppedBatch { frames: before, outers, options, .. } = &mut popped_batch;
    let tunnels = outers.grow(group.frames.len());
    let mut checks = FastChecksumCounts::default();
    let frames = &mut group.frames;
    let options = (options, before.len());
    let others = match kind {
        Kind::Vxlan { .. } => {
            cpu::stage(PopEach { kind: FastVxlan, frames, tunnels, options, checks: &mut checks })
        }
        Kind::Geneve => {
            cpu::stage(PopEach { kind: FastGeneve, frames, tunnels, options, checks: &mut checks })
        }
        _ => u64::MAX >> (BATCH - frames.len().clamp(1, BATCH)),
    };
    let taken = frames.len() as u64 - u64::from(others.count_ones());
    let FastChecksumCounts { over_ipv6, udp } = checks;
    count(&mut engine.tally, ChecksumCounts { ip: taken - over_ipv6, udp, ..ChecksumCounts::default() });
    engine.tally.add(Event::Recirculated, taken);
    let mut rest = FrameBatch::new();
    if others == 0 && popped_batch.frames.is_empty() {
        std::mem::swap(&mut popped_batch.frames, &mut group.frames);
    } else if others == 0 {
        popped_batch.frames.append(&mut group.frames);
    } else {
        rest = split_refused(&mut popped_batch, &mut group.frames, others);
    }
    engine.popped.push_batch(popped_batch);
    for frame in rest {
        if let Some(frame) = pop_one(engine, kind, popped_meta, frame) {
            let meta = engine.batch.common.clone();
            engine.drop_packet(Packet::new(frame, meta), DropReason::TunnelPopError);
        }
    }
    true
}

/// Counts verified checksums of outer headers.
#[inline]
fn count(tally: &mut Tally, checks: ChecksumCounts) {
    let ChecksumCounts { ip, ip_wrong, udp, udp_wrong } = checks;
    let counts = [
        (ChecksumCounter::TunnelIp, ip),
        (ChecksumCounter::TunnelIpWrong, ip_wrong),
        (ChecksumCounter::TunnelUdp, udp),
        (ChecksumCounter::TunnelUdpWrong, udp_wrong),
    ];
    counts.into_iter().for_each(|(what, n)| tally.count_verified(what, n));
}

/// Removes the header of each frame whose header is of the usual form, and stores the outer header. The stage returns
/// a bit for each other frame; these frames are unchanged.
struct PopEach<'a, K> {
    kind: K,
    frames: &'a mut FrameBatch,
    /// Where the outer header of each frame is stored.
    tunnels: &'a mut [Tunnel],
    /// The tunnel options of each packet of the popped batch, and how many packets are in this batch before these
    /// frames.
    options: (&'a mut Vec<Option<Box<Options>>>, usize),
    checks: &'a mut FastChecksumCounts,
}

impl<K: FastPop> Stage for PopEach<'_, K> {
    type Out = u64;

    #[inline(always)]
    fn run<L: Level>(self, _: L) -> u64 {
        let PopEach { kind, frames, tunnels, options: (options, before), checks } = self;
        let (mut i, mut others) = (0, 0);
        while let (Some(frame), Some(tunnel)) = (frames.get_mut(i), tunnels.get_mut(i)) {
            let lengths = kind.read(frame.bytes(), tunnel, checks);
            if let Some(HeaderLengths { header, options: len @ 1.. }) = lengths
                && let Some(bytes) = frame.bytes().get(header - len..header)
            {
                options.resize_with(before + i, || None);
                options.push(Some(options_of_bytes(bytes)));
            }
            let taken = lengths.and_then(|lengths| frame.pull_front(lengths.header));
            others |= u64::from(taken.is_none()) << (i % BATCH);
            if let Some(ahead) = frames.get(i + AHEAD) {
                ahead.prefetch_line(1);
            }
            i += 1;
        }
        others
    }
}

/// Adds the frames whose bit in `others` is not set to the popped batch, and removes the outer headers of the other
/// frames from the headers that were stored last. Returns the other frames.
#[inline(never)]
fn split_refused(popped_batch: &mut PoppedBatch, frames: &mut FrameBatch, others: u64) -> FrameBatch {
    let mut rest = FrameBatch::new();
    let mut at = popped_batch.frames.len();
    for (i, frame) in frames.drain(..).enumerate() {
        if others >> i & 1 == 0 {
            popped_batch.frames.push(frame);
            at += 1;
        } else {
            rest.push(frame);
            popped_batch.remove_header(at);
        }
    }
    rest
}

/// Removes the header of each packet; the inner packets are queued as received on the tunnel port. `last`: no
/// operation follows, so the packets themselves are consumed and no copies are made.
pub(super) fn pop(engine: &mut Engine, port: u32, group: &mut Vec<Packet>, last: bool) {
    // An outer checksum that its sender left unfinished cannot be verified.
    finish_offloads(engine, group);
    let kind = engine.view.ports.tunnels.get(port).map(|tunnel| tunnel.kind);
    let mut list = engine.free_lists.packet_list();
    if last {
        list.append(group);
    } else {
        for p in group.iter() {
            list.extend(copy(engine, p));
        }
    }
    for mut p in list.drain(..) {
        truncate(&mut p);
        let popped_meta = PoppedMeta::new(port, &p.meta);
        let Some(kind) = kind else {
            engine.drop_packet(p, DropReason::InvalidTunnelPort);
            continue;
        };
        if popped_meta.passes > MAX_PASSES {
            engine.drop_packet(p, DropReason::RecircError);
        } else if let Some(frame) = pop_one(engine, kind, popped_meta, p.frame) {
            engine.drop_packet(Packet::new(frame, p.meta), DropReason::TunnelPopError);
        }
    }
    engine.free_lists.return_list(list);
}

/// Removes the header of a frame and queues the frame as received on the tunnel port. Returns the frame if its header
/// is refused.
#[inline(always)]
fn pop_one(engine: &mut Engine, kind: Kind, popped_meta: PoppedMeta, mut frame: Frame) -> Option<Frame> {
    let mut checks = ChecksumCounts::default();
    let popped = tunnel::pop_counted(kind, frame.bytes(), frame.checksum_states(), &mut checks);
    count(&mut engine.tally, checks);
    let Ok(popped) = popped else { return Some(frame) };
    let &Popped { ref tunnel, options, packet_type, header, end } = &popped;
    let len = end.checked_sub(header);
    if len.is_none_or(|len| packet_type == 0 && len < SHORTEST_FRAME) {
        return Some(frame);
    }
    let options = match options {
        [] => None,
        options => match Tlv::from_options(options) {
            None => return Some(frame),
            options => options,
        },
    };
    let tunnel = *tunnel;
    frame.trim(end);
    // What a device reported about checksums concerns the outer packet.
    frame.set_offload(Default::default());
    if frame.pull_front(header).is_none() {
        return Some(frame);
    }
    engine.tally.add(Event::Recirculated, 1);
    engine.popped.push_packet(PoppedMeta { packet_type, ..popped_meta }, frame, &tunnel, options.as_ref());
    None
}
