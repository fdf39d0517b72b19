//! Recirculate: packets whose program only hashes or tracks them and then recirculates stay in the batch. A few words of their keys
//! change, and they are looked up again at once.

use super::conntrack;
use super::megaflows::Megaflows;
use crate::action::hash;
use crate::batch::{BATCH, recirculate_line};
use crate::engine::Engine;
use crate::engine::parking::Parking;
use crate::engine::recirculation::{First, Recirculation};
use crate::program::Program;
use classifier::megaflow::bits;
use cpu::{Level, Line, Stage};

/// Returns whether packets may be looked up again at once. Not while other packets are queued for recirculation or parked: packets of
/// the same flow must not overtake them.
#[inline]
fn may_go_now(engine: &Engine, hashed: bool) -> bool {
    let waits = |parking: &Parking| !parking.park.is_empty();
    engine.batch.may_go_again(hashed)
        && engine.later.recirculated.is_empty()
        && !engine.parking.as_deref().is_some_and(waits)
}

/// The recirculation of a program, if its packets may be looked up again at once. If it [tracks](Recirculation::tracks), fragments must
/// not be recirculated this way.
#[inline]
pub(super) fn recirculation_now(engine: &Engine, program: &Program) -> Option<Recirculation> {
    Recirculation::of(program.summary).filter(|recirculation| may_go_now(engine, recirculation.hashes()))
}

/// The recirculation of the program that all packets of the batch have, if they may be looked up again at once.
#[inline(always)]
pub(super) fn recirculation_of_all(engine: &Engine, program: &Program) -> Option<Recirculation> {
    recirculation_now(engine, program).filter(|recirculation| may_track(engine, recirculation.tracks()))
}

/// The recirculation of all programs of a batch, if it is the same and the packets may be looked up again at once.
#[inline(always)]
pub(super) fn common_recirculation(guard: &Megaflows<'_>, engine: &Engine) -> Option<Recirculation> {
    let found = &engine.batch.found[..engine.batch.len().min(BATCH)];
    let records = guard.records();
    let summary = records.get(*found.first()?)?.payload.summary;
    let recirculation = Recirculation::of(summary)?;
    let same = found.iter().all(|&index| records.get(index).is_some_and(|m| m.payload.summary == summary));
    (same && may_go_now(engine, recirculation.hashes()) && may_track(engine, recirculation.tracks()))
        .then_some(recirculation)
}

/// The recirculation of each packet of the batch, if all packets may be looked up again at once.
#[inline(always)]
pub(super) fn recirculations(
    guard: &Megaflows<'_>,
    engine: &Engine,
) -> Option<[Option<Recirculation>; BATCH]> {
    let mut all = [None; BATCH];
    let found = &engine.batch.found[..engine.batch.len().min(BATCH)];
    for (&index, place) in found.iter().zip(&mut all) {
        *place = Some(Recirculation::of(guard.get(index)?.payload.summary)?);
    }
    let any = |is: fn(Recirculation) -> bool| all.iter().flatten().any(|recirculation| is(*recirculation));
    (may_go_now(engine, any(Recirculation::hashes)) && may_track(engine, any(Recirculation::tracks)))
        .then_some(all)
}

/// Returns whether the packets may be tracked in the batch: no packet may be a fragment.
#[inline]
fn may_track(engine: &Engine, tracks: bool) -> bool {
    !tracks || conntrack::are_whole(&engine.batch)
}

/// Recirculates all packets of the batch, which have the same program ([`recirculation_of_all`]).
pub(super) fn all_by_program(engine: &mut Engine, recirculation: Recirculation, program: &Program) {
    if let Some(action) = program.track().filter(|_| recirculation.tracks()) {
        conntrack::track_batch(engine, action);
    }
    finish(engine, recirculation);
}

/// Recirculates all packets of the batch, whose programs have the same recirculation ([`common_recirculation`]).
pub(super) fn all_same(guard: &Megaflows<'_>, engine: &mut Engine, recirculation: Recirculation) {
    if recirculation.tracks() {
        track(guard, engine);
    }
    finish(engine, recirculation);
}

/// Recirculates all packets of the batch after they were tracked, if that was necessary.
fn finish(engine: &mut Engine, recirculation: Recirculation) {
    let batch = &mut engine.batch;
    let (mut left, keys) = (batch.all(), batch.keys().min(BATCH));
    match recirculation.first {
        First::Nothing | First::Track => {
            return batch.lines[..keys]
                .iter_mut()
                .for_each(|line| recirculate_line(line, recirculation.id, None));
        }
        First::Hash { symmetric: false, basis } if !batch.alike => {
            left = cpu::stage(HashAll { lines: &mut batch.lines[..keys], id: recirculation.id, basis });
        }
        First::Hash { .. } => {}
    }
    let frames = std::mem::take(&mut batch.frames);
    bits(left).for_each(|i| recirculation.apply(batch, i, &frames[i]));
    batch.frames = frames;
}

/// Recirculates each packet as its program says.
pub(super) fn each(guard: &Megaflows<'_>, engine: &mut Engine, all: &[Option<Recirculation>; BATCH]) {
    if all.iter().flatten().any(|recirculation| recirculation.tracks()) {
        track(guard, engine);
    }
    let batch = &mut engine.batch;
    let frames = std::mem::take(&mut batch.frames);
    for (i, (frame, recirculation)) in frames.iter().zip(all).enumerate() {
        recirculation.iter().for_each(|recirculation| recirculation.apply(batch, i, frame));
    }
    batch.frames = frames;
}

/// Tracks the packets of the batch whose programs track them.
pub(super) fn track(guard: &Megaflows<'_>, engine: &mut Engine) {
    let (records, n) = (guard.records(), engine.batch.len().min(BATCH));
    let (mut actions, mut number, mut same) = ([None; BATCH], 0, true);
    for (&index, action) in engine.batch.found[..n].iter().zip(&mut actions) {
        let Some(megaflow) = records.get(index) else {
            same = false;
            continue;
        };
        let program = &megaflow.payload;
        same &= number == 0 || number == program.number();
        number = program.number();
        same &= number != 0;
        *action = program.track();
    }
    match actions[0].filter(|_| same) {
        Some(action) => conntrack::track_batch(engine, action),
        None => conntrack::track_batch(engine, &actions),
    }
}

/// Hashes packets by a hash that is not symmetric, and recirculates them. Returns a bit for each key that is unchanged, because its
/// addresses are not in its line.
struct HashAll<'b> {
    lines: &'b mut [Line],
    id: u32,
    basis: u32,
}

impl Stage for HashAll<'_> {
    type Out = u64;

    #[inline(always)]
    fn run<L: Level>(self, _: L) -> u64 {
        let mut left = 0;
        for (i, line) in self.lines.iter_mut().enumerate() {
            match hash::one_way_of_line(line, self.basis) {
                Some(hash) => recirculate_line(line, self.id, Some(hash)),
                None => left |= 1 << (i % BATCH),
            }
        }
        left
    }
}
