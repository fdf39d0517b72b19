//! Push: executes programs that optionally rewrite packets, add a tunnel header, and send, and do nothing else. All
//! packets stay in their batch.
//!
//! Inner checksums that the sender left to the receiver are computed here, because no device computes them behind a
//! tunnel header. Packets that must be segmented are executed operation by operation.

use super::execute::run_one;
use super::megaflow_guard::{MegaflowGuard, Programs};
use super::per_packet::after_rewrite;
use super::rewrites::{RewriteAll, RewriteRuns};
use super::tunnel::{push_each_header, push_finished, push_of, push_programs};
use crate::batch::BATCH;
use crate::engine::Engine;
use crate::engine::groups::Group;
use crate::engine::view::View;
use crate::port::{Frame, FrameBatch};
use crate::program::{Program, Push, Summary};

/// The programs of a batch: each optionally rewrites its packet, adds a tunnel header, and sends to the same port.
pub(super) struct Pushes<'g> {
    programs: Programs<'g>,
    port: u32,
    rewrites: bool,
    /// Each header has a [fast form](Program::header), and its tunnel port exists.
    all_fast: bool,
    /// Some frames have unfinished offloads.
    has_offloads: bool,
}

impl<'g> Pushes<'g> {
    /// For a batch whose packets all have a megaflow. Returns `None` if some program has other operations, or some
    /// packet must be segmented.
    #[inline]
    pub(super) fn of(guard: &'g MegaflowGuard<'_>, engine: &Engine) -> Option<Pushes<'g>> {
        let Engine { batch, view: View { ports, .. }, .. } = engine;
        let (records, found) = (guard.records(), &batch.found[..batch.len().min(BATCH)]);
        let Summary::PushAndSend { port, .. } = records.get(*found.first()?)?.payload.summary else {
            return None;
        };
        let mut pushes =
            Pushes { programs: [None; BATCH], port, rewrites: false, all_fast: true, has_offloads: false };
        for (&index, place) in found.iter().zip(&mut pushes.programs) {
            let program = &records.get(index)?.payload;
            match program.summary {
                Summary::PushAndSend { port: this, tunnel } if this == port => match program.header() {
                    Some(header) if ports.tunnels.contain(tunnel) => header.prefetch(),
                    _ => pushes.all_fast = false,
                },
                _ => return None,
            }
            pushes.rewrites |= program.rewrite().is_some();
            *place = Some(program);
        }
        pushes.has_offloads = batch.frames.iter().any(Frame::has_offload_state);
        let needs_segmentation = pushes.has_offloads && batch.frames.iter().any(Frame::needs_segmentation);
        (batch.needs_only_frames() && !needs_segmentation).then_some(pushes)
    }

    /// Rewrites each frame of the batch, adds its header, and sends all.
    pub(super) fn send(&self, engine: &mut Engine) {
        let programs = &self.programs;
        let mut frames = std::mem::take(&mut engine.batch.frames);
        let of = |i: usize| programs[i % BATCH].and_then(Program::rewrite);
        let unfit = if self.rewrites { cpu::stage(RewriteRuns { of, frames: &mut frames }) } else { 0 };
        if unfit != 0 || self.has_offloads && !finish_sums(&mut frames) {
            return run_each(engine, frames, unfit, |i| programs.get(i).copied().flatten());
        }
        let mut group = group_of(engine, frames);
        if self.all_fast {
            push_programs(engine, programs, &mut group);
        } else {
            push_each_header(engine, &mut group, |i| push_of(programs, i));
        }
        send_group(engine, self.port, group);
    }
}

/// Executes a program that [pushes](Program::push) on all frames of the batch. Returns `false` and changes nothing if
/// some frame must be segmented.
#[inline(always)]
pub(super) fn push_all(engine: &mut Engine, program: &Program, (push, port): (&Push, u32)) -> bool {
    let has_offloads = engine.batch.frames.iter().any(Frame::has_offload_state);
    if has_offloads && engine.batch.frames.iter().any(Frame::needs_segmentation) {
        return false;
    }
    let mut frames = std::mem::take(&mut engine.batch.frames);
    let unfit = match program.rewrite() {
        Some(rewrite) => cpu::stage(RewriteAll { rewrite, frames: &mut frames }),
        None => 0,
    };
    if unfit != 0 || has_offloads && !finish_sums(&mut frames) {
        run_each(engine, frames, unfit, |_| Some(program));
        return true;
    }
    let mut group = group_of(engine, frames);
    push_finished(engine, push, &mut group);
    send_group(engine, port, group);
    true
}

/// Computes the checksums that senders left to the receiver. Returns `false` if a frame does not fit its offload
/// request; the operation-by-operation execution then drops it.
#[inline]
fn finish_sums(frames: &mut FrameBatch) -> bool {
    frames.iter_mut().all(|frame| !frame.has_offload_state() || finish_sum(frame))
}

#[inline(never)]
fn finish_sum(frame: &mut Frame) -> bool {
    if frame.rx_checksums().is_some() {
        return false;
    }
    let done = frame.offload().finish(frame.bytes_mut(), |_| ()).is_some();
    if done {
        frame.set_offload(Default::default());
    }
    done
}

/// Moves these frames of the batch, with their metadata, into a group.
#[inline]
fn group_of(engine: &mut Engine, frames: FrameBatch) -> Group {
    let mut group = engine.free_lists.free_groups.pop().unwrap_or_default();
    // The group's empty list becomes the frame list of the batch, so that its memory is reused.
    engine.batch.frames = std::mem::replace(&mut group.frames, frames);
    std::mem::swap(&mut group.own, &mut engine.batch.own);
    group
}

/// Sends the frames of a group and recycles the group.
#[inline]
fn send_group(engine: &mut Engine, port: u32, mut group: Group) {
    group.own.clear();
    engine.send_all(port, &mut group.frames);
    engine.free_lists.free_groups.push(group);
}

/// Executes each frame's program on the frame alone. A set bit in `unfit` marks a frame that the first rewrite of its
/// program does not fit; the other frames are rewritten already.
#[cold]
fn run_each<'g>(
    engine: &mut Engine,
    mut frames: FrameBatch,
    unfit: u64,
    program: impl Fn(usize) -> Option<&'g Program>,
) {
    for (i, frame) in frames.drain(..).enumerate() {
        let ops = match program(i) {
            Some(program) if unfit >> (i % BATCH) & 1 == 0 => after_rewrite(program),
            program => program.map_or(&[][..], |program| &program.ops),
        };
        run_one(engine, ops, i, frame);
    }
    engine.batch.frames = frames;
}
