//! Execute: executes a program operation by operation, each over all packets of a group.
//!
//! An operation that consumes packets (output, userspace, recirculation, clone, sample) consumes the packets
//! themselves if it is the last one of the program, and copies of them otherwise.

use super::output::{enqueue, output};
use super::prepare::{copy, finish_offloads, truncate};
use super::{conntrack, fragments, lb_output, meter, tunnel};
use crate::action::{ether, hash, mpls, nsh, set_field, vlan};
use crate::batch::{MAX_PASSES, Recirculated};
use crate::engine::Engine;
use crate::packet::{Meta, Packet};
use crate::port::Frame;
use crate::program::{Op, Program, Summary};
use crate::rewrite::Rewrite;
use crate::tally::Event;
use ::conntrack::EarlierLookUp;
use dpif::{DropReason, Userspace};

/// Executes the program. The group is empty afterwards.
pub(crate) fn run(engine: &mut Engine, program: &Program, group: &mut Vec<Packet>) {
    run_ops(engine, &program.ops, group);
}

/// Executes the rest of a program. The group is empty afterwards.
pub(super) fn run_ops(engine: &mut Engine, ops: &[Op], group: &mut Vec<Packet>) {
    let mut ops = ops;
    while let Some((op, rest)) = ops.split_first() {
        let last = rest.is_empty();
        ops = rest;
        match op {
            Op::Rewrite(rewrite) => {
                let (edits, rest) = rest.split_at(usize::from(rewrite.ops).min(rest.len()));
                edit_from(engine, rewrite, edits, group, 0);
                ops = rest;
            }
            &Op::Output(port) if last && group.iter().all(|p| p.meta.skb_priority == 0) => {
                group.iter_mut().for_each(truncate);
                group.iter_mut().for_each(|p| engine.batch.recycle_rare(p.meta.rare.take()));
                engine.send_each(port, group.drain(..).map(|p| p.frame));
            }
            &Op::Output(port) => each(engine, group, last, |e, p| output(e, port, p)),
            &Op::Enqueue(port, queue) => each(engine, group, last, |e, p| enqueue(e, port, queue, p)),
            &Op::LbOutput(bond) => each(engine, group, last, |e, p| lb_output::one(e, bond, p)),
            Op::Userspace(u) => userspace(engine, u, group, last),
            &Op::Recirc(id) => each(engine, group, last, |e, p| recirculate(e, id, p)),
            Op::Clone(inner) => branch(engine, inner, group, last, |_| true),
            &Op::Sample(share, ref inner) => {
                branch(engine, inner, group, last, |engine| engine.samples(share));
            }
            Op::CheckLen(max, longer, rest) => split(engine, *max, [longer, rest], group, last),
            Op::NotePadding => {
                group.iter_mut().for_each(|p| p.meta.padding = u16::try_from(padding(&p.frame, &p.meta)).ok())
            }
            &Op::Drop(reason) => group.drain(..).for_each(|p| engine.drop_packet(p, reason)),
            &Op::Hash { symmetric, basis } => {
                for p in group.iter_mut() {
                    let key = engine.batch.key_to_ports(p.number);
                    p.meta.dp_hash = hash::of_frame(&p.frame, &p.meta, key, symmetric, basis);
                }
            }
            Op::Ct(action) => fragments::track(engine, action, group),
            Op::CtClear => group.iter_mut().for_each(conntrack::clear),
            Op::ForgetConnection => {
                group.iter_mut().for_each(|p| p.meta.ct_earlier = EarlierLookUp::default())
            }
            &Op::Meter(id) => meter::run(engine, id, group),
            Op::TunnelPush(push) => tunnel::push(engine, push, group),
            &Op::TunnelPop(port) => tunnel::pop(engine, port, group, last),
            &Op::Trunc(max) => {
                group.iter_mut().for_each(|p| p.meta.cut = p.frame.len().saturating_sub(max as usize))
            }
            op => edit(engine, op, group),
        }
    }
    // A program ends with an operation that consumes the packets. If a program did not, its packets are dropped here,
    // so that packet accounting stays correct.
    group.drain(..).for_each(|p| engine.drop_packet(p, DropReason::NoOutput));
}

/// Executes operations on one packet of the batch.
#[cold]
pub(super) fn run_one(engine: &mut Engine, ops: &[Op], i: usize, frame: Frame) {
    let packet = engine.batch.packet(i, frame);
    let mut group = engine.free_lists.packet_list();
    group.push(packet);
    run_ops(engine, ops, &mut group);
    engine.free_lists.return_list(group);
}

/// Executes an operation that writes, pushes or pops header fields.
fn edit(engine: &mut Engine, op: &Op, group: &mut Vec<Packet>) {
    if op.hides_transport() {
        finish_offloads(engine, group);
    }
    group.iter_mut().for_each(|p| p.number = None);
    match op {
        Op::Set(field) => group.iter_mut().for_each(|p| set_field::set(p, field)),
        &Op::PushVlan { tpid, tci } => push(engine, group, |p| vlan::push(p, tpid, tci)),
        Op::PopVlan => group.iter_mut().for_each(vlan::pop),
        &Op::PushMpls { ethertype, lse } => push(engine, group, |p| mpls::push(p, ethertype, lse)),
        &Op::PopMpls { ethertype } => group.iter_mut().for_each(|p| mpls::pop(p, ethertype)),
        &Op::PushEth { dst, src } => push(engine, group, |p| ether::push(p, dst, src)),
        Op::PopEth => group.iter_mut().for_each(ether::pop),
        &Op::AddMpls { ethertype, lse } => push(engine, group, |p| mpls::add(p, ethertype, lse)),
        Op::PushNsh(header) => push(engine, group, |p| nsh::push(p, header)),
        Op::PopNsh => or_drop(engine, group, DropReason::NshDecapError, nsh::pop),
        _ => debug_assert!(false, "{op:?} is not an edit"),
    }
}

/// Rewrites the packets from index `first` on. For a packet that the rewrite does not fit, the `edits` that the
/// rewrite replaces are executed instead. The order of the packets stays.
pub(super) fn edit_from(
    engine: &mut Engine,
    rewrite: &Rewrite,
    edits: &[Op],
    group: &mut Vec<Packet>,
    first: usize,
) {
    let Some(unfit) = group[first..].iter_mut().position(|p| !rewrite_one(rewrite, p)) else { return };
    let mut rest = engine.free_lists.packet_list();
    rest.extend(group.drain(first + unfit..));
    for (i, mut packet) in rest.drain(..).enumerate() {
        if i > 0 && rewrite_one(rewrite, &mut packet) {
            group.push(packet);
            continue;
        }
        let mut one = engine.free_lists.packet_list();
        one.push(packet);
        edits.iter().for_each(|op| edit(engine, op, &mut one));
        group.append(&mut one);
        engine.free_lists.return_list(one);
    }
    engine.free_lists.return_list(rest);
}

fn rewrite_one(rewrite: &Rewrite, p: &mut Packet) -> bool {
    let fits = p.meta.packet_type == 0 && rewrite.apply(&mut p.frame);
    if fits {
        (p.offsets, p.number) = (None, None);
    }
    fits
}

/// Calls `end` with each packet, or with a copy of it if the operation is not the last one.
fn each(engine: &mut Engine, group: &mut Vec<Packet>, last: bool, end: impl Fn(&mut Engine, Packet)) {
    if last {
        group.drain(..).for_each(|p| end(engine, p));
        return;
    }
    for p in group.iter_mut() {
        if let Some(copy) = copy(engine, p) {
            end(engine, copy);
        }
        p.meta.cut = 0;
    }
}

/// Queues a packet for recirculation, with its key if the key is still valid.
#[inline]
pub(super) fn recirculate(engine: &mut Engine, id: u32, mut p: Packet) {
    p.meta.passes += 1;
    if p.meta.passes > MAX_PASSES {
        return engine.drop_packet(p, DropReason::RecircError);
    }
    (p.meta.recirc_id, p.meta.padding) = (id, None);
    engine.tally.add(Event::Recirculated, 1);
    let key = engine.batch.key_of(p.number, &p.meta);
    engine.deferred.recirculated.push_back(Recirculated { packet: p, key });
}

/// Queues each packet to be translated and executed after the batch. If operations follow, the queue gets copies.
fn slow_path(engine: &mut Engine, group: &mut Vec<Packet>, last: bool) {
    if engine.deferred.in_slow_path {
        if last {
            group.drain(..).for_each(|p| engine.drop_packet(p, DropReason::ActionRecursionTooDeep));
        }
    } else if last {
        engine.deferred.slow.append(group);
    } else {
        for p in group.iter() {
            let copy = copy(engine, p);
            engine.deferred.slow.extend(copy);
        }
    }
}

/// Passes each packet to the control half, which only reads it. So packets are copied only if they must be truncated
/// or their offloads finished.
fn userspace(engine: &mut Engine, userspace: &Userspace, group: &mut Vec<Packet>, last: bool) {
    if userspace.needs_translation() {
        return slow_path(engine, group, last);
    }
    for p in group.iter_mut() {
        if !last {
            engine.tally.add(Event::Created, 1);
        }
        let Some(handler) = (*engine.view.handler).clone() else {
            engine.drop_part(p, DropReason::UserspaceActionError);
            continue;
        };
        let flow = p.flow();
        let bytes = p.frame.bytes();
        let max = bytes.len().saturating_sub(p.meta.cut);
        let delivered = if p.frame.has_offload_state() {
            let mut whole = bytes.to_vec();
            p.frame.offload().finish(&mut whole, |b| {
                handler.userspace(b.get(..max).unwrap_or(b), &flow, userspace);
            })
        } else {
            handler.userspace(&bytes[..max], &flow, userspace);
            Some(1)
        };
        match delivered {
            Some(_) => engine.tally.add(Event::Delivered, 1),
            None => engine.drop_part(p, DropReason::UserspaceActionError),
        }
        p.meta.cut = 0;
    }
    if last {
        group.drain(..).for_each(|p| engine.pool.free(p.frame));
    }
}

/// Executes a nested program on the packets (or copies) that `chosen` selects. If no operation follows, packets that
/// are not selected are dropped as packets without output.
fn branch(
    engine: &mut Engine,
    inner: &Program,
    group: &mut Vec<Packet>,
    last: bool,
    chosen: impl Fn(&mut Engine) -> bool,
) {
    let mut side = engine.free_lists.packet_list();
    if last {
        for p in group.drain(..) {
            if chosen(engine) {
                side.push(p);
            } else {
                engine.drop_packet(p, DropReason::NoOutput);
            }
        }
    } else {
        for p in group.iter() {
            if chosen(engine) {
                side.extend(copy(engine, p));
            }
        }
    }
    if !side.is_empty() {
        run(engine, inner, &mut side);
    }
    engine.free_lists.return_list(side);
}

fn split(engine: &mut Engine, max: usize, programs: [&Program; 2], group: &mut Vec<Packet>, last: bool) {
    let mut sides = [engine.free_lists.packet_list(), engine.free_lists.packet_list()];
    let side = |p: &Packet| usize::from(longest(&p.frame, &p.meta, max) <= max);
    if last {
        group.drain(..).for_each(|p| sides[side(&p)].push(p));
    } else {
        for p in group.iter() {
            // If the branch only drops, no copy is made.
            if !matches!(programs[side(p)].summary, Summary::Drop(_)) {
                sides[side(p)].extend(copy(engine, p));
            }
        }
    }
    for (program, mut side) in programs.into_iter().zip(sides) {
        if !side.is_empty() {
            run(engine, program, &mut side);
        }
        engine.free_lists.return_list(side);
    }
}

/// Returns the length in bytes of the longest packet that results from the frame. Padding is subtracted only if the
/// length with padding exceeds `max`.
#[inline]
pub(super) fn longest(frame: &Frame, meta: &Meta, max: usize) -> usize {
    let whole = if frame.has_offload_state() { frame.longest_segment() } else { frame.len() };
    let len = whole.saturating_sub(meta.cut);
    if len <= max {
        return len;
    }
    len.saturating_sub(meta.padding.map_or_else(|| padding(frame, meta), usize::from))
}

/// Returns the number of bytes behind the network packet.
fn padding(frame: &Frame, meta: &Meta) -> usize {
    let mut flow = meta.to_flow();
    flow::extract::extract(frame.bytes(), meta.tags(), &mut flow).l2_pad
}

/// Executes an operation that needs headroom in front of each packet. Packets without enough headroom are dropped.
fn push(engine: &mut Engine, group: &mut Vec<Packet>, op: impl FnMut(&mut Packet) -> Option<()>) {
    or_drop(engine, group, DropReason::NoHeadroom, op);
}

/// Executes an operation that fails for some packets; these packets are dropped.
fn or_drop(
    engine: &mut Engine,
    group: &mut Vec<Packet>,
    reason: DropReason,
    mut op: impl FnMut(&mut Packet) -> Option<()>,
) {
    let mut i = 0;
    while i < group.len() {
        if op(&mut group[i]).is_some() {
            i += 1;
        } else {
            let p = group.remove(i);
            engine.drop_packet(p, reason);
        }
    }
}
