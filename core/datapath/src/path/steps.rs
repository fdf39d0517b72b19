//! Steps: operations that programs execute on all packets of a batch, in the batch, before they send or recirculate
//! them (see [`crate::steps`]).
//!
//! The packets must share their metadata, and no packet may be a fragment if packets are tracked. If a rewrite does
//! not fit some packet, all packets leave the batch: each goes through the rest of its program alone, so that the
//! packets keep their order.

use super::execute::run_one;
use super::megaflow_guard::Programs;
use super::rewrites::{RewriteAll, RewriteRuns};
use super::{conntrack, sample};
use crate::batch::BATCH;
use crate::engine::Engine;
use crate::port::FrameBatch;
use crate::program::{Op, Program};
use crate::rewrite::Rewrite;
use crate::steps::StepKind;
use ::conntrack::Action;
use classifier::megaflow::bits;

/// Executes the steps of the program that all packets have. Returns a bit for each packet that was rewritten, or
/// `None` if the packets have left the batch.
pub(super) fn execute_same(engine: &mut Engine, program: &Program) -> Option<u64> {
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
                    leave_batch(engine, |i| &program.ops[if unfit >> i & 1 == 0 { rest } else { at }..]);
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

/// As [`execute_same`], for packets with these programs. `same_program`: the program of all packets, if it is
/// known to be the same.
pub(super) fn execute_each(
    engine: &mut Engine,
    same_program: Option<&Program>,
    programs: &Programs<'_>,
) -> Option<u64> {
    match same_program {
        Some(program) => execute_same(engine, program),
        None => execute_differing(engine, programs),
    }
}

fn execute_differing(engine: &mut Engine, programs: &Programs<'_>) -> Option<u64> {
    let n = engine.batch.len().min(BATCH);
    let (mut at, mut slots) = ([0; BATCH], 0);
    for (at, program) in at.iter_mut().zip(&programs[..n]) {
        if let Some(program) = program {
            *at = program.steps.meters();
            slots |= program.steps.slots();
        }
    }
    let mut edited = 0;
    for slot in bits(slots.into()) {
        let mut step = SlotStep { programs: [None; BATCH], at: &mut at, packets: 0 };
        for (i, (program, chosen)) in programs[..n].iter().zip(&mut step.programs).enumerate() {
            if let Some(program) = program.filter(|program| program.steps.slots() >> slot & 1 != 0) {
                *chosen = Some(program);
                step.packets |= 1 << i;
            }
        }
        match StepKind::at(slot) {
            StepKind::Sample => step.sample(engine, slot == 0),
            StepKind::Copy => step.send_copies(engine),
            StepKind::Rewrite => {
                edited |= step.packets;
                let unfit = step.rewrite(engine);
                if unfit != 0 {
                    leave_batch(engine, |i| programs[i].map_or(&[], |program| &program.ops[step.at[i]..]));
                    return None;
                }
            }
            StepKind::Clear => {
                engine.batch.clear_tracking(step.packets);
                step.advance();
            }
            StepKind::Forget => {
                engine.batch.tracked.forget_connections(step.packets);
                step.advance();
            }
            StepKind::Track => {
                step.track(engine);
                step.advance();
            }
        }
    }
    Some(edited)
}

/// The steps in one slot, of all programs that have one there.
struct SlotStep<'a, 'g> {
    /// The programs that have a step in this slot.
    programs: Programs<'g>,
    /// For each packet the index of the next operation of its program.
    at: &'a mut [usize; BATCH],
    /// The packets whose programs have a step in this slot. Bit i: packet i.
    packets: u64,
}

impl<'g> SlotStep<'_, 'g> {
    /// The next operation of packet `i`.
    fn op(&self, i: usize) -> Option<&'g Op> {
        self.programs[i]?.ops.get(self.at[i])
    }

    /// Advances each program past its current operation.
    fn advance(&mut self) {
        bits(self.packets).for_each(|i| self.at[i] += 1);
    }

    /// Samples packets. `first`: the samples are in front of the meters.
    fn sample(&mut self, engine: &mut Engine, first: bool) {
        for i in bits(self.packets) {
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
            for i in bits(self.packets) {
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

    /// Rewrites packets. If the rewrite fits the packet, the operations that it replaces are skipped, too. Returns a
    /// bit for each packet that its rewrite does not fit.
    fn rewrite(&mut self, engine: &mut Engine) -> u64 {
        let (programs, at) = (&self.programs, &*self.at);
        let of = |i: usize| programs[i % BATCH]?.rewrite_at(at[i % BATCH]);
        let unfit = with_frames(engine, |_, frames| cpu::stage(RewriteRuns { of, frames }));
        for i in bits(self.packets) {
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
        for i in bits(self.packets) {
            if let Some(Op::Ct(action)) = self.op(i) {
                actions[i] = Some(action);
            }
        }
        conntrack::track_batch(engine, &actions);
    }
}

/// Calls a function with the frames of the batch taken out of the batch, so that it can borrow the engine.
fn with_frames<T>(engine: &mut Engine, act: impl FnOnce(&mut Engine, &mut FrameBatch) -> T) -> T {
    let mut frames = std::mem::take(&mut engine.batch.frames);
    let out = act(engine, &mut frames);
    engine.batch.frames = frames;
    out
}

/// Takes all packets out of the batch; each goes through the rest of its program alone.
#[cold]
fn leave_batch<'g>(engine: &mut Engine, rest: impl Fn(usize) -> &'g [Op]) {
    let mut frames = std::mem::take(&mut engine.batch.frames);
    frames.drain(..).enumerate().for_each(|(i, frame)| run_one(engine, rest(i), i, frame));
    engine.batch.frames = frames;
}
