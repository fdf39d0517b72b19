//! Frames: a program is executed on bare frames, as long as its operations need only the frames' bytes.
//!
//! A [`Packet`] is three times the size of a frame, and making one takes longer than rewriting a frame. So the
//! packets of a batch become [`Packet`]s only at the first operation that needs them.

use super::meter::MeterResult;
use super::{execute, lb_output, meter, sample, tunnel};
use crate::action::hash;
use crate::engine::Engine;
use crate::engine::groups::Group;
use crate::last_drop::DropPort;
use crate::packet::Packet;
use crate::port::{Frame, FrameBatch};
use crate::program::{Op, Program};
use crate::rewrite::Rewrite;
use ::conntrack::EarlierLookUp;
use dpif::DropReason;

impl Group {
    /// Takes all packets out of the group.
    pub(super) fn packets(&mut self, engine: &mut Engine) -> Vec<Packet> {
        let mut packets = engine.free_lists.packet_list();
        self.each(engine, |_, packet| packets.push(packet));
        packets
    }

    /// Drops the packets whose index is marked.
    pub(super) fn drop_marked(
        &mut self,
        engine: &mut Engine,
        marked: impl Fn(usize) -> bool,
        reason: DropReason,
    ) {
        let mut sides = [(); 2].map(|()| engine.free_lists.free_groups.pop().unwrap_or_default());
        let (mut own, mut numbers) = (self.own.drain(..), self.numbers.drain(..));
        for (i, frame) in self.frames.drain(..).enumerate() {
            let side = &mut sides[usize::from(marked(i))];
            side.frames.push(frame);
            side.own.extend(own.next());
            side.numbers.extend(numbers.next());
        }
        drop((own, numbers));
        let [mut kept, mut dropped] = sides;
        std::mem::swap(self, &mut kept);
        dropped.drop_all(engine, reason);
        engine.free_lists.free_groups.extend([kept, dropped]);
    }

    /// Drops all packets.
    fn drop_all(&mut self, engine: &mut Engine, reason: DropReason) {
        let in_port = self.own.first().unwrap_or(&engine.batch.common).in_port;
        let Group { frames, own, numbers } = self;
        drop_frames(engine, frames, (in_port, reason), |engine, i, frame| {
            let meta = own.get_mut(i).map_or_else(|| engine.batch.common.clone(), std::mem::take);
            Packet { frame, meta, offsets: None, number: numbers.get(i).copied() }
        });
        engine.drop_metas(own);
        numbers.clear();
    }

    /// Takes the packets out of the group one by one.
    #[inline]
    fn each(&mut self, engine: &mut Engine, mut end: impl FnMut(&mut Engine, Packet)) {
        let (mut own, mut numbers) = (self.own.drain(..), self.numbers.drain(..));
        for frame in self.frames.drain(..) {
            let meta = own.next().unwrap_or_else(|| engine.batch.common.clone());
            end(engine, Packet { frame, meta, offsets: None, number: numbers.next() });
        }
    }
}

/// Drops all frames, which `in_port` received. Only the last frame becomes a packet, unless the port's drops are
/// captured.
#[inline(never)]
pub(super) fn drop_frames(
    engine: &mut Engine,
    frames: &mut FrameBatch,
    (in_port, reason): (u32, DropReason),
    mut packet: impl FnMut(&mut Engine, usize, Frame) -> Packet,
) {
    if engine.drops.needs_all(std::iter::once(in_port)) {
        for (i, frame) in frames.drain(..).enumerate() {
            let packet = packet(engine, i, frame);
            engine.drop_packet(packet, reason);
        }
        return;
    }
    let Some(last) = frames.pop() else { return };
    let (others, last) = (frames.len(), packet(engine, frames.len(), last));
    engine.tally.count_drops(reason, others as u64);
    engine.drops.ports.count(DropPort::In(in_port), reason, others as u64);
    engine.drop_packet(last, reason);
    engine.pool.free_all(frames);
}

/// Executes the program on frames of the batch. `plain`: all frames are Ethernet, and none will be truncated. The
/// group is empty afterwards.
pub(super) fn run(engine: &mut Engine, program: &Program, group: &mut Group, plain: bool) {
    let mut ops = &program.ops[..];
    while plain && let Some((op, rest)) = ops.split_first() {
        let last = rest.is_empty();
        match op {
            Op::Rewrite(rewrite) => {
                let (edits, rest) = rest.split_at(usize::from(rewrite.ops).min(rest.len()));
                group.numbers.clear();
                if let Some(first) = rewrite_until_misfit(rewrite, &mut group.frames) {
                    let mut packets = group.packets(engine);
                    execute::edit_from(engine, rewrite, edits, &mut packets, first);
                    execute::run_ops(engine, rest, &mut packets);
                    return engine.free_lists.return_list(packets);
                }
                ops = rest;
                continue;
            }
            &Op::Output(port) if last => {
                engine.drop_metas(&mut group.own);
                group.numbers.clear();
                return engine.send_all(port, &mut group.frames);
            }
            &Op::LbOutput(bond) if last => return lb_output::group(engine, bond, group),
            &Op::Hash { symmetric, basis } => hash(engine, group, symmetric, basis),
            Op::ForgetConnection => {
                group.own.iter_mut().for_each(|meta| meta.ct_earlier = EarlierLookUp::default())
            }
            &Op::Recirc(id) if last => {
                return group.each(engine, |engine, packet| execute::recirculate(engine, id, packet));
            }
            Op::TunnelPush(push) if push.recirculated_on.is_none() => {
                if !tunnel::push_frames(engine, push, group) {
                    break;
                }
            }
            &Op::TunnelPop(port) if last && tunnel::pop_frames(engine, port, group) => return,
            &Op::Output(port) => group.frames.iter().for_each(|frame| engine.send_copy(frame, port)),
            &Op::Sample(share, ref inner) if !last => sample::group(engine, share, inner, group),
            &Op::Meter(id) => {
                if let MeterResult::NeedsPackets = meter::run_frames(engine, id, group) {
                    break;
                }
            }
            _ => break,
        }
        ops = rest;
    }
    let mut packets = group.packets(engine);
    execute::run_ops(engine, ops, &mut packets);
    engine.free_lists.return_list(packets);
}

/// Rewrites all frames. Returns the index of the first frame that the rewrite does not fit; this frame and the frames
/// after it are unchanged.
#[inline]
fn rewrite_until_misfit(rewrite: &Rewrite, frames: &mut FrameBatch) -> Option<usize> {
    frames.iter_mut().position(|frame| !rewrite.apply(frame))
}

/// Sets the hash of each packet. The hash is computed from the packet's key if the key contains all hashed fields.
fn hash(engine: &Engine, group: &mut Group, symmetric: bool, basis: u32) {
    let Group { frames, own, numbers } = group;
    if own.is_empty() {
        own.resize(frames.len(), engine.batch.common.clone());
    }
    for (i, (frame, meta)) in frames.iter().zip(own).enumerate() {
        let key = engine.batch.key_to_ports(numbers.get(i).copied());
        meta.dp_hash = hash::of_frame(frame, meta, key, symmetric, basis);
    }
}
