//! Steps: what programs do with all packets of a batch, in the batch, before they send or recirculate them (see [`crate::steps`]).
//!
//! The packets must share their metadata, and none may be a fragment if packets are tracked. If a rewrite does not fit some packet, all
//! packets leave the batch: each goes through the rest of its program alone, so that their order stays.

use super::execute::run_one;
use super::megaflows::Programs;
use super::rewrites::{RewriteAll, RewriteRuns};
use super::{conntrack, sample};
use crate::batch::BATCH;
use crate::engine::Engine;
use crate::port::FrameBatch;
use crate::program::{Op, Program};
use crate::rewrite::Rewrite;
use crate::steps::Kind;
use ::conntrack::Action;
use classifier::megaflow::bits;

/// Executes the steps of the program that all packets have. Returns a bit for each packet that was rewritten; `None`: the packets have
/// left the batch.
pub(super) fn all(engine: &mut Engine, program: &Program) -> Option<u64> {
    let (mut at, mut edited) = (0, 0);
    while let Some(op) = program.ops[..program.steps.ops()].get(at) {
        at += 1;
        match op {
            Op::Sample(share, inner) => sample::batch(engine, u64::MAX, *share, inner),
            &Op::Output(port) => with_frames(engine, |engine, frames| engine.send_copies(frames, port)),
            &Op::Enqueue(port, queue) => with_frames(engine, |engine, frames| {
                frames.iter().for_each(|frame| engine.enqueue_copy(frame, port, queue));
            }),
            Op::Rewrite(rewrite) => {
                edited = u64::MAX;
                let rest = at + usize::from(rewrite.ops);
                let unfit = with_frames(engine, |_, frames| cpu::stage(RewriteAll { rewrite, frames }));
                if unfit != 0 {
                    leave(engine, |i| &program.ops[if unfit >> i & 1 == 0 { rest } else { at }..]);
                    return None;
                }
                at = rest;
            }
            Op::CtClear => engine.batch.clear_tracking(u64::MAX),
            Op::ForgetConnection => engine.batch.tracked.forget_connections(u64::MAX),
            Op::Ct(action) => conntrack::track_batch(engine, &**action),
            _ => {}
        }
    }
    Some(edited)
}

/// As [`all`], for packets with these programs. `alike`: the program of all packets, if they are known to have equal ones.
pub(super) fn of_each(engine: &mut Engine, alike: Option<&Program>, programs: &Programs<'_>) -> Option<u64> {
    match alike {
        Some(program) => all(engine, program),
        None => each(engine, programs),
    }
}

fn each(engine: &mut Engine, programs: &Programs<'_>) -> Option<u64> {
    let n = engine.batch.len().min(BATCH);
    let (mut at, mut places) = ([0; BATCH], 0);
    for (at, program) in at.iter_mut().zip(&programs[..n]) {
        if let Some(program) = program {
            *at = program.steps.meters();
            places |= program.steps.places();
        }
    }
    let mut edited = 0;
    for place in bits(places.into()) {
        let mut here = Here { programs: [None; BATCH], at: &mut at, which: 0 };
        for (i, (program, chosen)) in programs[..n].iter().zip(&mut here.programs).enumerate() {
            if let Some(program) = program.filter(|program| program.steps.places() >> place & 1 != 0) {
                *chosen = Some(program);
                here.which |= 1 << i;
            }
        }
        match Kind::at(place) {
            Kind::Sample => here.sample(engine, place == 0),
            Kind::Copy => here.send_copies(engine),
            Kind::Edit => {
                edited |= here.which;
                let unfit = here.rewrite(engine);
                if unfit != 0 {
                    leave(engine, |i| programs[i].map_or(&[], |program| &program.ops[here.at[i]..]));
                    return None;
                }
            }
            Kind::Clear => {
                engine.batch.clear_tracking(here.which);
                here.pass();
            }
            Kind::Forget => {
                engine.batch.tracked.forget_connections(here.which);
                here.pass();
            }
            Kind::Track => {
                here.track(engine);
                here.pass();
            }
        }
    }
    Some(edited)
}

/// A step at one place of the rounds.
struct Here<'a, 'g> {
    /// The programs that have the step.
    programs: Programs<'g>,
    /// For each packet the index of the next operation of its program.
    at: &'a mut [usize; BATCH],
    /// The packets whose programs have the step, as bits.
    which: u64,
}

impl<'g> Here<'_, 'g> {
    /// The next operation of packet `i`.
    fn op(&self, i: usize) -> Option<&'g Op> {
        self.programs[i]?.ops.get(self.at[i])
    }

    /// Passes the operation of each program.
    fn pass(&mut self) {
        bits(self.which).for_each(|i| self.at[i] += 1);
    }

    /// Samples packets. `first`: in front of the meters.
    fn sample(&mut self, engine: &mut Engine, first: bool) {
        for i in bits(self.which) {
            let Some(program) = self.programs[i] else { continue };
            let from = if first { 0 } else { self.at[i] };
            for op in &program.ops[from..] {
                let Op::Sample(share, inner) = op else { break };
                sample::batch(engine, 1 << i, *share, inner);
                self.at[i] += 1;
            }
        }
    }

    fn send_copies(&mut self, engine: &mut Engine) {
        with_frames(engine, |engine, frames| {
            for i in bits(self.which) {
                let Some(frame) = frames.get(i) else { continue };
                loop {
                    match self.op(i) {
                        Some(&Op::Output(port)) => engine.send_copy(frame, port),
                        Some(&Op::Enqueue(port, queue)) => engine.enqueue_copy(frame, port, queue),
                        _ => break,
                    }
                    self.at[i] += 1;
                }
            }
        });
    }

    /// Rewrites packets, and passes the operations that a rewrite replaces unless it does not fit the packet. Returns a bit for each packet
    /// that its rewrite does not fit.
    fn rewrite(&mut self, engine: &mut Engine) -> u64 {
        let (programs, at) = (&self.programs, &*self.at);
        let of = |i: usize| programs[i % BATCH]?.rewrite_at(at[i % BATCH]);
        let unfit = with_frames(engine, |_, frames| cpu::stage(RewriteRuns { of, frames }));
        for i in bits(self.which) {
            let replaced =
                self.rewrite_at(i).filter(|_| unfit >> i & 1 == 0).map_or(0, |rewrite| rewrite.ops.into());
            self.at[i] += 1 + replaced;
        }
        unfit
    }

    fn rewrite_at(&self, i: usize) -> Option<&'g Rewrite> {
        self.programs[i]?.rewrite_at(self.at[i])
    }

    fn track(&self, engine: &mut Engine) {
        let mut actions: [Option<&Action>; BATCH] = [None; BATCH];
        for i in bits(self.which) {
            if let Some(Op::Ct(action)) = self.op(i) {
                actions[i] = Some(action);
            }
        }
        conntrack::track_batch(engine, &actions);
    }
}

/// Gives the frames of the batch, apart from it, to a function.
fn with_frames<T>(engine: &mut Engine, act: impl FnOnce(&mut Engine, &mut FrameBatch) -> T) -> T {
    let mut frames = std::mem::take(&mut engine.batch.frames);
    let out = act(engine, &mut frames);
    engine.batch.frames = frames;
    out
}

/// Takes all packets out of the batch; each goes through the rest of its program alone.
#[cold]
fn leave<'g>(engine: &mut Engine, rest: impl Fn(usize) -> &'g [Op]) {
    let mut frames = std::mem::take(&mut engine.batch.frames);
    frames.drain(..).enumerate().for_each(|(i, frame)| run_one(engine, rest(i), i, frame));
    engine.batch.frames = frames;
}
