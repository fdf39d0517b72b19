//! Recirculate: if the program of a packet only executes [steps], perhaps hashes the packet, and then recirculates it, the
//! packet stays in the batch. A few words of their keys change, and they are looked up again at once. The keys of rewritten packets
//! are read again.

use super::execute::run_one;
use super::megaflow_guard::{MegaflowGuard, Programs};
use super::{charge_meters, conntrack, extract, steps};
use crate::action::hash;
use crate::batch::{BATCH, Batch, Miss, recirculate_line};
use crate::engine::Engine;
use crate::engine::parking::Parking;
use crate::port::Frame;
use crate::program::{Program, Summary};
use crate::recirculation::{Hash, Recirculation};
use crate::steps::METERS;
use classifier::megaflow::bits;
use cpu::{Level, Line, Stage};

/// Returns whether packets that need no other operations than this recirculation may be looked up again at once. They
/// must wait while other packets are queued for recirculation or parked: they must not overtake packets of the same
/// flow.
#[inline]
fn may_recirculate_at_once(engine: &Engine, recirculation: Recirculation) -> bool {
    let waits = |parking: &Parking| !parking.park.is_empty();
    engine.batch.may_recirculate_in_place(recirculation.hash.is_some())
        && (!recirculation.has_steps() || engine.batch.needs_only_frames())
        && engine.deferred.recirculated.is_empty()
        && !engine.parking.as_deref().is_some_and(waits)
}

/// Returns whether tracking allows the packets to stay in the batch: the recirculation tracks none, or none is a
/// fragment.
#[inline]
fn may_track(engine: &Engine, recirculation: Recirculation) -> bool {
    !recirculation.tracks() || conntrack::are_unfragmented(&engine.batch)
}

impl Recirculation {
    /// Returns the recirculation of a program with this summary; `None` if the program has other operations.
    #[inline]
    pub(super) fn of(summary: Summary) -> Option<Recirculation> {
        match summary {
            Summary::Recirculate(recirculation) => Some(recirculation),
            _ => None,
        }
    }

    /// Returns a recirculation with the operations of both.
    fn or(self, other: Recirculation) -> Recirculation {
        Recirculation { op_flags: self.op_flags | other.op_flags, hash: self.hash.or(other.hash), ..self }
    }

    /// Recirculates packet `i` of the batch. Its steps have been executed.
    #[inline]
    fn apply(self, batch: &mut Batch, i: usize, frame: &Frame) {
        let hashed = self.hash.map(|Hash { symmetric, basis }| {
            let key = batch.key_to_ports(Some(i as u8));
            hash::of_frame(frame, &batch.common, key, symmetric, basis)
        });
        batch.recirculate_key(i, self.id, hashed);
    }
}

/// Returns the recirculation of a program, if its packets may be looked up again at once together with those of other
/// programs. If the recirculation [tracks](Recirculation::tracks) packets, fragments must not be recirculated this
/// way.
#[inline]
pub(super) fn recirculation_now(engine: &Engine, program: &Program) -> Option<Recirculation> {
    let now = |recirculation: &Recirculation| {
        recirculation.op_flags & METERS == 0 && may_recirculate_at_once(engine, *recirculation)
    };
    Recirculation::of(program.summary).filter(now)
}

/// Returns the recirculation of the program that all packets of the batch have, if they may be looked up again at
/// once. If so, their meters have already been charged.
#[inline(always)]
pub(super) fn recirculation_of_all(engine: &mut Engine, program: &Program) -> Option<Recirculation> {
    let recirculation = Recirculation::of(program.summary)?;
    let at_once = may_recirculate_at_once(engine, recirculation) && may_track(engine, recirculation);
    (at_once && (recirculation.op_flags & METERS == 0 || charge_meters::all(engine, program)))
        .then_some(recirculation)
}

/// Returns the recirculation of all programs of a batch, if it is the same and the packets may be looked up again at
/// once. If so, their meters have already been charged.
#[inline(always)]
pub(super) fn common_recirculation(guard: &MegaflowGuard<'_>, engine: &mut Engine) -> Option<Recirculation> {
    let found = &engine.batch.found[..engine.batch.len().min(BATCH)];
    let records = guard.records();
    let summary = records.get(*found.first()?)?.payload.summary;
    let recirculation = Recirculation::of(summary)?;
    let same = found.iter().all(|&index| records.get(index).is_some_and(|m| m.payload.summary == summary));
    (same && charge_if_at_once(guard, engine, recirculation)).then_some(recirculation)
}

/// Returns the recirculation of each packet of the batch, if all packets may be looked up again at once. If so, their
/// meters have already been charged.
#[inline(always)]
pub(super) fn recirculations(guard: &MegaflowGuard<'_>, engine: &mut Engine) -> Option<Recirculations> {
    let all = of_each(guard, &engine.batch)?;
    let one = all.iter().flatten().copied().reduce(Recirculation::or)?;
    charge_if_at_once(guard, engine, one).then_some(all)
}

/// The recirculation of each packet of a batch.
type Recirculations = [Option<Recirculation>; BATCH];

/// Returns the recirculation of each packet of the batch; `None` if the program of some packet has no recirculation.
#[inline(always)]
fn of_each(guard: &MegaflowGuard<'_>, batch: &Batch) -> Option<Recirculations> {
    let mut all = [None; BATCH];
    for (&index, place) in batch.found[..batch.len().min(BATCH)].iter().zip(&mut all) {
        *place = Some(Recirculation::of(guard.get(index)?.payload.summary)?);
    }
    Some(all)
}

/// Returns whether packets that need no other operations than this recirculation may be looked up again at once. If
/// so, their meters have been charged.
#[inline(always)]
fn charge_if_at_once(guard: &MegaflowGuard<'_>, engine: &mut Engine, recirculation: Recirculation) -> bool {
    may_recirculate_at_once(engine, recirculation)
        && may_track(engine, recirculation)
        && (recirculation.op_flags & METERS == 0 || {
            let programs = programs_of(guard, &engine.batch);
            charge_meters::each(engine, &programs)
        })
}

/// The programs of the packets of the batch.
fn programs_of<'g>(guard: &'g MegaflowGuard<'_>, batch: &Batch) -> Programs<'g> {
    let (mut programs, records) = ([None; BATCH], guard.records());
    let found = &batch.found[..batch.len().min(BATCH)];
    for (&index, program) in found.iter().zip(&mut programs) {
        *program = records.get(index).map(|megaflow| &megaflow.payload);
    }
    programs
}

/// Recirculates all packets of the batch, which have the same program (see [`recirculation_of_all`]).
pub(super) fn all_by_program(engine: &mut Engine, recirculation: Recirculation, program: &Program) {
    if !recirculation.has_steps() || reread_edited(engine, |engine| steps::execute_same(engine, program)) {
        finish(engine, recirculation);
    }
}

/// Recirculates all packets of the batch, whose programs have the same recirculation (see [`common_recirculation`]).
pub(super) fn all_same(guard: &MegaflowGuard<'_>, engine: &mut Engine, recirculation: Recirculation) {
    if !recirculation.has_steps() || step_each(guard, engine) {
        finish(engine, recirculation);
    }
}

/// Recirculates each packet as its program says (see [`recirculations`]).
pub(super) fn each(guard: &MegaflowGuard<'_>, engine: &mut Engine, all: &Recirculations) {
    if all.iter().flatten().any(|recirculation| recirculation.has_steps()) && !step_each(guard, engine) {
        return;
    }
    let batch = &mut engine.batch;
    let frames = std::mem::take(&mut batch.frames);
    for (i, (frame, recirculation)) in frames.iter().zip(all).enumerate() {
        recirculation.iter().for_each(|recirculation| recirculation.apply(batch, i, frame));
    }
    batch.frames = frames;
}

/// Recirculates the packets that are left in the batch after the other packets were executed by megaflow.
/// [`recirculation_now`] has accepted their programs.
pub(super) fn remaining(guard: &MegaflowGuard<'_>, engine: &mut Engine) {
    // The metadata in `own` belong to packets that have left the batch.
    engine.drop_own_metas();
    match of_each(guard, &engine.batch) {
        Some(all) => each(guard, engine, &all),
        None => after_removal(guard, engine),
    }
}

/// Executes the programs of all packets one by one, because the megaflows of some were removed after they had been
/// found.
#[cold]
fn after_removal(guard: &MegaflowGuard<'_>, engine: &mut Engine) {
    let programs = programs_of(guard, &engine.batch);
    let mut frames = std::mem::take(&mut engine.batch.frames);
    for (i, frame) in frames.drain(..).enumerate() {
        match programs[i % BATCH] {
            Some(program) => run_one(engine, &program.ops, i, frame),
            None => {
                let packet = engine.batch.packet(i, frame);
                engine.batch.missed.push(Miss { packet, counted_hit: true });
            }
        }
    }
    engine.batch.frames = frames;
}

fn step_each(guard: &MegaflowGuard<'_>, engine: &mut Engine) -> bool {
    let programs = programs_of(guard, &engine.batch);
    let (first, n) = (programs[0], engine.batch.len().min(BATCH));
    let same_program = first.filter(|first| {
        let number = first.number();
        number != 0 && programs[..n].iter().all(|program| program.is_some_and(|p| p.number() == number))
    });
    reread_edited(engine, |engine| steps::execute_each(engine, same_program, &programs))
}

/// Executes steps, then rereads the keys of the packets that the steps rewrote. Returns false if the packets
/// have left the batch.
fn reread_edited(engine: &mut Engine, steps: impl FnOnce(&mut Engine) -> Option<u64>) -> bool {
    let Some(edited) = steps(engine) else { return false };
    if edited != 0 {
        extract::reread(&mut engine.batch, edited);
    }
    true
}

/// Recirculates all packets of the batch. Their steps have been executed.
fn finish(engine: &mut Engine, recirculation: Recirculation) {
    let batch = &mut engine.batch;
    let (mut left, keys) = (batch.key_bits(), batch.keys().min(BATCH));
    match recirculation.hash {
        None => {
            return batch.lines[..keys]
                .iter_mut()
                .for_each(|line| recirculate_line(line, recirculation.id, None));
        }
        Some(Hash { symmetric: false, basis }) if !batch.shares_key => {
            left = cpu::stage(HashAll { lines: &mut batch.lines[..keys], id: recirculation.id, basis });
        }
        Some(_) => {}
    }
    let frames = std::mem::take(&mut batch.frames);
    bits(left).for_each(|i| recirculation.apply(batch, i, &frames[i]));
    batch.frames = frames;
}

/// Hashes packets with the non-symmetric hash, and recirculates them. The stage returns a bit for each key that is
/// unchanged because its addresses are not in its line.
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
