//! Translates inline: the worker itself calls the control half to translate a packet.
//!
//! The first packet of a flow creates the megaflow. Later packets of this flow in the batch find it, because each packet
//! is looked up again, with all its fields, before it is translated. The first packet is credited to the owner at once
//! and is not counted by the megaflow: as in Open vSwitch, a flow that only one packet has used shows `packets:0,
//! used:never`.

use super::extract::wide_key;
use super::megaflow_guard::MegaflowGuard;
use super::{capture, execute, recent};
use crate::engine::Engine;
use crate::flows::{MissOrigin, NewFlow, PublishResult};
use crate::packet::Packet;
use crate::program::Program;
use crate::shared::{LockWait, Shared};
use crate::tally::Event;
use dpif::{DropReason, FlowStats, Translation, Upcall};
use units::Millis;

/// Translates a packet inline while handlers exist. The time is charged to the upcall budget.
pub(super) fn translate_charged(
    shared: &Shared,
    guard: &MegaflowGuard<'_>,
    engine: &mut Engine,
    packet: Packet,
    counted_hit: bool,
    now: Millis,
) {
    let start = (engine.clocks.counter)();
    translate(shared, guard, engine, packet, counted_hit, now);
    let took = (engine.clocks.counter)() - start;
    if let Some(parking) = &mut engine.parking {
        parking.budget.spend(took.0);
    }
}

/// Translates a packet, unless a megaflow for it has been published meanwhile.
pub(super) fn translate(
    shared: &Shared,
    guard: &MegaflowGuard<'_>,
    engine: &mut Engine,
    packet: Packet,
    counted_hit: bool,
    now: Millis,
) {
    capture::missed(engine, &packet);
    let (key, flags) = wide_key(packet.frame.bytes(), &packet.meta);
    let (index, visited) = shared.megaflow_table.lookup(packet.meta.in_port, guard, &key);
    if let Some((index, megaflow)) = index.and_then(|i| Some((i, guard.get(i)?))) {
        // If the packet's megaflow was removed between two stages, the first stage has already counted a hit.
        if !counted_hit {
            engine.tally.add(Event::MegaflowHit, 1);
            engine.tally.add(Event::MasksVisited, u64::from(visited));
        }
        engine.lane.count(index, 1, packet.frame.len() as u64, now.0 as u32, flags);
        return execute_packet(engine, &megaflow.payload, packet);
    }
    let flow = packet.flow();
    let translation = match &*engine.view.handler {
        Some(handler) => {
            handler.miss(Upcall { packet: packet.frame.bytes(), flow: &flow, now, worker: engine.id })
        }
        None => Translation::failed(DropReason::UpcallError),
    };
    if let Some(reason) = translation.error {
        return drop_untranslated(engine, packet, reason);
    }
    engine.tally.add(Event::Missed, 1);
    // The packet that creates a megaflow is not counted by this megaflow.
    let len = packet.frame.len() as u64;
    let mut found = None;
    if translation.install
        && let Some(handler) = engine.view.handler.as_deref()
    {
        let miss_origin = MissOrigin { worker: engine.id, at: now };
        let new = (translation.version, NewFlow::of_miss(&flow, &key, &translation, miss_origin));
        let lock_wait = if engine.has_handler_thread() { LockWait::Bounded } else { LockWait::Unbounded };
        let mut published = None;
        shared.publish(std::iter::once(new), handler, lock_wait, |p| published = p);
        match published {
            Some(PublishResult::Existing(index)) => {
                if let Some(megaflow) = guard.get(index) {
                    engine.lane.count(index, 1, len, now.0 as u32, flags);
                    return execute_packet(engine, &megaflow.payload, packet);
                }
            }
            Some(PublishResult::New(index, flow)) => {
                flow.iter().for_each(|f| handler.flow_added(f));
                found = guard.get(index);
                recent::record_last_for(engine, (packet.meta.in_port, packet.meta.passes), index);
            }
            None => {}
        }
    }
    translation.owner.credit(&FlowStats { packets: 1, bytes: len, used: Some(now), tcp_flags: flags });
    match found.filter(|_| translation.slow_path.is_none()) {
        Some(megaflow) => execute_packet(engine, &megaflow.payload, packet),
        None => execute_packet(engine, &Program::compile(&translation.actions), packet),
    }
}

/// Drops a packet that could not be translated.
pub(super) fn drop_untranslated(engine: &mut Engine, packet: Packet, reason: DropReason) {
    engine.tally.add(Event::Lost, 1);
    engine.drop_packet(packet, reason);
}

pub(super) fn execute_packet(engine: &mut Engine, program: &Program, packet: Packet) {
    let mut group = engine.free_lists.packet_list();
    group.push(packet);
    execute::run(engine, program, &mut group);
    engine.free_lists.return_list(group);
}
