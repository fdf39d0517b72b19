//! Group: the packets of each megaflow are counted and executed together.
//!
//! Packets of one flow keep their order. Most often there is one group, or all packets go by one port, rewritten or not:
//! then the frames are rewritten in place and the batch is handed on. Else each frame is rewritten and put at once where
//! its program would; only packets of longer programs are gathered.

use super::frames::{self, Group};
use super::{Megaflows, execute, recent};
use crate::batch::{BATCH, Batch, Miss, NONE};
use crate::engine::Engine;
use crate::port::{Frame, FrameBatch};
use crate::program::{Program, Sum};
use cpu::Stage;
use dpif::DropReason;
use units::Millis;

/// Where packets of a group go.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Send(u32),
    RewriteAndSend(u32),
    Drop(DropReason),
    /// To a list of this number.
    Gather(usize),
}

impl Way {
    /// Of a program; `gathered` lists there are before. `plain`: nothing but its bytes matters about a packet that is
    /// sent.
    fn of(program: &Program, gathered: usize, plain: bool) -> Way {
        match program.sum {
            Sum::Send(port) if plain => Way::Send(port),
            Sum::RewriteAndSend(port) if plain => Way::RewriteAndSend(port),
            Sum::Drop(reason) => Way::Drop(reason),
            _ => Way::Gather(gathered),
        }
    }
}

/// What a megaflow counts.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    packets: u32,
    bytes: u64,
    tcp_flags: u16,
}

/// The groups of a batch, and a hash table of them by the indices of their megaflows, of which no chain is longer than a batch: a slot counts if the group it names says so, so that nothing is
/// cleared between batches.
pub(crate) struct Groups {
    len: usize,
    index: [u32; BATCH],
    way: [Way; BATCH],
    count: [Count; BATCH],
    slot: [u8; BATCH],
    slots: [u8; SLOTS],
    /// The group of each packet, or [`NO_GROUP`].
    of: [u8; BATCH],
    /// Packets of programs of several operations: the group and its packets.
    gathered: Vec<(usize, Group)>,
}

/// More than there are groups, so that a free slot is always found.
const SLOTS: usize = 2 * BATCH;
const NO_GROUP: u8 = u8::MAX;

impl Default for Groups {
    fn default() -> Groups {
        Groups {
            len: 0,
            index: [NONE; BATCH],
            way: [Way::Gather(0); BATCH],
            count: [Count::default(); BATCH],
            slot: [0; BATCH],
            slots: [0; SLOTS],
            of: [NO_GROUP; BATCH],
            gathered: Vec::new(),
        }
    }
}

impl Groups {
    /// The group of a megaflow, or else the slot for it.
    #[inline]
    fn find(&self, index: u32) -> Result<usize, usize> {
        let mut slot = index as usize % SLOTS;
        loop {
            let group = usize::from(self.slots[slot]);
            if group >= self.len || usize::from(self.slot[group % BATCH]) != slot {
                return Err(slot);
            }
            if self.index[group] == index {
                return Ok(group);
            }
            slot = (slot + 1) % SLOTS;
        }
    }

    /// A group more. There are no more groups than packets, so there is room.
    #[inline]
    fn add(&mut self, index: u32, slot: usize, way: Way) -> usize {
        let group = self.len % BATCH;
        self.slots[slot] = group as u8;
        self.slot[group] = slot as u8;
        (self.index[group], self.way[group], self.count[group]) = (index, way, Count::default());
        self.len += 1;
        group
    }
}

/// Executes all packets of the batch that have a megaflow; the others are `missed` then. Nothing is left in the batch.
pub(crate) fn stage(guard: &Megaflows<'_>, engine: &mut Engine, pending: u64, now: Millis) {
    let batch = &mut engine.batch;
    let n = batch.len();
    let first = batch.found[0];
    if batch.alike {
        batch.found[1..n].fill(first);
    }
    let pending = if batch.alike && pending != 0 { u64::MAX } else { pending };
    let one = batch.found[..n].iter().fold(0, |diff, &f| diff | f ^ first) == 0;
    if one
        && first != NONE
        && let Some(megaflow) = guard.get(first)
    {
        debug_assert_eq!(batch.bytes, batch.frames.iter().map(|f| f.len() as u64).sum::<u64>());
        let tcp_flags = batch.tcp_flags[..n].iter().fold(0, |a, b| a | b);
        engine.lane.count(first, n as u32, batch.bytes, now.0 as u32, tcp_flags);
        recent::remember(engine, first);
        whole(engine, &megaflow.payload);
    } else if pending == 0
        && let Some(port) = one_way(guard, batch)
    {
        count_each(engine, now);
        let mut frames = std::mem::take(&mut engine.batch.frames);
        engine.send_all(port, &mut frames);
        engine.batch.frames = frames;
    } else if pending == 0
        && let Some((port, programs)) = one_way_rewritten(guard, batch)
    {
        count_each(engine, now);
        let mut frames = std::mem::take(&mut engine.batch.frames);
        match cpu::stage(RewriteEach { programs: &programs, frames: &mut frames }) {
            0 => engine.send_all(port, &mut frames),
            unfit => send_some(engine, port, &programs, unfit, frames.drain(..)),
        }
        engine.batch.frames = frames;
    } else {
        let mut groups = engine.groups.take().unwrap_or_default();
        several(&mut groups, guard, engine, pending, now);
        engine.groups = Some(groups);
    }
    engine.batch.own.clear();
    engine.batch.bytes = 0;
}

/// Where all packets are sent, if every one has a megaflow and all of those do no more than send by one port.
#[inline(always)]
fn one_way(guard: &Megaflows<'_>, batch: &Batch) -> Option<u32> {
    let found = &batch.found[..batch.len().min(BATCH)];
    let sum = guard.get(*found.first()?)?.payload.sum;
    let Sum::Send(port) = sum else { return None };
    let same = found.iter().all(|&index| guard.get(index).is_some_and(|m| m.payload.sum == sum));
    (same && batch.is_plain()).then_some(port)
}

/// The programs of a batch, by packet. They stay as long as the guard, even if their megaflows are removed meanwhile.
type Programs<'g> = [Option<&'g Program>; BATCH];

/// Where all packets are sent, if all megaflows rewrite them or not and then send them by one port; and their programs.
#[inline(always)]
fn one_way_rewritten<'g>(guard: &'g Megaflows<'_>, batch: &Batch) -> Option<(u32, Programs<'g>)> {
    let (mut programs, mut port) = ([None; BATCH], None);
    for (&index, place) in batch.found[..batch.len().min(BATCH)].iter().zip(&mut programs) {
        let program = &guard.get(index)?.payload;
        let (Sum::Send(this) | Sum::RewriteAndSend(this)) = program.sum else { return None };
        if *port.get_or_insert(this) != this {
            return None;
        }
        *place = Some(program);
    }
    port.filter(|_| batch.is_plain()).map(|port| (port, programs))
}

/// Rewrites each frame as its program says; a bit for each whose rewrite does not fit it.
struct RewriteEach<'a, 'g> {
    programs: &'a Programs<'g>,
    frames: &'a mut FrameBatch,
}

impl Stage for RewriteEach<'_, '_> {
    type Out = u64;

    #[inline(always)]
    fn run(self) -> u64 {
        let mut unfit = 0;
        for (i, (frame, program)) in self.frames.iter_mut().zip(self.programs).enumerate() {
            if let Some(rewrite) = program.and_then(Program::rewrite)
                && !rewrite.apply(frame)
            {
                unfit |= 1 << i;
            }
        }
        unfit
    }
}

/// Sends frames that were rewritten, and runs the programs of those whose rewrite did not fit.
#[cold]
fn send_some(
    engine: &mut Engine,
    port: u32,
    programs: &Programs<'_>,
    unfit: u64,
    frames: impl Iterator<Item = Frame>,
) {
    for (i, (frame, program)) in frames.zip(programs).enumerate() {
        match program.filter(|_| unfit >> i & 1 != 0) {
            Some(program) => run_one(engine, program, i, frame),
            None => engine.send(port, frame),
        }
    }
}

/// Runs a program on one packet of the batch, operation by operation.
#[cold]
fn run_one(engine: &mut Engine, program: &Program, i: usize, frame: Frame) {
    let packet = engine.batch.packet(i, frame);
    let mut group = engine.list();
    group.push(packet);
    execute::run(engine, program, &mut group);
    engine.give_back(group);
}

/// Counts every packet for itself, which costs less than to find its group.
#[inline(always)]
fn count_each(engine: &mut Engine, now: Millis) {
    let Engine { batch, lane, .. } = &mut *engine;
    for ((frame, &index), &tcp_flags) in batch.frames.iter().zip(&batch.found).zip(&batch.tcp_flags) {
        lane.count(index, 1, frame.len() as u64, now.0 as u32, tcp_flags);
    }
    recent::remember(engine, engine.batch.found[engine.batch.len() - 1]);
}

/// All packets of the batch go through one program.
fn whole(engine: &mut Engine, program: &Program) {
    let mut group = engine.groups_free.pop().unwrap_or_default();
    std::mem::swap(&mut group.frames, &mut engine.batch.frames);
    let plain = engine.batch.is_plain();
    match Way::of(program, 0, plain) {
        Way::Send(port) => engine.send_all(port, &mut group.frames),
        Way::Drop(reason) => {
            let frames = &mut group.frames;
            engine.tally.drop(reason, frames.len() as u64 - 1);
            let last = frames.pop().map(|frame| engine.batch.packet(frames.len(), frame));
            last.into_iter().for_each(|packet| engine.drop_packet(packet, reason));
            engine.pool.free_all(frames);
        }
        Way::RewriteAndSend(_) | Way::Gather(_) => {
            std::mem::swap(&mut group.own, &mut engine.batch.own);
            group.numbers.extend(0..group.frames.len() as u8);
            frames::run(engine, program, &mut group, plain);
        }
    }
    std::mem::swap(&mut group.frames, &mut engine.batch.frames);
    engine.groups_free.push(group);
}

fn several(groups: &mut Groups, guard: &Megaflows<'_>, engine: &mut Engine, pending: u64, now: Millis) {
    let plain = engine.batch.is_plain();
    assign(groups, guard, engine, plain);
    let mut frames = std::mem::take(&mut engine.batch.frames);
    scatter(groups, guard, engine, pending, frames.drain(..));
    engine.batch.frames = frames;
    for (group, packets) in &mut groups.gathered {
        match guard.get(groups.index[*group]) {
            Some(megaflow) => frames::run(engine, &megaflow.payload, packets, plain),
            None => {
                groups.count[*group].packets = 0;
                packets.numbers.clear();
                let mut packets = packets.packets(engine);
                let misses = packets.drain(..).map(|packet| Miss { packet, answered: true });
                engine.batch.missed.extend(misses);
                engine.give_back(packets);
            }
        }
    }
    engine.groups_free.extend(groups.gathered.drain(..).map(|(_, group)| group));
    for (&index, c) in groups.index[..groups.len].iter().zip(&groups.count).filter(|(_, c)| c.packets != 0) {
        engine.lane.count(index, c.packets, c.bytes, now.0 as u32, c.tcp_flags);
    }
    if let Some(&index) = groups.index[..groups.len].last() {
        recent::remember(engine, index);
    }
}

/// Says of each packet which group it is in, and sums the groups up.
fn assign(groups: &mut Groups, guard: &Megaflows<'_>, engine: &mut Engine, plain: bool) {
    let batch = &engine.batch;
    groups.len = 0;
    for (i, frame) in batch.frames.iter().enumerate().take(BATCH) {
        let index = batch.found[i];
        groups.of[i] = NO_GROUP;
        let group = match groups.find(index) {
            Ok(group) => group,
            Err(_) if index == NONE => continue,
            Err(slot) => {
                // Found under this guard, so it is still there unless it was removed since; then the packet is a miss.
                let Some(megaflow) = guard.get(index) else { continue };
                let way = Way::of(&megaflow.payload, groups.gathered.len(), plain);
                if let Way::Gather(_) = way {
                    groups.gathered.push((groups.len, engine.groups_free.pop().unwrap_or_default()));
                }
                engine.lane.prefetch(index);
                groups.add(index, slot, way)
            }
        };
        groups.of[i] = group as u8;
        let count = &mut groups.count[group % BATCH];
        count.packets += 1;
        count.bytes += frame.len() as u64;
        count.tcp_flags |= batch.tcp_flags[i];
    }
}

/// Puts every frame where its group goes.
fn scatter(
    groups: &mut Groups,
    guard: &Megaflows<'_>,
    engine: &mut Engine,
    pending: u64,
    frames: impl Iterator<Item = Frame>,
) {
    for (i, mut frame) in frames.enumerate() {
        let group = usize::from(groups.of[i % BATCH]);
        match groups.way.get(group) {
            Some(&Way::Send(port)) => engine.send(port, frame),
            Some(&Way::RewriteAndSend(port)) => {
                let program = guard.get(groups.index[group % BATCH]).map(|megaflow| &megaflow.payload);
                match program.filter(|p| p.rewrite().is_some_and(|rewrite| rewrite.apply(&mut frame))) {
                    Some(_) => engine.send(port, frame),
                    None => unfit(groups, guard, engine, i, frame),
                }
            }
            Some(&Way::Drop(reason)) => {
                let packet = engine.batch.packet(i, frame);
                engine.drop_packet(packet, reason);
            }
            Some(&Way::Gather(list)) => {
                let Group { frames, own, numbers } = &mut groups.gathered[list].1;
                frames.push(frame);
                numbers.push(i as u8);
                own.extend(engine.batch.own.get_mut(i).map(std::mem::take));
            }
            None => {
                let miss = Miss { packet: engine.batch.packet(i, frame), answered: pending >> i & 1 == 0 };
                engine.batch.missed.push(miss);
            }
        }
    }
}

/// A packet that its megaflow's rewrite does not fit, or whose megaflow was removed since it was found.
#[cold]
fn unfit(groups: &mut Groups, guard: &Megaflows<'_>, engine: &mut Engine, i: usize, frame: Frame) {
    let group = usize::from(groups.of[i]) % BATCH;
    match guard.get(groups.index[group]) {
        Some(megaflow) => run_one(engine, &megaflow.payload, i, frame),
        None => {
            let count = &mut groups.count[group];
            (count.packets, count.bytes) =
                (count.packets.saturating_sub(1), count.bytes.saturating_sub(frame.len() as u64));
            let packet = engine.batch.packet(i, frame);
            engine.batch.missed.push(Miss { packet, answered: true });
        }
    }
}
