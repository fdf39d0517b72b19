//! Recirculate: packets whose program only rewrites, hashes or tracks them and then recirculates stay in the batch. A few words of their
//! keys change, and they are looked up again at once. The keys of rewritten packets are read again.

use super::execute::{run_one, run_ops};
use super::megaflows::{Megaflows, Programs};
use super::per_packet::RewriteRuns;
use super::{conntrack, extract, sample};
use crate::action::hash;
use crate::batch::{BATCH, Batch, recirculate_line};
use crate::engine::Engine;
use crate::engine::parking::Parking;
use crate::packet::Packet;
use crate::port::{Frame, FrameBatch};
use crate::program::{Program, Summary};
use crate::recirculation::{Recirculation, Then};
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

impl Recirculation {
    /// The recirculation of a program with this summary; `None`: the program does something else.
    #[inline]
    pub(super) fn of(summary: Summary) -> Option<Recirculation> {
        match summary {
            Summary::Recirculate(recirculation) => Some(recirculation),
            _ => None,
        }
    }

    /// Recirculates packet `i` of the batch. What concerns all packets together is not included: rewriting and tracking.
    #[inline]
    pub(super) fn apply(self, batch: &mut Batch, i: usize, frame: &Frame) {
        let hashed = match self.then {
            Then::Hash { symmetric, basis } => {
                // The key of a packet that was rewritten may not have been read again yet.
                let key = batch.key_to_ports(Some(i as u8)).filter(|_| !self.edits);
                Some(hash::of_frame(frame, &batch.common, key, symmetric, basis))
            }
            Then::Nothing | Then::Track => None,
        };
        batch.again(i, self.id, hashed);
    }
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

/// Executes what comes before hashing and tracking: samples and rewrites the packets of the batch as their programs say, and forgets the
/// connections that were found before. Returns false if the batch is empty now: some packet did not have the expected layout, and each
/// packet has gone through the operations alone.
fn begin<'g>(
    engine: &mut Engine,
    (begins, forgets): (bool, bool),
    programs: impl FnOnce(&Batch) -> Programs<'g>,
) -> bool {
    if begins {
        let programs = programs(&engine.batch);
        if !edit(engine, &programs) {
            return false;
        }
    }
    if forgets {
        engine.batch.tracked.forget_connections();
    }
    true
}

/// Samples and rewrites the packets, and reads the keys of rewritten ones again. Returns false as [`begin`].
fn edit(engine: &mut Engine, programs: &Programs<'_>) -> bool {
    sample::batch(engine, programs);
    let mut frames = std::mem::take(&mut engine.batch.frames);
    let unfit = cpu::stage(RewriteRuns { programs, frames: &mut frames });
    if unfit != 0 {
        one_by_one(engine, programs, unfit, &mut frames);
    }
    engine.batch.frames = frames;
    let rewritten = programs.iter().flatten().any(|program| program.rewrite().is_some());
    if unfit == 0 && rewritten {
        extract::renew_all(&mut engine.batch);
    }
    unfit == 0
}

/// Executes the programs on each packet alone. The bit set marks packets that their rewrite did not fit; it is done for the others.
#[cold]
fn one_by_one(engine: &mut Engine, programs: &Programs<'_>, unfit: u64, frames: &mut FrameBatch) {
    for (i, (frame, program)) in frames.drain(..).zip(programs).enumerate() {
        let ops = program.map_or(&[][..], Program::behind_samples);
        match program.and_then(Program::rewrite).filter(|_| unfit >> i & 1 == 0) {
            Some(rewrite) => {
                // The key of the packet was read before it was rewritten.
                let mut group = engine.list();
                group.push(Packet { number: None, ..engine.batch.packet(i, frame) });
                run_ops(engine, &ops[1 + usize::from(rewrite.ops)..], &mut group);
                engine.give_back(group);
            }
            None => run_one(engine, ops, i, frame),
        }
    }
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
    if !begin(engine, (recirculation.begins(), recirculation.forgets), |_| [Some(program); BATCH]) {
        return;
    }
    if let Some(action) = program.track().filter(|_| recirculation.tracks()) {
        conntrack::track_batch(engine, action);
    }
    finish(engine, recirculation);
}

/// Recirculates all packets of the batch, whose programs have the same recirculation ([`common_recirculation`]).
pub(super) fn all_same(guard: &Megaflows<'_>, engine: &mut Engine, recirculation: Recirculation) {
    let both = (recirculation.begins(), recirculation.forgets);
    if !begin(engine, both, |batch| programs_of(guard, batch)) {
        return;
    }
    if recirculation.tracks() {
        track(guard, engine);
    }
    finish(engine, recirculation);
}

/// Recirculates all packets of the batch after they were rewritten and tracked, as far as that was necessary.
fn finish(engine: &mut Engine, recirculation: Recirculation) {
    let batch = &mut engine.batch;
    let (mut left, keys) = (batch.all(), batch.keys().min(BATCH));
    match recirculation.then {
        Then::Nothing | Then::Track => {
            return batch.lines[..keys]
                .iter_mut()
                .for_each(|line| recirculate_line(line, recirculation.id, None));
        }
        Then::Hash { symmetric: false, basis } if !batch.alike => {
            left = cpu::stage(HashAll { lines: &mut batch.lines[..keys], id: recirculation.id, basis });
        }
        Then::Hash { .. } => {}
    }
    let frames = std::mem::take(&mut batch.frames);
    bits(left).for_each(|i| recirculation.apply(batch, i, &frames[i]));
    batch.frames = frames;
}

/// Recirculates each packet as its program says.
pub(super) fn each(guard: &Megaflows<'_>, engine: &mut Engine, all: &[Option<Recirculation>; BATCH]) {
    let any = |is: fn(&Recirculation) -> bool| all.iter().flatten().any(is);
    let both = (any(|recirculation| recirculation.begins()), any(|recirculation| recirculation.forgets));
    if !begin(engine, both, |batch| programs_of(guard, batch)) {
        return;
    }
    if any(|recirculation| recirculation.tracks()) {
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
