//! Answers: when an upcall is answered, the parked packets of its flow continue together, each looked up again.

use super::megaflow_guard::MegaflowGuard;
use super::{capture, execute, park, pass_all, translate_inline};
use crate::batch::BATCH;
use crate::engine::Engine;
use crate::packet::Packet;
use crate::shared::Shared;
use crate::tally::Event;
use crate::upcalls::{Answer, Outcome};
use dpif::FlowStats;
use std::collections::VecDeque;
use units::Millis;

/// Processes answers. If no handler exists, the worker translates all parked packets inline.
pub(crate) fn stage(shared: &Shared, guard: &MegaflowGuard<'_>, engine: &mut Engine, now: Millis) {
    let Some(parking) = &mut engine.parking else { return };
    let mut answers = std::mem::take(&mut parking.answers);
    let left = !parking.has_handler_thread && !parking.park.is_empty();
    for answer in answers.drain(..) {
        handle_answer(shared, guard, engine, answer, now);
    }
    if let Some(parking) = &mut engine.parking {
        parking.answers = answers;
        if left {
            parking.outbox.clear();
            park::translate_parked(shared, guard, engine, None, now);
        }
    }
}

fn handle_answer(
    shared: &Shared,
    guard: &MegaflowGuard<'_>,
    engine: &mut Engine,
    answer: Answer,
    now: Millis,
) {
    let Some(parking) = &mut engine.parking else { return };
    if parking.packet_buffers.len() < BATCH {
        parking.packet_buffers.push(answer.bytes);
    }
    let Some(mut packets) = parking.park.answered(answer.flow_hash, answer.ticket) else { return };
    engine.tally.add(Event::Unparked, packets.len() as u64);
    match answer.outcome {
        Outcome::LookUpAgain => {}
        Outcome::Run { program, owner, tcp_flags } => {
            if let Some(packet) = packets.pop_front() {
                capture::missed(engine, &packet);
                engine.tally.add(Event::Missed, 1);
                let bytes = packet.frame.len() as u64;
                owner.credit(&FlowStats { packets: 1, bytes, used: Some(now), tcp_flags });
                let mut group = engine.free_lists.packet_list();
                group.push(packet);
                execute::run(engine, &program, &mut group);
                engine.free_lists.return_list(group);
            }
            if let Some(parking) = &mut engine.parking {
                parking.unneeded.push((program, owner));
            }
        }
        Outcome::Failed(reason) => {
            if let Some(packet) = packets.pop_front() {
                translate_inline::drop_untranslated(engine, packet, reason);
            }
        }
        Outcome::Unserved => {
            if let Some(packet) = packets.pop_front() {
                translate_inline::translate_charged(shared, guard, engine, packet, false, now);
            }
        }
    }
    replay(shared, guard, engine, &mut packets, now);
    if let Some(parking) = &mut engine.parking {
        parking.park.give_back(packets);
    }
}

/// Processes parked packets in their order.
fn replay(
    shared: &Shared,
    guard: &MegaflowGuard<'_>,
    engine: &mut Engine,
    packets: &mut VecDeque<Packet>,
    now: Millis,
) {
    while let Some(in_port) = packets.front().map(|p| p.meta.in_port) {
        while engine.batch.len() < BATCH
            && let Some(p) = packets.pop_front_if(|p| p.meta.in_port == in_port)
        {
            engine.batch.push(p.into());
        }
        let port_megaflows = shared.megaflow_table.port_megaflows(in_port);
        pass_all(shared, guard, port_megaflows.as_deref(), engine, now);
    }
}
