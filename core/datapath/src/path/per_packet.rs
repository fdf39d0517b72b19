//! Packet by packet: programs that only meter packets, execute [steps], rewrite, copy and send are executed for each
//! packet in the order of the batch.
//!
//! Packets are not grouped by megaflow: each meter is charged once for all packets, frames are tracked and rewritten
//! in place, and a batch whose packets are all sent by one port is handed to that port's burst as one piece.

use super::drop_run::DropRun;
use super::execute::{longest, run_one};
use super::megaflow_guard::{MegaflowGuard, Programs};
use super::rewrites::{RewriteAll, RewriteRuns};
use super::{charge_meters, conntrack, steps};
use crate::batch::{BATCH, Batch};
use crate::engine::Engine;
use crate::port::{Frame, FrameBatch};
use crate::program::{Op, Program, Summary};
use crate::steps::{COPIES, METERS, REWRITES, STEPS, TRACKS};

/// Used as the output port of dropped packets; no port has this number.
const DROPS: u32 = u32::MAX;

/// Returns the output port of all packets, if every packet has a megaflow that only sends to this port: the most
/// frequent case.
#[inline(always)]
pub(super) fn common_port(guard: &MegaflowGuard<'_>, batch: &Batch) -> Option<u32> {
    let (records, found) = (guard.records(), &batch.found[..batch.len().min(BATCH)]);
    let summary = records.get(*found.first()?)?.payload.summary;
    let Summary::Send { port, op_flags: 0 } = summary else { return None };
    let same = found.iter().all(|&index| records.get(index).is_some_and(|m| m.payload.summary == summary));
    (same && batch.needs_only_frames()).then_some(port)
}

/// Returns the port that a program sends to (or [`DROPS`]), and its other operations. Returns `None` if the program
/// has operations that this file does not execute.
#[inline(always)]
fn end_of(program: &Program) -> Option<(u32, u8)> {
    match program.summary {
        Summary::Send { port, op_flags } => Some((port, op_flags)),
        Summary::Drop(_) => Some((DROPS, 0)),
        _ => None,
    }
}

/// Returns the program that is executed for packet `i` of the batch. A program that compares lengths continues with
/// one of its branches.
#[inline(always)]
fn resolved<'g>(batch: &Batch, i: usize, program: &'g Program) -> Option<(&'g Program, (u32, u8))> {
    match end_of(program) {
        Some(end) => Some((program, end)),
        None if program.summary == Summary::ByLength => by_length(batch, i, program),
        None => None,
    }
}

fn by_length<'g>(batch: &Batch, i: usize, program: &'g Program) -> Option<(&'g Program, (u32, u8))> {
    let (mut program, frame) = (program, batch.frames.get(i)?);
    let meta = batch.own.get(i).unwrap_or(&batch.common);
    while let [Op::CheckLen(max, longer, rest)] = &program.ops[..] {
        program = if longest(frame, meta, *max) <= *max { rest } else { longer };
    }
    Some((program, end_of(program)?))
}

/// A batch whose programs are all executed packet by packet.
pub(super) struct PerPacketBatch<'g> {
    programs: Programs<'g>,
    /// The output port of all packets, if it is the same.
    port: Option<u32>,
    /// Flags of the operations besides sending that at least one of the programs has.
    op_flags: u8,
    /// The program of all packets, if it is known to be the same and does more than send or drop packets.
    same_program: Option<&'g Program>,
}

impl<'g> PerPacketBatch<'g> {
    /// For a batch whose packets all have a megaflow. Returns `None` if a program has operations that this file does
    /// not execute, or if a packet is not Ethernet or will be truncated.
    #[inline(always)]
    pub(super) fn of(guard: &'g MegaflowGuard<'_>, batch: &Batch) -> Option<Self> {
        let (records, found) = (guard.records(), &batch.found);
        Self::collect(batch, |i| records.get(found[i % BATCH]).map(|megaflow| &megaflow.payload))
    }

    /// As [`of`](Self::of); `program_of` returns the program of packet `i`.
    #[inline(always)]
    fn collect(batch: &Batch, program_of: impl Fn(usize) -> Option<&'g Program>) -> Option<Self> {
        let (first_program, (first, _)) = resolved(batch, 0, program_of(0)?)?;
        let (mut programs, mut all, mut differ, mut numbers) = ([None; BATCH], 0, 0, 0);
        for (i, place) in programs.iter_mut().enumerate().take(batch.len()) {
            let (program, (port, op_flags)) = resolved(batch, i, program_of(i)?)?;
            all |= op_flags;
            differ |= port ^ first;
            numbers |= program.number() ^ first_program.number();
            *place = Some(program);
        }
        let port = (differ == 0 && first != DROPS).then_some(first);
        let same_program = (numbers == 0 && first_program.number() != 0).then_some(first_program);
        fits(batch, all).then_some(PerPacketBatch { programs, port, op_flags: all, same_program })
    }

    /// For a batch whose packets all have this program. Returns `None` if the program has operations that this file
    /// does not execute, or if it only sends or drops.
    pub(super) fn by(program: &'g Program, batch: &Batch) -> Option<Self> {
        match program.summary {
            Summary::Send { port, op_flags } if op_flags != 0 && fits(batch, op_flags) => {
                let programs = [Some(program); BATCH];
                Some(PerPacketBatch { programs, port: Some(port), op_flags, same_program: Some(program) })
            }
            Summary::ByLength => Self::collect(batch, |_| Some(program)),
            _ => None,
        }
    }

    /// Charges the meters of all packets. Returns `false` and charges nothing if some packets would not pass.
    #[inline]
    pub(super) fn pass_meters(&self, engine: &mut Engine) -> bool {
        self.op_flags & METERS == 0 || self.charge(engine)
    }

    fn charge(&self, engine: &mut Engine) -> bool {
        match self.same_program {
            Some(program) => charge_meters::all(engine, program),
            None => charge_meters::each(engine, &self.programs),
        }
    }

    /// Executes the programs. The packets must have passed their meters.
    #[inline(always)]
    pub(super) fn send(&self, engine: &mut Engine) {
        if self.op_flags & STEPS != 0 && !self.step(engine) {
            return;
        }
        let mut frames = std::mem::take(&mut engine.batch.frames);
        match (self.same_program, self.port) {
            (Some(program), _) => send_alike(engine, program.after_steps(), &mut frames),
            (None, Some(port)) if self.op_flags & (REWRITES | COPIES) == 0 => {
                engine.send_all(port, &mut frames)
            }
            _ => self.send_mixed(engine, &mut frames),
        }
        engine.batch.frames = frames;
    }

    /// Executes the steps. Returns false if the packets have left the batch.
    #[inline(never)]
    fn step(&self, engine: &mut Engine) -> bool {
        steps::execute_each(engine, self.same_program, &self.programs).is_some()
    }

    /// Executes programs that are not all the same.
    fn send_mixed(&self, engine: &mut Engine, frames: &mut FrameBatch) {
        let mut unfit = 0;
        if self.op_flags & REWRITES != 0 {
            let of = |i: usize| self.programs[i % BATCH].and_then(Program::rewrite);
            unfit = cpu::stage(RewriteRuns { of, frames });
        }
        match self.port {
            _ if unfit != 0 || self.op_flags & COPIES != 0 => self.send_each(engine, unfit, frames.drain(..)),
            Some(port) => engine.send_all(port, frames),
            None => self.send_or_drop(engine, frames.drain(..)),
        }
    }

    /// Sends or drops each frame; all other operations have been executed.
    fn send_or_drop(&self, engine: &mut Engine, frames: impl Iterator<Item = Frame>) {
        let mut dropping = DropRun::default();
        for (i, (frame, program)) in frames.zip(&self.programs).enumerate() {
            match program.map(|program| program.summary) {
                Some(Summary::Send { port, .. }) => engine.add_to_burst(port, frame),
                Some(Summary::Drop(reason)) => dropping.add(engine, i, frame, reason),
                _ => run_one(engine, program.map_or(&[], Program::after_steps), i, frame),
            }
        }
        dropping.end(engine);
    }

    /// As `send_or_drop`, for programs with operations after their meters and first rewrites. A set bit in `unfit`
    /// marks a frame that the rewrite does not fit.
    fn send_each(&self, engine: &mut Engine, unfit: u64, frames: impl Iterator<Item = Frame>) {
        let mut dropping = DropRun::default();
        for (i, (frame, program)) in frames.zip(self.programs.iter().flatten()).enumerate() {
            match program.summary {
                _ if unfit >> i & 1 != 0 => run_one(engine, program.after_steps(), i, frame),
                Summary::Send { port, op_flags } if op_flags & COPIES == 0 => {
                    engine.add_to_burst(port, frame)
                }
                Summary::Send { .. } => run_on_frame(engine, after_rewrite(program), i, frame),
                Summary::Drop(reason) => dropping.add(engine, i, frame, reason),
                _ => run_one(engine, program.after_steps(), i, frame),
            }
        }
        dropping.end(engine);
    }
}

/// Returns whether programs with these operations can be executed packet by packet on the batch.
#[inline]
fn fits(batch: &Batch, op_flags: u8) -> bool {
    let shares = op_flags & STEPS == 0 || batch.own.is_empty();
    batch.needs_only_frames() && shares && (op_flags & TRACKS == 0 || conntrack::are_unfragmented(batch))
}

/// Executes operations of a program on all frames of the batch. The last operation sends the frames.
fn send_alike(engine: &mut Engine, ops: &[Op], frames: &mut FrameBatch) {
    let mut ops = ops;
    loop {
        ops = match ops {
            &[Op::Output(port)] => return engine.send_all(port, frames),
            &[Op::Enqueue(port, queue)] => return engine.enqueue_all(port, queue, frames),
            [Op::Output(port), rest @ ..] => {
                engine.send_copies(frames, *port);
                rest
            }
            [Op::Rewrite(rewrite), rest @ ..] => {
                let unfit = cpu::stage(RewriteAll { rewrite, frames });
                let rest = rest.get(usize::from(rewrite.ops)..).unwrap_or_default();
                if unfit != 0 {
                    return frames.drain(..).enumerate().for_each(|(i, frame)| {
                        match unfit >> (i % BATCH) & 1 {
                            0 => run_on_frame(engine, rest, i, frame),
                            _ => run_one(engine, ops, i, frame),
                        }
                    });
                }
                rest
            }
            _ => {
                return frames
                    .drain(..)
                    .enumerate()
                    .for_each(|(i, frame)| run_on_frame(engine, ops, i, frame));
            }
        };
    }
}

/// Returns the operations of a program after its steps and after the first rewrite that follows them.
pub(super) fn after_rewrite(program: &Program) -> &[Op] {
    match (program.rewrite(), program.after_steps()) {
        (Some(rewrite), [_, rest @ ..]) => rest.get(usize::from(rewrite.ops)..).unwrap_or_default(),
        (_, ops) => ops,
    }
}

/// Executes operations on a frame; the last operation sends it.
#[inline]
pub(super) fn run_on_frame(engine: &mut Engine, ops: &[Op], i: usize, frame: Frame) {
    let (mut ops, mut frame) = (ops, frame);
    loop {
        ops = match ops {
            &[Op::Output(port)] => return engine.add_to_burst(port, frame),
            [Op::Rewrite(rewrite), rest @ ..] if rewrite.apply(&mut frame) => {
                rest.get(usize::from(rewrite.ops)..).unwrap_or_default()
            }
            [Op::Output(port), rest @ ..] => {
                engine.send_copy(&frame, *port);
                rest
            }
            &[Op::Enqueue(port, queue)] => return engine.enqueue(port, queue, frame),
            [Op::Enqueue(port, queue), rest @ ..] => {
                engine.enqueue_copy(&frame, *port, *queue);
                rest
            }
            _ => return run_one(engine, ops, i, frame),
        };
    }
}
