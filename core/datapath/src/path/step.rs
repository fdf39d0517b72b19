//! Step: packets whose program only hashes or tracks them and then recirculates stay in the batch. A few words of their keys change, and
//! they are looked up again at once.

use super::conntrack;
use super::megaflows::Megaflows;
use crate::action::hash;
use crate::batch::{BATCH, step_line};
use crate::engine::Engine;
use crate::engine::parking::Parking;
use crate::engine::step::{Does, Step};
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

/// The step of a program, if packets may take it at once. Fragments may take none that [tracks](Step::tracks).
#[inline]
pub(super) fn step_now(engine: &Engine, program: &Program) -> Option<Step> {
    Step::of(program.sum).filter(|step| may_go_now(engine, step.hashes()))
}

/// The step of the program of all packets of the batch, if they may take it at once.
#[inline(always)]
pub(super) fn step_of_all(engine: &Engine, program: &Program) -> Option<Step> {
    step_now(engine, program).filter(|step| may_track(engine, step.tracks()))
}

/// The step of all programs of a batch, if it is the same and may be taken at once.
#[inline(always)]
pub(super) fn one_step(guard: &Megaflows<'_>, engine: &Engine) -> Option<Step> {
    let found = &engine.batch.found[..engine.batch.len().min(BATCH)];
    let records = guard.records();
    let sum = records.get(*found.first()?)?.payload.sum;
    let step = Step::of(sum)?;
    let same = found.iter().all(|&index| records.get(index).is_some_and(|m| m.payload.sum == sum));
    (same && may_go_now(engine, step.hashes()) && may_track(engine, step.tracks())).then_some(step)
}

/// The step of each packet of the batch, if all packets may take their steps at once.
#[inline(always)]
pub(super) fn steps(guard: &Megaflows<'_>, engine: &Engine) -> Option<[Option<Step>; BATCH]> {
    let mut steps = [None; BATCH];
    let found = &engine.batch.found[..engine.batch.len().min(BATCH)];
    for (&index, place) in found.iter().zip(&mut steps) {
        *place = Some(Step::of(guard.get(index)?.payload.sum)?);
    }
    let any = |does: fn(Step) -> bool| steps.iter().flatten().any(|step| does(*step));
    (may_go_now(engine, any(Step::hashes)) && may_track(engine, any(Step::tracks))).then_some(steps)
}

/// Returns whether the packets may be tracked in the batch: no packet may be a fragment.
#[inline]
fn may_track(engine: &Engine, tracks: bool) -> bool {
    !tracks || conntrack::are_whole(&engine.batch)
}

/// Applies a step to all packets of the batch, which have the same program ([`step_of_all`]).
pub(super) fn all_by_program(engine: &mut Engine, step: Step, program: &Program) {
    if let Some(action) = program.track().filter(|_| step.tracks()) {
        conntrack::track_batch(engine, action);
    }
    finish_step(engine, step);
}

/// Applies a step to all packets of the batch, whose programs have the same step ([`one_step`]).
pub(super) fn all_same(guard: &Megaflows<'_>, engine: &mut Engine, step: Step) {
    if step.tracks() {
        track(guard, engine);
    }
    finish_step(engine, step);
}

/// Applies the rest of a step, after tracking, to all packets of the batch.
fn finish_step(engine: &mut Engine, step: Step) {
    let batch = &mut engine.batch;
    let (mut left, keys) = (batch.all(), batch.keys().min(BATCH));
    match step.does {
        Does::Nothing | Does::Track => {
            return batch.lines[..keys].iter_mut().for_each(|line| step_line(line, step.id, None));
        }
        Does::Hash { symmetric: false, basis } if !batch.alike => {
            left = cpu::stage(HashAll { lines: &mut batch.lines[..keys], id: step.id, basis });
        }
        Does::Hash { .. } => {}
    }
    let frames = std::mem::take(&mut batch.frames);
    bits(left).for_each(|i| step.take(batch, i, &frames[i]));
    batch.frames = frames;
}

/// Applies to each packet the step of its program.
pub(super) fn each(guard: &Megaflows<'_>, engine: &mut Engine, steps: &[Option<Step>; BATCH]) {
    if steps.iter().flatten().any(|step| step.tracks()) {
        track(guard, engine);
    }
    let batch = &mut engine.batch;
    let frames = std::mem::take(&mut batch.frames);
    for (i, (frame, step)) in frames.iter().zip(steps).enumerate() {
        step.iter().for_each(|step| step.take(batch, i, frame));
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

/// Applies a step with a hash that is not symmetric. Returns a bit for each key that is unchanged, because its addresses are not in its
/// line.
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
                Some(hash) => step_line(line, self.id, Some(hash)),
                None => left |= 1 << (i % BATCH),
            }
        }
        left
    }
}
