//! The queues of a dummy.

use super::state::DummyHandle;
use packet::frame::{FrameBatch, FramePool};
use packet::queue::{RxQueue, RxResult, TxQueue, TxResult};

const ETHERNET_HEADER: usize = 14;
const VLAN_BYTES: usize = 4;
const ETHERTYPE_VLAN: [u8; 2] = [0x81, 0x00];

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
                Some(frame) => out.push(frame),
                None => result.dropped += 1,
            }
        }
        result.more = queue.waiting() > 0;
        result
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
            if frame.offload().gso.is_none() && frame.len() > longest(frame.bytes(), mtu) {
                result.too_long += 1;
                continue;
            }
            let offload = frame.offload();
            match offload.finish(frame.bytes_mut(), |packet| state.sent(packet, self.qid)) {
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

/// The longest frame of this kind that the MTU allows.
fn longest(frame: &[u8], mtu: usize) -> usize {
    let tag = if frame.get(12..14) == Some(&ETHERTYPE_VLAN) { VLAN_BYTES } else { 0 };
    mtu + ETHERNET_HEADER + tag
}
