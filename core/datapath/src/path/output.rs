//! Output: adds frames to the bursts of their ports. A burst is sent when it is full.

use super::prepare::truncate;
use super::transmit;
use crate::engine::Engine;
use crate::engine::bursts::TX_BURST;
use crate::last_drop::DropPort;
use crate::packet::Packet;
use crate::port::{Frame, FrameBatch};
use crate::tally::Event;
use dpif::DropReason;

impl Engine {
    /// Adds a copy of a frame to the port's burst.
    #[inline]
    pub(crate) fn send_copy(&mut self, frame: &Frame, port: u32) {
        // Queue 0 means that no QoS queue is selected.
        self.enqueue_copy(frame, port, 0);
    }

    /// Adds a copy of a frame to the burst of a QoS queue.
    #[inline]
    pub(crate) fn enqueue_copy(&mut self, frame: &Frame, port: u32, queue: u32) {
        self.tally.add(Event::Created, 1);
        match self.pool.copy_of(frame) {
            Some(copy) => self.enqueue(port, queue, copy),
            None => self.no_copy(frame, port),
        }
    }

    /// Adds a copy of each frame of a batch to the port's burst.
    pub(crate) fn send_copies(&mut self, frames: &[Frame], port: u32) {
        if self.output(port).is_none() {
            return frames.iter().for_each(|frame| self.send_copy(frame, port));
        }
        self.tally.add(Event::Created, frames.len() as u64);
        let at = port as usize;
        for frame in frames {
            match self.pool.copy_of(frame) {
                Some(copy) => self.bursts.outputs[at].push(copy),
                None => self.no_copy(frame, port),
            }
        }
        if self.bursts.outputs[at].len() >= TX_BURST {
            transmit::send(self, port);
        }
    }

    #[cold]
    fn no_copy(&mut self, frame: &Frame, port: u32) {
        self.tally.count_drops(DropReason::NoBuffer, 1);
        self.drops.ports.count(DropPort::Out(port), DropReason::NoBuffer, 1);
        self.drops.log_unsent(frame.bytes(), DropReason::NoBuffer, port, self.now);
    }

    /// Drops frames for a port that does not exist.
    #[cold]
    fn drop_for_missing_port(&mut self, port: u32, frames: impl Iterator<Item = Frame>) {
        for frame in frames {
            self.tally.count_drops(DropReason::InvalidPort, 1);
            self.drops.ports.count(DropPort::Out(port), DropReason::InvalidPort, 1);
            self.drops.log_unsent(frame.bytes(), DropReason::InvalidPort, port, self.now);
            self.pool.free(frame);
        }
    }

    /// Adds a frame to the port's burst.
    #[inline(always)]
    pub(crate) fn add_to_burst(&mut self, port: u32, frame: Frame) {
        match self.bursts.outputs.get_mut(port as usize) {
            Some(output) if (1..TX_BURST - 1).contains(&output.len()) => output.push(frame),
            _ => self.add_first_or_last(port, frame),
        }
    }

    /// [`add_to_burst`](Self::add_to_burst) for the first or the last frame of a burst.
    #[inline(never)]
    fn add_first_or_last(&mut self, port: u32, frame: Frame) {
        let Some(output) = self.output(port) else {
            return self.drop_for_missing_port(port, std::iter::once(frame));
        };
        output.push(frame);
        if output.len() >= TX_BURST {
            transmit::send(self, port);
        }
    }

    /// Adds a frame to the burst of a QoS queue. `queue` 0: no QoS queue was selected.
    #[inline]
    pub(crate) fn enqueue(&mut self, port: u32, queue: u32, frame: Frame) {
        if queue == 0 || !self.has_queues(port) {
            return self.add_to_burst(port, frame);
        }
        transmit::send_queued(self, port, queue, frame);
    }

    /// Adds all these frames to the burst of a QoS queue. `queue` 0: no QoS queue was selected.
    pub(crate) fn enqueue_all(&mut self, port: u32, queue: u32, frames: &mut FrameBatch) {
        if queue == 0 || !self.has_queues(port) {
            return self.send_all(port, frames);
        }
        frames.drain(..).for_each(|frame| transmit::send_queued(self, port, queue, frame));
    }

    /// Returns whether frames of the port may select a QoS queue.
    fn has_queues(&self, port: u32) -> bool {
        self.view.ports.get(port).is_some_and(|port| port.has_queues())
    }

    /// Adds these frames to the port's burst, which may then exceed [`TX_BURST`].
    pub(crate) fn send_each(&mut self, port: u32, frames: impl Iterator<Item = Frame>) {
        match self.output(port) {
            Some(output) => output.extend(frames),
            None => return self.drop_for_missing_port(port, frames),
        }
        if self.bursts.outputs[port as usize].len() >= TX_BURST {
            transmit::send(self, port);
        }
    }

    /// Adds all these frames to the port's burst.
    pub(crate) fn send_all(&mut self, port: u32, frames: &mut FrameBatch) {
        let Some(output) = self.output(port) else {
            return self.drop_for_missing_port(port, frames.drain(..));
        };
        if append_burst(output, frames) {
            transmit::send(self, port);
        }
    }

    /// Adds all frames of the batch to the port's burst.
    #[inline(always)]
    pub(crate) fn send_batch(&mut self, port: u32) {
        if self.output(port).is_none() {
            return self.no_port_of_batch(port);
        }
        let (output, frames) = (&mut self.bursts.outputs[port as usize], &mut self.batch.frames);
        if append_burst(output, frames) {
            transmit::send(self, port);
        }
    }

    #[cold]
    fn no_port_of_batch(&mut self, port: u32) {
        let mut frames = std::mem::take(&mut self.batch.frames);
        self.drop_for_missing_port(port, frames.drain(..));
        self.batch.frames = frames;
    }

    /// Returns the burst of a port to which a frame will be added. `None` if the port does not exist and no port with
    /// this or a larger number has been used. Frames for other missing ports are dropped when their burst is sent.
    #[inline(always)]
    fn output(&mut self, port: u32) -> Option<&mut FrameBatch> {
        let at = port as usize;
        match self.bursts.outputs.get(at) {
            Some(output) if !output.is_empty() => {}
            Some(_) => self.bursts.mark_waiting(port),
            None => self.add_port(port)?,
        }
        self.bursts.outputs.get_mut(at)
    }

    /// Extends the bursts up to this port. Returns `None` if the port does not exist.
    #[cold]
    fn add_port(&mut self, port: u32) -> Option<()> {
        self.view.ports.get(port)?;
        self.bursts.outputs.resize_with(port as usize + 1, Vec::new);
        self.bursts.mark_waiting(port);
        Some(())
    }
}

pub(super) fn output(engine: &mut Engine, port: u32, p: Packet) {
    let queue = p.meta.skb_priority;
    enqueue(engine, port, queue, p);
}

/// Sends a packet by a QoS queue.
pub(super) fn enqueue(engine: &mut Engine, port: u32, queue: u32, mut p: Packet) {
    truncate(&mut p);
    engine.enqueue(port, queue, p.frame);
}

/// Moves frames to the burst of a port. Returns whether the burst is full and must be sent.
#[inline(always)]
fn append_burst(output: &mut FrameBatch, frames: &mut FrameBatch) -> bool {
    if output.is_empty() {
        std::mem::swap(output, frames);
    } else {
        output.append(frames);
    }
    output.len() >= TX_BURST
}
