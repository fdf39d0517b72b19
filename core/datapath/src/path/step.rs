//! Step: packets whose program does no more than hash or track them, and recirculate, stay in the batch with their keys. A
//! few words of those change, and they are looked up again at once.

use super::conntrack;
use super::megaflows::Megaflows;
use crate::action::hash;
use crate::batch::{BATCH, step_line};
use crate::engine::Engine;
use crate::engine::parking::Parking;
use crate::engine::step::{Does, Step};
use crate::program::Program;
use classifier::megaflow::bits;
use cpu::{Line, Stage};

/// Packets may take a step at once. Those that wait for their next pass already must not be overtaken, and a
/// flow that is parked must not be passed by.
#[inline]
fn may_go_now(engine: &Engine, hashed: bool) -> bool {
    let waits = |parking: &Parking| !parking.park.is_empty();
    engine.batch.may_go_again(hashed)
        && engine.recirculated.is_empty()
        && !engine.parking.as_deref().is_some_and(waits)
}

/// The step of a program, if packets may take it at once. Fragments may take none that [tracks](Step::tracks).
#[inline]
pub(super) fn step_now(engine: &Engine, program: &Program) -> Option<Step> {
    Step::of(program.sum).filter(|step| may_go_now(engine, step.hashes()))
}

/// The step of a program through which all packets of the batch go, if they may take it at once.
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

/// The programs of a batch, if all packets may take a step at once.
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

/// No packet of the batch may be a fragment, if they are to be tracked.
#[inline]
fn may_track(engine: &Engine, tracks: bool) -> bool {
    !tracks || conntrack::are_whole(&engine.batch)
}

/// All packets of the batch take the step of the program through which all go, which [may be taken](step_of_all).
pub(super) fn alike(engine: &mut Engine, step: Step, program: &Program) {
    if let Some(action) = program.track().filter(|_| step.tracks()) {
        conntrack::track_batch(engine, action);
    }
    go_on(engine, step);
}

/// All packets of the batch take this step, which [may be taken](one_step).
pub(super) fn every(guard: &Megaflows<'_>, engine: &mut Engine, step: Step) {
    if step.tracks() {
        track(guard, engine);
    }
    go_on(engine, step);
}

/// The packets of the batch are tracked, if they are to be; the rest of the step.
fn go_on(engine: &mut Engine, step: Step) {
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

/// Packets take the steps of their programs.
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

/// Tracks the packets of the batch whose programs say so.
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

/// Packets take a step with a hash that is not symmetric; a bit for each whose addresses are not in its line, with which
/// nothing is done.
struct HashAll<'b> {
    lines: &'b mut [Line],
    id: u32,
    basis: u32,
}

impl Stage for HashAll<'_> {
    type Out = u64;

    #[inline(always)]
    fn run(self) -> u64 {
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
