//! Programs that rewrite packets or not, add the header of a tunnel, and send: all packets stay in their batch.
//!
//! Inner checksums that a sender left open are computed here, because no device computes them behind the header of a tunnel. Packets that
//! must be segmented take the general path.

use super::execute::run_one;
use super::megaflows::{Megaflows, Programs};
use super::per_packet::behind_rewrite;
use super::rewrites::{RewriteAll, RewriteRuns};
use super::tunnel::{push_finished, push_of, push_programs, put_on_all};
use crate::batch::BATCH;
use crate::engine::Engine;
use crate::engine::groups::Group;
use crate::engine::view::View;
use crate::port::{Frame, FrameBatch};
use crate::program::{Program, Push, Summary};

/// The programs of a batch whose packets are at most rewritten, get a header, and are then sent to the same port.
pub(super) struct Pushes<'g> {
    programs: Programs<'g>,
    port: u32,
    rewrites: bool,
    /// Each header has a [fast form](Program::header), and its tunnel port exists.
    fast: bool,
    /// Some frames have unfinished offloads.
    open: bool,
}

impl<'g> Pushes<'g> {
    /// For a batch whose packets all have a megaflow. `None`: some program does something else.
    #[inline]
    pub(super) fn of(guard: &'g Megaflows<'_>, engine: &Engine) -> Option<Pushes<'g>> {
        let Engine { batch, view: View { ports, .. }, .. } = engine;
        let (records, found) = (guard.records(), &batch.found[..batch.len().min(BATCH)]);
        let Summary::PushAndSend { port, .. } = records.get(*found.first()?)?.payload.summary else {
            return None;
        };
        let mut pushes = Pushes { programs: [None; BATCH], port, rewrites: false, fast: true, open: false };
        for (&index, place) in found.iter().zip(&mut pushes.programs) {
            let program = &records.get(index)?.payload;
            match program.summary {
                Summary::PushAndSend { port: this, tunnel } if this == port => match program.header() {
                    Some(header) if ports.tunnels.contain(tunnel) => header.prefetch(),
                    _ => pushes.fast = false,
                },
                _ => return None,
            }
            pushes.rewrites |= program.rewrite().is_some();
            *place = Some(program);
        }
        pushes.open = batch.frames.iter().any(Frame::has_offload_state);
        let is_segmented = pushes.open && batch.frames.iter().any(Frame::is_segmented);
        (batch.is_plain() && !is_segmented).then_some(pushes)
    }

    /// Rewrites each frame of the batch, adds its header, and sends all.
    pub(super) fn send(&self, engine: &mut Engine) {
        let programs = &self.programs;
        let mut frames = std::mem::take(&mut engine.batch.frames);
        let of = |i: usize| programs[i % BATCH].and_then(Program::rewrite);
        let unfit = if self.rewrites { cpu::stage(RewriteRuns { of, frames: &mut frames }) } else { 0 };
        if unfit != 0 || self.open && !finish_sums(&mut frames) {
            return run_each(engine, frames, unfit, |i| programs.get(i).copied().flatten());
        }
        let mut group = open_group(engine, frames);
        if self.fast {
            push_programs(engine, programs, &mut group);
        } else {
            put_on_all(engine, &mut group, |i| push_of(programs, i));
        }
        send_group(engine, self.port, group);
    }
}

/// Executes a program that [pushes](Program::push) on all frames of the batch. Returns `false` and changes nothing if some must be
/// segmented.
#[inline(always)]
pub(super) fn push_whole(engine: &mut Engine, program: &Program, (push, port): (&Push, u32)) -> bool {
    let open = engine.batch.frames.iter().any(Frame::has_offload_state);
    if open && engine.batch.frames.iter().any(Frame::is_segmented) {
        return false;
    }
    let mut frames = std::mem::take(&mut engine.batch.frames);
    let unfit = match program.rewrite() {
        Some(rewrite) => cpu::stage(RewriteAll { rewrite, frames: &mut frames }),
        None => 0,
    };
    if unfit != 0 || open && !finish_sums(&mut frames) {
        run_each(engine, frames, unfit, |_| Some(program));
        return true;
    }
    let mut group = open_group(engine, frames);
    push_finished(engine, push, &mut group);
    send_group(engine, port, group);
    true
}

/// Computes the checksums that senders left open. Returns `false` if a frame does not fit what is noted of it; the general path drops it.
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

/// Takes these frames of the batch, with their metadata, into a group.
#[inline]
fn open_group(engine: &mut Engine, frames: FrameBatch) -> Group {
    let mut group = engine.kept.groups_free.pop().unwrap_or_default();
    // The batch keeps the memory of the group's frames.
    engine.batch.frames = std::mem::replace(&mut group.frames, frames);
    std::mem::swap(&mut group.own, &mut engine.batch.own);
    group
}

/// Sends the frames of a group.
#[inline]
fn send_group(engine: &mut Engine, port: u32, mut group: Group) {
    group.own.clear();
    engine.send_all(port, &mut group.frames);
    engine.kept.groups_free.push(group);
}

/// Executes each frame's program on the frame alone. A set bit marks a frame that the first rewrite of its program does not fit; the
/// others are rewritten already.
#[cold]
fn run_each<'g>(
    engine: &mut Engine,
    mut frames: FrameBatch,
    unfit: u64,
    program: impl Fn(usize) -> Option<&'g Program>,
) {
    for (i, frame) in frames.drain(..).enumerate() {
        let ops = match program(i) {
            Some(program) if unfit >> (i % BATCH) & 1 == 0 => behind_rewrite(program),
            program => program.map_or(&[][..], |program| &program.ops),
        };
        run_one(engine, ops, i, frame);
    }
    engine.batch.frames = frames;
}
