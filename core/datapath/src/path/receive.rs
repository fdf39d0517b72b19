//! Receive: a burst of one rx queue becomes a batch.

use crate::engine::Engine;
use crate::packet::{Meta, Packet};
use crate::port::{RX_BURST, RxQueue};
use crate::tally::Event;
use dpif::DropReason;

/// The shortest frame that is one: an Ethernet header.
const SHORTEST: usize = 14;

/// Fills the engine's batch; the number of packets the queue gave.
pub(crate) fn stage(queue: &mut dyn RxQueue, in_port: u32, engine: &mut Engine) -> usize {
    let mut frames = std::mem::take(&mut engine.frames);
    let result = queue.rx(&mut engine.pool, &mut frames, RX_BURST);
    let n = frames.len();
    let mut bytes = 0;
    let vlan_limit = engine.vlan_limit;
    for frame in frames.drain(..) {
        bytes += frame.len() as u64;
        if frame.len() < SHORTEST {
            engine.tally.drop(DropReason::RxInvalidPacket, 1);
            engine.pool.free(frame);
        } else {
            engine
                .batch
                .packets
                .push(Some(Packet::new(frame, Meta { vlan_limit, ..Meta::received(in_port) })));
        }
    }
    engine.frames = frames;
    let lost = u64::from(result.dropped);
    engine.tally.add(Event::Received, n as u64 + lost);
    engine.tally.drop(DropReason::RxInvalidPacket, lost);
    if n > 0
        && let Some(port) = engine.ports.get(in_port)
    {
        port.rx.add(n as u64, bytes);
    }
    n
}
