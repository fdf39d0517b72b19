//! Group: the packets of each megaflow are counted and executed together.
//!
//! Packets of one flow keep their order. Most often there is one group: then the frames of the batch are handed on as
//! they stand. Else each is put at once where its program would, if that is one operation; only packets of longer
//! programs are gathered.

use super::{Megaflows, execute, recent};
use crate::batch::{Miss, NONE};
use crate::engine::Engine;
use crate::packet::Packet;
use crate::program::{Op, Program};
use dpif::DropReason;
use units::Millis;

/// Where packets of a group go.
enum Way {
    Send(u32),
    Drop(DropReason),
    Gather(Vec<Packet>),
}

struct Group {
    index: u32,
    slot: u8,
    packets: u32,
    bytes: u64,
    tcp_flags: u16,
    way: Way,
}

/// The groups of a batch, and a hash table of them: a slot counts if the group it names says so, so that nothing is
/// cleared between batches.
pub(crate) struct Groups {
    list: Vec<Group>,
    slots: [u8; SLOTS],
}

/// More than there are groups, so that a free slot is always found.
const SLOTS: usize = 128;

impl Default for Groups {
    fn default() -> Groups {
        Groups { list: Vec::new(), slots: [0; SLOTS] }
    }
}

impl Groups {
    /// The group of a megaflow, and whether there is one yet: else the slot for it.
    #[inline]
    fn find(&self, index: u32) -> Result<usize, usize> {
        let mut slot = index as usize % SLOTS;
        loop {
            match self.list.get(usize::from(self.slots[slot])) {
                Some(g) if usize::from(g.slot) == slot => {
                    if g.index == index {
                        return Ok(usize::from(self.slots[slot]));
                    }
                }
                _ => return Err(slot),
            }
            slot = (slot + 1) % SLOTS;
        }
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
        let bytes = batch.frames.iter().map(|f| f.len() as u64).sum();
        let tcp_flags = batch.tcp_flags[..n].iter().fold(0, |a, b| a | b);
        engine.lane.count(first, n as u32, bytes, now.0 as u32, tcp_flags);
        recent::remember(engine, first);
        whole(engine, &megaflow.payload);
    } else {
        several(guard, engine, pending, now);
    }
    engine.batch.own.clear();
}

/// All packets of the batch go through one program.
fn whole(engine: &mut Engine, program: &Program) {
    let mut frames = std::mem::take(&mut engine.batch.frames);
    match program.ops[..] {
        [Op::Output(port)] if engine.batch.own.is_empty() => engine.send_all(port, &mut frames),
        [Op::Drop(reason)] => {
            engine.tally.drop(reason, frames.len() as u64);
            engine.pool.free_all(&mut frames);
        }
        _ => {
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

fn several(guard: &Megaflows<'_>, engine: &mut Engine, pending: u64, now: Millis) {
    let mut groups = std::mem::take(&mut engine.groups);
    let mut frames = std::mem::take(&mut engine.batch.frames);
    for (i, frame) in frames.drain(..).enumerate() {
        let index = engine.batch.found[i];
        let found = if index == NONE { None } else { group_of(guard, engine, &mut groups, index) };
        // Found under this guard, so it is still there unless it was removed since; then the packet is a miss.
        let Some(group) = found else {
            let miss = Miss { packet: engine.batch.packet(i, frame), answered: pending >> i & 1 == 0 };
            engine.batch.missed.push(miss);
            continue;
        };
        group.packets += 1;
        group.bytes += frame.len() as u64;
        group.tcp_flags |= engine.batch.tcp_flags[i];
        match &mut group.way {
            &mut Way::Send(port) => engine.send(port, frame),
            &mut Way::Drop(reason) => engine.drop_frame(frame, reason),
            Way::Gather(list) => list.push(engine.batch.packet(i, frame)),
        }
    }
    engine.batch.frames = frames;
    for mut group in groups.list.drain(..) {
        let megaflow = guard.get(group.index);
        if let (Way::Gather(packets), None) = (&mut group.way, megaflow) {
            let misses = packets.drain(..).map(|packet| Miss { packet, answered: true });
            engine.batch.missed.extend(misses);
            continue;
        }
        engine.lane.count(group.index, group.packets, group.bytes, now.0 as u32, group.tcp_flags);
        recent::remember(engine, group.index);
        if let (Way::Gather(mut packets), Some(megaflow)) = (group.way, megaflow) {
            execute::run(engine, &megaflow.payload, &mut packets);
            engine.give_back(packets);
        }
    }
    engine.groups = groups;
}

/// The group of a megaflow, which it makes if there is none; `None` if the megaflow is gone.
#[inline]
fn group_of<'a>(
    guard: &Megaflows<'_>,
    engine: &mut Engine,
    groups: &'a mut Groups,
    index: u32,
) -> Option<&'a mut Group> {
    let at = match groups.find(index) {
        Ok(at) => at,
        Err(slot) => {
            let way = match guard.get(index)?.payload.ops[..] {
                [Op::Output(port)] if engine.batch.own.is_empty() => Way::Send(port),
                [Op::Drop(reason)] => Way::Drop(reason),
                _ => Way::Gather(engine.list()),
            };
            let group = Group { index, slot: slot as u8, packets: 0, bytes: 0, tcp_flags: 0, way };
            groups.slots[slot] = groups.list.len() as u8;
            groups.list.push(group);
            groups.list.len() - 1
        }
    };
    groups.list.get_mut(at)
}
