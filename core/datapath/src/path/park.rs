//! Park: packets without a megaflow are parked, and upcalls are sent for them. Later packets of their flows wait behind
//! them until the answer.
//!
//! Three rules keep the order of a flow:
//!
//! 1. Before a batch is looked up, its packets of parked flows are parked behind them ([`join_parked`]).
//! 2. After a miss, later packets of the same flow in the batch are misses too, even if their look-up finds a
//!    megaflow: it may have been published between the two look-ups ([`hold_back`]).
//! 3. The packets of an answered flow continue together, each looked up again, before other packets are
//!    received ([`answers`](super::answers)).
//!
//! Only ports with parked packets pay for this: without parked packets, each batch costs one comparison.

use super::megaflow_guard::MegaflowGuard;
use super::translate_inline::{self, drop_untranslated};
use crate::batch::{BATCH, NONE};
use crate::engine::Engine;
use crate::engine::parking::Parking;
use crate::flow_hash::flow_hash;
use crate::packet::Packet;
use crate::shared::Shared;
use crate::tally::Event;
use crate::upcalls::Request;
use cpu::KeyedHash64;
use dpif::DropReason;
use std::sync::Arc;
use units::Millis;

/// Begins an iteration: checks whether a handler exists, and collects answers. Returns true if [`answers`](super::answers)
/// must be processed.
#[inline]
pub(crate) fn begin(shared: &Shared, engine: &mut Engine) -> bool {
    let Some(parking) = &mut engine.parking else { return false };
    parking.has_handler_thread = shared.upcalls.has_handler_thread();
    parking.inbox.take(&mut parking.answers) || (!parking.has_handler_thread && !parking.park.is_empty())
}

/// Ends an iteration: queues upcalls, and passes the programs and owners that the worker no longer needs to handlers, which free them.
/// Returns true if the queue was locked: then the worker must not sleep, because its upcalls are not queued yet.
#[inline]
pub(crate) fn send_upcalls(shared: &Shared, engine: &mut Engine) -> bool {
    let Some(parking) = &mut engine.parking else { return false };
    !(parking.outbox.is_empty() && parking.unneeded.is_empty()) && submit(shared, parking)
}

#[inline(never)]
fn submit(shared: &Shared, parking: &mut Parking) -> bool {
    let Parking { outbox, unneeded, has_handler_thread, .. } = parking;
    if !*has_handler_thread {
        unneeded.clear();
    }
    let any = !outbox.is_empty() || !unneeded.is_empty();
    any && !shared.upcalls.submit(outbox, unneeded)
}

/// Parks the packets of the batch whose flow is parked, behind the earlier packets of the flow.
#[inline]
pub(crate) fn join_parked(shared: &Shared, guard: &MegaflowGuard<'_>, engine: &mut Engine, now: Millis) {
    let Engine { batch, parking: Some(parking), .. } = engine else { return };
    if parking.park.is_empty() || batch.is_empty() || !parking.park.any_of(batch.meta(0).in_port) {
        return;
    }
    batch.spread_metadata();
    let mut flow_hashes = [0; BATCH];
    let mut any = false;
    for (i, hash) in flow_hashes.iter_mut().enumerate().take(batch.len()) {
        *hash = flow_hash(batch.frames[i].bytes(), batch.meta(i), &shared.secrets.flow_hash);
        any |= parking.park.waits(*hash);
    }
    if any {
        park_packets_of_parked_flows(shared, guard, engine, &flow_hashes, now);
    }
}

fn park_packets_of_parked_flows(
    shared: &Shared,
    guard: &MegaflowGuard<'_>,
    engine: &mut Engine,
    flow_hashes: &[u64; BATCH],
    now: Millis,
) {
    let mut frames = std::mem::take(&mut engine.batch.frames);
    let own = std::mem::take(&mut engine.batch.own);
    // The remaining packets move to other indices in the batch, so the keys that are stored by index become invalid.
    engine.batch.known_depth = None;
    let mut own = own.into_iter();
    for (frame, &flow_hash) in frames.drain(..).zip(flow_hashes) {
        let meta = own.next();
        // If an earlier packet reached a limit, the flow may no longer be in the park. Then later packets are processed as usual.
        if engine.parking.as_ref().is_some_and(|p| p.park.waits(flow_hash)) {
            let meta = meta.unwrap_or_else(|| engine.batch.common.clone());
            park_behind(shared, guard, engine, flow_hash, Packet::new(frame, meta), now);
        } else {
            engine.batch.frames.push(frame);
            engine.batch.own.extend(meta);
        }
    }
    engine.batch.bytes = engine.batch.frames.iter().map(|f| f.len() as u64).sum();
}

/// Adds a packet to a parked flow. If a limit is reached, the flow's packets are translated inline, or the packet is
/// dropped.
fn park_behind(
    shared: &Shared,
    guard: &MegaflowGuard<'_>,
    engine: &mut Engine,
    flow_hash: u64,
    packet: Packet,
    now: Millis,
) {
    let Some(parking) = &mut engine.parking else { return };
    let appended = parking.park.append(flow_hash, packet);
    parking.overflow += u64::from(appended.is_err());
    match appended {
        Ok(()) => engine.tally.add(Event::Parked, 1),
        Err(packet) if parking.budget.is_left() => {
            if let Some(mut before) = parking.park.take(flow_hash) {
                engine.tally.add(Event::Unparked, before.len() as u64);
                before
                    .drain(..)
                    .for_each(|p| translate_inline::translate_charged(shared, guard, engine, p, false, now));
            }
            translate_inline::translate_charged(shared, guard, engine, packet, false, now);
        }
        Err(packet) => drop_untranslated(engine, packet, DropReason::UpcallBacklog),
    }
}

/// Turns hits into misses for packets that were found although an earlier packet of the same flow was not. `recent`
/// and `cached` tell which stage found the packets: their hits are subtracted from the counters, because these
/// packets are looked up again.
pub(crate) fn hold_back(
    engine: &mut Engine,
    secret: &KeyedHash64,
    (recent, cached): (u64, u64),
    pending: &mut u64,
) {
    let after_first = u64::MAX.checked_shl(pending.trailing_zeros()).unwrap_or(0);
    let mut found = engine.batch.key_bits() & !*pending & after_first;
    if *pending == 0 || found == 0 {
        return;
    }
    let mut misses: Vec<u64> = Vec::with_capacity(BATCH);
    for i in pending.trailing_zeros() as usize..engine.batch.len() {
        let flow = flow_hash(engine.batch.frames[i].bytes(), engine.batch.meta(i), secret);
        if *pending >> i & 1 == 1 {
            misses.push(flow);
        } else if misses.contains(&flow) {
            engine.batch.found[i] = NONE;
            *pending |= 1 << i;
            let events: &[Event] = match (recent >> i & 1, cached >> i & 1) {
                (1, _) => &[Event::CacheHit, Event::FrontHit],
                (_, 1) => &[Event::CacheHit],
                _ => &[Event::MegaflowHit],
            };
            events.iter().for_each(|&event| engine.tally.subtract(event, 1));
        }
        found &= !(1 << i);
        if found == 0 {
            break;
        }
    }
}

/// Parks a packet that has no megaflow and sends an upcall, unless its flow already has an upcall. If the packet
/// cannot be parked, the worker translates it within its upcall budget.
pub(crate) fn miss(
    shared: &Shared,
    guard: &MegaflowGuard<'_>,
    engine: &mut Engine,
    packet: Packet,
    counted_hit: bool,
    now: Millis,
) {
    // A parked packet outlives this iteration, so its tail must be copied.
    packet.frame.complete();
    let (flow_hash, in_port) =
        (flow_hash(packet.frame.bytes(), &packet.meta, &shared.secrets.flow_hash), packet.meta.in_port);
    let Some(parking) = &mut engine.parking else { return };
    if parking.park.waits(flow_hash) {
        return park_behind(shared, guard, engine, flow_hash, packet, now);
    }
    if parking.park.may_park_new_flow(in_port) {
        let (mut bytes, meta) = (parking.packet_buffers.pop().unwrap_or_default(), packet.meta.clone());
        bytes.clear();
        bytes.extend_from_slice(packet.frame.bytes());
        let ticket = parking.park.open(in_port, flow_hash, packet);
        let (worker, inbox) = (engine.id, Some(Arc::clone(&parking.inbox)));
        parking.outbox.push(Request { flow_hash, ticket, bytes, meta, now, worker, inbox });
        engine.tally.add(Event::Parked, 1);
        return;
    }
    parking.overflow += 1;
    if parking.budget.is_left() {
        translate_inline::translate_charged(shared, guard, engine, packet, counted_hit, now);
    } else {
        drop_untranslated(engine, packet, DropReason::UpcallBacklog);
    }
}

/// Translates all parked packets of a port (`None`: of all ports) inline. Answers that arrive later find no entry and
/// are ignored.
pub(crate) fn translate_parked(
    shared: &Shared,
    guard: &MegaflowGuard<'_>,
    engine: &mut Engine,
    port: Option<u32>,
    now: Millis,
) {
    let Some(parking) = &mut engine.parking else { return };
    for packets in parking.park.take_port(port) {
        engine.tally.add(Event::Unparked, packets.len() as u64);
        packets
            .into_iter()
            .for_each(|p| translate_inline::translate_charged(shared, guard, engine, p, false, now));
    }
}

/// Drops all parked packets of a port (`None`: of all ports).
pub(crate) fn drop_parked(engine: &mut Engine, port: Option<u32>) {
    let Some(parking) = &mut engine.parking else { return };
    for packets in parking.park.take_port(port) {
        engine.tally.add(Event::Unparked, packets.len() as u64);
        // The buffers are freed at once, because no iteration follows in which dropped packets would be freed.
        for packet in packets {
            engine.drop_part(&packet, DropReason::PortRemoved);
            engine.pool.free(packet.frame);
        }
    }
}
