//! Captured queue: a tx queue of a captured port, in front of a queue of its device.

use super::offered::{Offered, Side};
use super::set::Captures;
use crate::egress_qos::{CountedQueue, DeviceQueues};
use crate::packet::Meta;
use crate::port::{FrameBatch, TxQueue, TxResult};
use crate::port_count::PortCount;
use std::sync::{Arc, MutexGuard, PoisonError};

/// Offers each frame to the captures of its port before the device gets the frame. Frames that the device then
/// refuses are also captured as drops.
pub(crate) struct CapturedQueue {
    captures: Arc<Captures>,
    device: DeviceQueues,
    port: u32,
    at: usize,
    /// A copy of the frame that the device last refused.
    refused: Option<Vec<u8>>,
}

impl CapturedQueue {
    /// Makes one queue for each queue of the device; `sent` counts the packets that the port sends.
    pub(crate) fn all(
        captures: &Arc<Captures>,
        port: u32,
        device: &DeviceQueues,
        sent: &PortCount,
    ) -> DeviceQueues {
        let queue = |at| CapturedQueue {
            captures: Arc::clone(captures),
            device: Arc::clone(device),
            port,
            at,
            refused: None,
        };
        (0..device.len()).map(|at| CountedQueue::with_lock(Box::new(queue(at)), sent)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, CountedQueue> {
        self.device[self.at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(
        &mut self,
        frames: &mut FrameBatch,
        send: impl FnOnce(&mut dyn TxQueue, &mut FrameBatch) -> TxResult,
    ) -> TxResult {
        let meta = Meta::default();
        for frame in frames.iter() {
            let (side, port, bytes) = (Side::Tx, self.port, frame.bytes());
            self.captures
                .offer(self.at, &Offered { side, port, bytes, meta: &meta, megaflow: None, upcall: false });
        }
        let n = frames.len();
        let mut device = self.lock();
        let result = send(&mut *device.queue, frames);
        let refused = match (result.sent as usize) < n {
            true => device.queue.refused().map(<[u8]>::to_vec),
            false => None,
        };
        drop(device);
        self.refused = refused;
        result
    }
}

impl TxQueue for CapturedQueue {
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
        self.pass(frames, |device, frames| device.tx(frames))
    }

    fn accepts_large(&self) -> bool {
        self.lock().queue.accepts_large()
    }

    fn tx_queued(&mut self, frames: &mut FrameBatch, queues: &[u32]) -> TxResult {
        self.pass(frames, |device, frames| device.tx_queued(frames, queues))
    }

    fn refused(&self) -> Option<&[u8]> {
        self.refused.as_deref()
    }
}
