//! Drop run: consecutive packets of a batch that are dropped for the same reason are counted and freed together.

use super::execute_frames::drop_frames;
use crate::engine::Engine;
use crate::engine::groups::Group;
use crate::port::Frame;
use dpif::DropReason;

/// The packets of a batch that were dropped last, all for the same reason. [`end`](DropRun::end) must be called
/// before the batch changes.
#[derive(Default)]
pub(super) struct DropRun {
    group: Group,
    reason: Option<DropReason>,
    /// Index in the batch of the packet that was dropped last.
    last: usize,
}

impl DropRun {
    /// Drops packet `i` of the batch.
    #[inline]
    pub(super) fn add(&mut self, engine: &mut Engine, i: usize, frame: Frame, reason: DropReason) {
        let in_port = engine.batch.common.in_port;
        if !engine.batch.own.is_empty() || engine.drops.needs_all(std::iter::once(in_port)) {
            let packet = engine.batch.packet(i, frame);
            return engine.drop_packet(packet, reason);
        }
        if self.reason != Some(reason) {
            self.change_reason(engine, reason);
        }
        self.group.frames.push(frame);
        self.last = i;
    }

    #[cold]
    fn change_reason(&mut self, engine: &mut Engine, reason: DropReason) {
        match self.reason.replace(reason) {
            None => self.group = engine.free_lists.free_groups.pop().unwrap_or_default(),
            Some(before) => self.flush(engine, before),
        }
    }

    fn flush(&mut self, engine: &mut Engine, reason: DropReason) {
        let in_port = engine.batch.common.in_port;
        drop_frames(engine, &mut self.group.frames, (in_port, reason), |engine, _, frame| {
            engine.batch.packet(self.last, frame)
        });
    }

    /// Counts and frees the packets that were dropped last.
    #[inline]
    pub(super) fn end(mut self, engine: &mut Engine) {
        if let Some(reason) = self.reason {
            self.flush(engine, reason);
            engine.free_lists.free_groups.push(self.group);
        }
    }
}
