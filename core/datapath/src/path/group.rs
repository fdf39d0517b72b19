//! Group: the packets of each megaflow are counted and executed together.
//!
//! Packets of one flow keep their order. Most often there is one group, or all packets go by one port: then the frames of
//! the batch are handed on as they stand. Else each is put at once where its program would, if that is one operation;
//! only packets of longer programs are gathered.

use super::{Megaflows, execute, recent};
use crate::batch::{BATCH, Batch, Miss, NONE};
use crate::engine::Engine;
use crate::packet::Packet;
use crate::port::Frame;
use crate::program::{Program, Sum};
use dpif::DropReason;
use units::Millis;

/// Where packets of a group go.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Send(u32),
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
    gathered: Vec<(usize, Vec<Packet>)>,
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
    (same && batch.own.is_empty()).then_some(port)
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
    let mut frames = std::mem::take(&mut engine.batch.frames);
    match Way::of(program, 0, engine.batch.own.is_empty()) {
        Way::Send(port) => engine.send_all(port, &mut frames),
        Way::Drop(reason) => {
            engine.tally.drop(reason, frames.len() as u64 - 1);
            let last = frames.pop().map(|frame| engine.batch.packet(frames.len(), frame));
            last.into_iter().for_each(|packet| engine.drop_packet(packet, reason));
            engine.pool.free_all(&mut frames);
        }
        Way::Gather(_) => {
            let mut group = engine.list();
            for (i, frame) in frames.drain(..).enumerate() {
                group.push(engine.batch.packet(i, frame));
            }
            execute::run(engine, program, &mut group);
            engine.give_back(group);
        }
    }
    engine.batch.frames = frames;
}

fn several(groups: &mut Groups, guard: &Megaflows<'_>, engine: &mut Engine, pending: u64, now: Millis) {
    assign(groups, guard, engine);
    let mut frames = std::mem::take(&mut engine.batch.frames);
    scatter(groups, engine, pending, frames.drain(..));
    engine.batch.frames = frames;
    for (group, packets) in &mut groups.gathered {
        match guard.get(groups.index[*group]) {
            Some(megaflow) => execute::run(engine, &megaflow.payload, packets),
            None => {
                groups.count[*group].packets = 0;
                let misses = packets.drain(..).map(|packet| Miss { packet, answered: true });
                engine.batch.missed.extend(misses);
            }
        }
    }
    groups.gathered.drain(..).for_each(|(_, list)| engine.give_back(list));
    for (&index, c) in groups.index[..groups.len].iter().zip(&groups.count).filter(|(_, c)| c.packets != 0) {
        engine.lane.count(index, c.packets, c.bytes, now.0 as u32, c.tcp_flags);
    }
    if let Some(&index) = groups.index[..groups.len].last() {
        recent::remember(engine, index);
    }
}

/// Says of each packet which group it is in, and sums the groups up.
fn assign(groups: &mut Groups, guard: &Megaflows<'_>, engine: &mut Engine) {
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
                let way = Way::of(&megaflow.payload, groups.gathered.len(), batch.own.is_empty());
                if let Way::Gather(_) = way {
                    groups.gathered.push((groups.len, engine.lists.pop().unwrap_or_default()));
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
fn scatter(groups: &mut Groups, engine: &mut Engine, pending: u64, frames: impl Iterator<Item = Frame>) {
    for (i, frame) in frames.enumerate() {
        match groups.way.get(usize::from(groups.of[i % BATCH])) {
            Some(&Way::Send(port)) => engine.send(port, frame),
            Some(&Way::Drop(reason)) => {
                let packet = engine.batch.packet(i, frame);
                engine.drop_packet(packet, reason);
            }
            Some(&Way::Gather(list)) => groups.gathered[list].1.push(engine.batch.packet(i, frame)),
            None => {
                let miss = Miss { packet: engine.batch.packet(i, frame), answered: pending >> i & 1 == 0 };
                engine.batch.missed.push(miss);
            }
        }
    }
}
