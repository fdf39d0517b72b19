//! The queues of a dummy device.

use super::state::DummyHandle;
use crate::kernel_port_state::{ETHERNET_HEADER, longest};
use packet::frame::{Frame, FrameBatch, FramePool};
use packet::offload::{Gso, Offload, PartialChecksum};
use packet::queue::{RxQueue, RxResult, TxQueue, TxResult};
use packet::segment;

pub(super) struct DummyRx {
    pub device: DummyHandle,
    pub qid: usize,
    pub generation: u64,
}

impl RxQueue for DummyRx {
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, max: usize) -> RxResult {
        let mut result = RxResult::default();
        let mut guard = self.device.lock();
        let state = &mut *guard;
        if state.ended || state.generation != self.generation {
            return result;
        }
        let Some(queue) = state.rxqs.get_mut(self.qid) else { return result };
        for _ in 0..max {
            let Some(bytes) = queue.pop() else { break };
            state.totals.rx.add(bytes.len());
            queue.count.add(bytes.len());
            match pool.frame_of(&bytes) {
                Some(mut frame) => {
                    state.checksums.mark_received(&mut frame);
                    request_segmentation(&mut frame, state.segment_size);
                    out.push(frame);
                }
                None => result.dropped += 1,
            }
        }
        result.more = queue.waiting() > 0;
        result
    }
}

/// Requests segmentation of a TCP frame with more than `size` bytes of payload, as a kernel would; 0: never.
fn request_segmentation(frame: &mut Frame, size: u16) {
    let layout = segment::layout(frame.bytes()).filter(|_| size > 0);
    let Some((layout, kind)) = layout.and_then(|layout| Some((layout, layout.kind()?))) else { return };
    let (Ok(start), Some(offset)) = (u16::try_from(layout.l4), layout.checksum_offset()) else { return };
    let csum = Some(PartialChecksum { start, offset });
    let offload_request = Offload { csum, gso: Some(Gso { kind, size, ecn: false }) };
    let is_long =
        offload_request.fits(frame.bytes()) && offload_request.longest_segment(frame.bytes()) < frame.len();
    if kind.is_tcp() && is_long && segment::make_partial_checksum(frame.bytes_mut()).is_some() {
        frame.set_offload(offload_request);
    }
}

pub(super) struct DummyTx {
    pub device: DummyHandle,
    pub qid: usize,
}

impl TxQueue for DummyTx {
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
        let mut result = TxResult::default();
        let mut state = self.device.lock();
        for frame in frames.iter_mut() {
            let mtu = state.mtu as usize;
            if state.ended || frame.len() < ETHERNET_HEADER {
                result.dropped += 1;
                continue;
            }
            let bytes = frame.len() as u64;
            let mut offload = frame.offload();
            if offload.longest_segment(frame.bytes()) > longest(frame.bytes(), mtu) {
                result.too_long += 1;
                continue;
            }
            if state.segment_size > 0 {
                offload.gso = None;
            }
            if let Some(stated) = frame.rx_checksums() {
                state.checksums.change_sent(frame.bytes_mut(), stated);
            }
            match offload.finish(frame.bytes_mut(), |packet| state.handle_sent(packet, self.qid)) {
                Some(_) => {
                    result.sent += 1;
                    result.sent_bytes += bytes;
                }
                None => result.dropped += 1,
            }
        }
        result
    }
}
