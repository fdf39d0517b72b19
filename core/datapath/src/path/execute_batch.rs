//! Executes a looked-up batch, in one of several fast ways if its programs allow it, otherwise by groups of
//! packets with the same megaflow.
//!
//! Packets of one flow keep their order. Usually all programs of a batch can be executed packet by packet (see the
//! file `per_packet`). Otherwise packets are grouped by megaflow. Short programs are still executed frame by frame; only
//! packets with longer programs are collected in a list for each group.
//!
//! Packets that are recirculated stay in the batch (see the file `recirculate`).

use super::drop_run::DropRun;
use super::execute::run_one;
use super::megaflow_guard::MegaflowGuard;
use super::per_packet::{self, PerPacketBatch};
use super::push_tunnel::{Pushes, push_all};
use super::recirculate::{
    self, common_recirculation, recirculation_now, recirculation_of_all, recirculations,
};
use super::{conntrack, execute_frames, lb_output, recent};
use crate::batch::{BATCH, Miss, NONE};
use crate::engine::Engine;
use crate::engine::groups::{Execution, Group, Groups, NO_GROUP};
use crate::port::Frame;
use crate::program::{Program, Summary};
use crate::tally::Event;
use units::Millis;

/// Executes all packets of the batch that have a megaflow; the others become `missed`. Returns true if packets are
/// left in the batch, with their keys, to be looked up again. `uncounted`: a bit for each packet that was not counted as a
/// hit, of a cache or of the megaflow table.
#[inline(always)]
pub(crate) fn stage(guard: &MegaflowGuard<'_>, engine: &mut Engine, uncounted: u64, now: Millis) -> bool {
    dispatch(guard, engine, uncounted, now);
    if !engine.batch.own.is_empty() {
        engine.drop_own_metas();
    }
    let Engine { batch, tally, .. } = engine;
    let n = batch.len();
    batch.in_lines = n != 0;
    if n == 0 {
        batch.bytes = 0;
        batch.clear_side_data();
    } else {
        batch.bytes = batch.frames.iter().map(|frame| frame.len() as u64).sum();
        batch.begin_next_pass();
        tally.add(Event::Recirculated, n as u64);
    }
    n != 0
}

#[inline(always)]
fn dispatch(guard: &MegaflowGuard<'_>, engine: &mut Engine, uncounted: u64, now: Millis) {
    let batch = &mut engine.batch;
    let n = batch.len();
    let first = batch.found[0];
    if batch.shares_key {
        batch.found[1..n].fill(first);
    }
    let uncounted = if batch.shares_key && uncounted != 0 { u64::MAX } else { uncounted };
    let one = batch.shares_key || cpu::all_equal(&batch.found[..n], first);
    if one
        && first != NONE
        && let Some(megaflow) = guard.get(first)
    {
        debug_assert_eq!(batch.bytes, batch.frames.iter().map(|f| f.len() as u64).sum::<u64>());
        let tcp_flags = cpu::union(&batch.tcp_flags[..n]);
        engine.lane.count(first, n as u32, batch.bytes, now.0 as u32, tcp_flags);
        recent::record_last(engine, first);
        if let Summary::Send { port, op_flags: 0 } = megaflow.payload.summary
            && engine.batch.needs_only_frames()
        {
            return engine.send_batch(port);
        }
        execute_same(engine, &megaflow.payload);
    } else {
        execute_mixed(guard, engine, uncounted, now);
    }
}

/// Executes one program on all packets of the batch.
#[inline(never)]
fn execute_same(engine: &mut Engine, program: &Program) {
    if let Summary::LbOutput(bond) = program.summary
        && engine.batch.needs_only_frames()
    {
        return lb_output::all(engine, bond);
    }
    if let Some(header) = program.push()
        && engine.batch.needs_only_frames()
        && push_all(engine, program, header)
    {
        return;
    }
    match recirculation_of_all(engine, program) {
        Some(recirculation) => recirculate::all_by_program(engine, recirculation, program),
        None => execute_whole_batch(engine, program),
    }
}

/// Executes the packets of a batch that have different megaflows.
#[inline(never)]
fn execute_mixed(guard: &MegaflowGuard<'_>, engine: &mut Engine, uncounted: u64, now: Millis) {
    let batch = &mut engine.batch;
    if uncounted == 0
        && let Some(port) = per_packet::common_port(guard, batch)
    {
        count_each(engine, now);
        engine.send_batch(port);
    } else if uncounted == 0
        && let Some(per_packet) = PerPacketBatch::of(guard, batch)
        && per_packet.pass_meters(engine)
    {
        count_each(engine, now);
        per_packet.send(engine);
    } else if uncounted == 0
        && let Some(pushes) = Pushes::of(guard, engine)
    {
        count_each(engine, now);
        pushes.send(engine);
    } else if uncounted == 0
        && let Some(bond) = lb_output::one_bond(guard, &engine.batch)
    {
        count_each(engine, now);
        lb_output::all(engine, bond);
    } else if uncounted == 0
        && let Some(recirculation) = common_recirculation(guard, engine)
    {
        count_each(engine, now);
        recirculate::all_same(guard, engine, recirculation);
    } else if uncounted == 0
        && let Some(all) = recirculations(guard, engine)
    {
        count_each(engine, now);
        recirculate::each(guard, engine, &all);
    } else {
        let mut groups = engine.free_lists.groups.take().unwrap_or_default();
        execute_groups(&mut groups, guard, engine, uncounted, now);
        engine.free_lists.groups = Some(groups);
    }
}

/// Counts every packet separately. This costs less than assigning it to a group.
#[inline(always)]
fn count_each(engine: &mut Engine, now: Millis) {
    let Engine { batch, lane, .. } = &mut *engine;
    for ((frame, &index), &tcp_flags) in batch.frames.iter().zip(&batch.found).zip(&batch.tcp_flags) {
        lane.count(index, 1, frame.len() as u64, now.0 as u32, tcp_flags);
    }
    recent::record_last(engine, engine.batch.found[engine.batch.len() - 1]);
}

/// Executes a program on all packets of the batch, if no special case of [`execute_same`] applies.
fn execute_whole_batch(engine: &mut Engine, program: &Program) {
    let plain = engine.batch.needs_only_frames();
    let execution = Execution::of(program, 0, plain);
    if let Some(per_packet) = PerPacketBatch::by(program, &engine.batch).filter(|_| plain)
        && per_packet.pass_meters(engine)
    {
        return per_packet.send(engine);
    }
    if let Execution::Collect(_) = execution {
        engine.batch.spread_metadata();
    }
    let mut group = engine.free_lists.free_groups.pop().unwrap_or_default();
    std::mem::swap(&mut group.frames, &mut engine.batch.frames);
    match execution {
        Execution::Send(port) => engine.send_all(port, &mut group.frames),
        Execution::Drop(reason) => {
            let in_port = engine.batch.meta(0).in_port;
            execute_frames::drop_frames(engine, &mut group.frames, (in_port, reason), |engine, i, frame| {
                engine.batch.packet(i, frame)
            });
        }
        Execution::RewriteAndSend(_) | Execution::Recirculate(_) | Execution::Collect(_) => {
            std::mem::swap(&mut group.own, &mut engine.batch.own);
            group.numbers.extend(0..group.frames.len() as u8);
            execute_frames::run(engine, program, &mut group, plain);
        }
    }
    std::mem::swap(&mut group.frames, &mut engine.batch.frames);
    engine.free_lists.free_groups.push(group);
}

fn execute_groups(
    groups: &mut Groups,
    guard: &MegaflowGuard<'_>,
    engine: &mut Engine,
    uncounted: u64,
    now: Millis,
) {
    let plain = engine.batch.needs_only_frames();
    assign(groups, guard, engine, plain);
    if !groups.collected.is_empty() {
        engine.batch.fill_own();
    }
    let mut frames = std::mem::take(&mut engine.batch.frames);
    scatter(groups, guard, engine, uncounted, frames.drain(..));
    engine.batch.frames = frames;
    for (group, packets) in &mut groups.collected {
        match guard.get(groups.index[*group]) {
            Some(megaflow) => execute_frames::run(engine, &megaflow.payload, packets, plain),
            None => {
                groups.count[*group].packets = 0;
                packets.numbers.clear();
                let mut packets = packets.packets(engine);
                let misses = packets.drain(..).map(|packet| Miss { packet, counted_hit: true });
                engine.batch.missed.extend(misses);
                engine.free_lists.return_list(packets);
            }
        }
    }
    engine.free_lists.free_groups.extend(groups.collected.drain(..).map(|(_, group)| group));
    if !groups.recirculated.is_empty() {
        for (to, (from, frame)) in groups.recirculated.drain(..).enumerate() {
            engine.batch.move_key(from, to);
            engine.batch.frames.push(frame);
        }
        recirculate::remaining(guard, engine);
    }
    for (&index, c) in groups.index[..groups.len].iter().zip(&groups.count).filter(|(_, c)| c.packets != 0) {
        engine.lane.count(index, c.packets, c.bytes, now.0 as u32, c.tcp_flags);
    }
    if let Some(&index) = groups.index[..groups.len].last() {
        recent::record_last(engine, index);
    }
}

/// Assigns each packet to a group and adds up the counts of each group.
fn assign(groups: &mut Groups, guard: &MegaflowGuard<'_>, engine: &mut Engine, plain: bool) {
    let batch = &engine.batch;
    groups.len = 0;
    for (i, frame) in batch.frames.iter().enumerate().take(BATCH) {
        let index = batch.found[i];
        groups.group_of[i] = NO_GROUP;
        let group = match groups.find(index) {
            Ok(group) => group,
            Err(_) if index == NONE => continue,
            Err(slot) => {
                // The guard keeps the memory of the megaflow. If the megaflow was removed since it was found, the
                // packet is a miss.
                let Some(megaflow) = guard.get(index) else { continue };
                let now = recirculation_now(engine, &megaflow.payload);
                let execution = match now {
                    Some(recirculation) => Execution::Recirculate(recirculation),
                    None => Execution::of(&megaflow.payload, groups.collected.len(), plain),
                };
                if let Execution::Collect(_) = execution {
                    groups
                        .collected
                        .push((groups.len, engine.free_lists.free_groups.pop().unwrap_or_default()));
                }
                engine.lane.prefetch(index);
                groups.add(index, slot, execution)
            }
        };
        groups.group_of[i] = group as u8;
        let count = &mut groups.count[group % BATCH];
        count.packets += 1;
        count.bytes += frame.len() as u64;
        count.tcp_flags |= batch.tcp_flags[i];
    }
}

/// Executes each packet as the [`Execution`] of its group says.
fn scatter(
    groups: &mut Groups,
    guard: &MegaflowGuard<'_>,
    engine: &mut Engine,
    uncounted: u64,
    frames: impl Iterator<Item = Frame>,
) {
    let mut dropping = DropRun::default();
    for (i, mut frame) in frames.enumerate() {
        let group = usize::from(groups.group_of[i % BATCH]);
        match groups.execution.get(group) {
            Some(&Execution::Send(port)) => engine.add_to_burst(port, frame),
            Some(&Execution::RewriteAndSend(port)) => match try_rewrite(guard, groups, group, &mut frame) {
                true => engine.add_to_burst(port, frame),
                false => run_misfit(groups, guard, engine, i, frame),
            },
            Some(&Execution::Recirculate(recirculation)) => {
                match recirculation.tracks() && conntrack::may_be_fragment(&frame) {
                    false => groups.recirculated.push((i, frame)),
                    true => run_misfit(groups, guard, engine, i, frame),
                }
            }
            Some(&Execution::Drop(reason)) => dropping.add(engine, i, frame, reason),
            Some(&Execution::Collect(list)) => {
                let Group { frames, own, numbers } = &mut groups.collected[list].1;
                frames.push(frame);
                numbers.push(i as u8);
                own.extend(engine.batch.own.get_mut(i).map(std::mem::take));
            }
            None => {
                let miss =
                    Miss { packet: engine.batch.packet(i, frame), counted_hit: uncounted >> i & 1 == 0 };
                engine.batch.missed.push(miss);
            }
        }
    }
    dropping.end(engine);
}

/// Rewrites a frame as its group's program says. Returns false and changes nothing if the rewrite does not fit the
/// frame.
#[inline]
fn try_rewrite(guard: &MegaflowGuard<'_>, groups: &Groups, group: usize, frame: &mut Frame) -> bool {
    let program = guard.get(groups.index[group % BATCH]).map(|megaflow| &megaflow.payload);
    program.and_then(Program::rewrite).is_some_and(|rewrite| rewrite.apply(frame))
}

/// Handles a packet that cannot be executed with its group: the rewrite does not fit its layout, it is a fragment
/// that must be tracked, or its megaflow was removed after it was found.
#[cold]
fn run_misfit(groups: &mut Groups, guard: &MegaflowGuard<'_>, engine: &mut Engine, i: usize, frame: Frame) {
    let group = usize::from(groups.group_of[i]) % BATCH;
    match guard.get(groups.index[group]) {
        Some(megaflow) => run_one(engine, &megaflow.payload.ops, i, frame),
        None => {
            let count = &mut groups.count[group];
            (count.packets, count.bytes) =
                (count.packets.saturating_sub(1), count.bytes.saturating_sub(frame.len() as u64));
            let packet = engine.batch.packet(i, frame);
            engine.batch.missed.push(Miss { packet, counted_hit: true });
        }
    }
}
