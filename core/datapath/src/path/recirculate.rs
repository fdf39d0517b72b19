//! Recirculate: packets whose program only executes [steps], hashes them and then recirculates them stay in the batch. A few words of their
//! keys change, and they are looked up again at once. The keys of rewritten packets are read again.

use super::execute::run_one;
use super::megaflows::{Megaflows, Programs};
use super::{charge, conntrack, extract, steps};
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

/// Returns whether packets whose recirculations do no more than this one may be looked up again at once. Not while other packets are queued for
/// recirculation or parked: packets of the same flow must not overtake them.
#[inline]
fn may_go_now(engine: &Engine, recirculation: Recirculation) -> bool {
    let waits = |parking: &Parking| !parking.park.is_empty();
    engine.batch.may_go_again(recirculation.hash.is_some())
        && (!recirculation.has_steps() || engine.batch.is_plain())
        && engine.later.recirculated.is_empty()
        && !engine.parking.as_deref().is_some_and(waits)
}

/// Returns whether the packets may be tracked in the batch, if they are: no packet may be a fragment.
#[inline]
fn may_track(engine: &Engine, recirculation: Recirculation) -> bool {
    !recirculation.tracks() || conntrack::are_whole(&engine.batch)
}

impl Recirculation {
    /// The recirculation of a program with this summary; `None`: the program does something else.
    #[inline]
    pub(super) fn of(summary: Summary) -> Option<Recirculation> {
        match summary {
            Summary::Recirculate(recirculation) => Some(recirculation),
            _ => None,
        }
    }

    /// What this recirculation or the other one does.
    fn or(self, other: Recirculation) -> Recirculation {
        Recirculation { does: self.does | other.does, hash: self.hash.or(other.hash), ..self }
    }

    /// Recirculates packet `i` of the batch after its steps.
    #[inline]
    fn apply(self, batch: &mut Batch, i: usize, frame: &Frame) {
        let hashed = self.hash.map(|Hash { symmetric, basis }| {
            let key = batch.key_to_ports(Some(i as u8));
            hash::of_frame(frame, &batch.common, key, symmetric, basis)
        });
        batch.again(i, self.id, hashed);
    }
}

/// The recirculation of a program, if its packets may be looked up again at once together with those of other programs. If it
/// [tracks](Recirculation::tracks), fragments must not be recirculated this way.
#[inline]
pub(super) fn recirculation_now(engine: &Engine, program: &Program) -> Option<Recirculation> {
    let now = |recirculation: &Recirculation| {
        recirculation.does & METERS == 0 && may_go_now(engine, *recirculation)
    };
    Recirculation::of(program.summary).filter(now)
}

/// The recirculation of the program that all packets of the batch have, if they may be looked up again at once. They have passed its
/// meters then.
#[inline(always)]
pub(super) fn recirculation_of_all(engine: &mut Engine, program: &Program) -> Option<Recirculation> {
    let recirculation = Recirculation::of(program.summary)?;
    let may_go = may_go_now(engine, recirculation) && may_track(engine, recirculation);
    (may_go && (recirculation.does & METERS == 0 || charge::all(engine, program))).then_some(recirculation)
}

/// The recirculation of all programs of a batch, if it is the same and the packets may be looked up again at once. They have passed
/// their meters then.
#[inline(always)]
pub(super) fn common_recirculation(guard: &Megaflows<'_>, engine: &mut Engine) -> Option<Recirculation> {
    let found = &engine.batch.found[..engine.batch.len().min(BATCH)];
    let records = guard.records();
    let summary = records.get(*found.first()?)?.payload.summary;
    let recirculation = Recirculation::of(summary)?;
    let same = found.iter().all(|&index| records.get(index).is_some_and(|m| m.payload.summary == summary));
    (same && may_go_all(guard, engine, recirculation)).then_some(recirculation)
}

/// The recirculation of each packet of the batch, if all packets may be looked up again at once. They have passed their meters then.
#[inline(always)]
pub(super) fn recirculations(guard: &Megaflows<'_>, engine: &mut Engine) -> Option<Recirculations> {
    let all = of_each(guard, &engine.batch)?;
    let one = all.iter().flatten().copied().reduce(Recirculation::or)?;
    may_go_all(guard, engine, one).then_some(all)
}

/// The recirculation of each packet of a batch.
type Recirculations = [Option<Recirculation>; BATCH];

/// `None`: some packet has none.
#[inline(always)]
fn of_each(guard: &Megaflows<'_>, batch: &Batch) -> Option<Recirculations> {
    let mut all = [None; BATCH];
    for (&index, place) in batch.found[..batch.len().min(BATCH)].iter().zip(&mut all) {
        *place = Some(Recirculation::of(guard.get(index)?.payload.summary)?);
    }
    Some(all)
}

/// Returns whether the packets, whose recirculations do no more than this one, may be looked up again at once and have passed their meters.
#[inline(always)]
fn may_go_all(guard: &Megaflows<'_>, engine: &mut Engine, recirculation: Recirculation) -> bool {
    may_go_now(engine, recirculation)
        && may_track(engine, recirculation)
        && (recirculation.does & METERS == 0 || {
            let programs = programs_of(guard, &engine.batch);
            charge::each(engine, &programs)
        })
}

/// The programs of the packets of the batch.
fn programs_of<'g>(guard: &'g Megaflows<'_>, batch: &Batch) -> Programs<'g> {
    let (mut programs, records) = ([None; BATCH], guard.records());
    let found = &batch.found[..batch.len().min(BATCH)];
    for (&index, program) in found.iter().zip(&mut programs) {
        *program = records.get(index).map(|megaflow| &megaflow.payload);
    }
    programs
}

/// Recirculates all packets of the batch, which have the same program ([`recirculation_of_all`]).
pub(super) fn all_by_program(engine: &mut Engine, recirculation: Recirculation, program: &Program) {
    if !recirculation.has_steps() || renewed(engine, |engine| steps::all(engine, program)) {
        finish(engine, recirculation);
    }
}

/// Recirculates all packets of the batch, whose programs have the same recirculation ([`common_recirculation`]).
pub(super) fn all_same(guard: &Megaflows<'_>, engine: &mut Engine, recirculation: Recirculation) {
    if !recirculation.has_steps() || step_each(guard, engine) {
        finish(engine, recirculation);
    }
}

/// Recirculates each packet as its program says ([`recirculations`]).
pub(super) fn each(guard: &Megaflows<'_>, engine: &mut Engine, all: &Recirculations) {
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

/// Recirculates the packets that are left in the batch after the others were executed by megaflow. Their programs recirculate
/// [now](recirculation_now).
pub(super) fn rest(guard: &Megaflows<'_>, engine: &mut Engine) {
    // Those metadata belong to packets that have left the batch.
    engine.drop_own_metas();
    match of_each(guard, &engine.batch) {
        Some(all) => each(guard, engine, &all),
        None => after_removal(guard, engine),
    }
}

/// Executes the programs of all packets one by one: the megaflows of some were removed after they had been found.
#[cold]
fn after_removal(guard: &Megaflows<'_>, engine: &mut Engine) {
    let programs = programs_of(guard, &engine.batch);
    let mut frames = std::mem::take(&mut engine.batch.frames);
    for (i, frame) in frames.drain(..).enumerate() {
        match programs[i % BATCH] {
            Some(program) => run_one(engine, &program.ops, i, frame),
            None => {
                let packet = engine.batch.packet(i, frame);
                engine.batch.missed.push(Miss { packet, answered: true });
            }
        }
    }
    engine.batch.frames = frames;
}

fn step_each(guard: &Megaflows<'_>, engine: &mut Engine) -> bool {
    let programs = programs_of(guard, &engine.batch);
    let (first, n) = (programs[0], engine.batch.len().min(BATCH));
    let alike = first.filter(|first| {
        let number = first.number();
        number != 0 && programs[..n].iter().all(|program| program.is_some_and(|p| p.number() == number))
    });
    renewed(engine, |engine| steps::of_each(engine, alike, &programs))
}

/// Executes steps, and reads the keys of the packets that they have rewritten again. Returns false if the packets have left the batch.
fn renewed(engine: &mut Engine, steps: impl FnOnce(&mut Engine) -> Option<u64>) -> bool {
    let Some(edited) = steps(engine) else { return false };
    if edited != 0 {
        extract::renew(&mut engine.batch, edited);
    }
    true
}

/// Recirculates all packets of the batch after their steps.
fn finish(engine: &mut Engine, recirculation: Recirculation) {
    let batch = &mut engine.batch;
    let (mut left, keys) = (batch.all(), batch.keys().min(BATCH));
    match recirculation.hash {
        None => {
            return batch.lines[..keys]
                .iter_mut()
                .for_each(|line| recirculate_line(line, recirculation.id, None));
        }
        Some(Hash { symmetric: false, basis }) if !batch.alike => {
            left = cpu::stage(HashAll { lines: &mut batch.lines[..keys], id: recirculation.id, basis });
        }
        Some(_) => {}
    }
    let frames = std::mem::take(&mut batch.frames);
    bits(left).for_each(|i| recirculation.apply(batch, i, &frames[i]));
    batch.frames = frames;
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
