//! Group: the packets of each megaflow are counted and executed together.
//!
//! Packets of one flow keep their order; flows are taken in the order of their first packet.

use super::{Megaflows, execute};
use crate::batch::NONE;
use crate::engine::Engine;
use units::Millis;

/// Executes all packets of the batch that have a megaflow.
pub(crate) fn stage(guard: &Megaflows<'_>, engine: &mut Engine, now: Millis) {
    let n = engine.batch.len();
    for first in 0..n {
        let index = engine.batch.found[first];
        if index == NONE || engine.batch.packets[first].is_none() {
            continue;
        }
        // Found under this guard, so it is still there unless it was removed since; then the packet is a miss.
        let Some(megaflow) = guard.get(index) else { continue };
        let mut group = engine.list();
        let (mut bytes, mut flags) = (0, 0);
        for i in first..n {
            if engine.batch.found[i] == index
                && let Some(packet) = engine.batch.packets[i].take()
            {
                bytes += packet.frame.len() as u64;
                flags |= engine.batch.tcp_flags[i];
                group.push(packet);
            }
        }
        engine.lane.count(index, group.len() as u32, bytes, now.0 as u32, flags);
        execute::run(engine, &megaflow.payload, &mut group);
        engine.give_back(group);
    }
}
