//! Park: packets without a megaflow are parked and upcalls are sent for them; later packets of their flows
//! wait behind them until the answer.
//!
//! Three rules keep the order of a flow. Before a batch is looked up, packets whose flow is parked join it
//! ([`waiting`]). A packet that was found after a packet of the same flow that was not becomes a miss as
//! well, because a megaflow may have been published between the two look-ups ([`hold_back`]). And the packets
//! of an answered flow continue together, each looked up again, before anything else is received
//! ([`answers`]).
//!
//! Only ports that have parked packets pay for this: without them, each batch costs a comparison.

use super::{Megaflows, execute, pass_all, upcall};
use crate::batch::{BATCH, NONE};
use crate::engine::Engine;
use crate::packet::Packet;
use crate::park::{Limits, Park};
use crate::shared::Shared;
use crate::tally::Event;
use crate::tuple::tuple;
use crate::upcall_budget::UpcallBudget;
use crate::upcalls::{Answer, Inbox, Outcome, Request, Spent, Wake};
use cpu::Chain;
use dpif::{DropReason, FlowStats};
use std::collections::VecDeque;
use std::sync::Arc;
use units::Millis;

/// State of a worker that parks misses.
pub(crate) struct Parking {
    pub(crate) park: Park<Packet>,
    pub(crate) budget: UpcallBudget,
    /// Upcalls that are not in the queue yet.
    outbox: Vec<Request>,
    inbox: Arc<Inbox>,
    answers: VecDeque<Answer>,
    /// Buffers of answered upcalls, for the next ones.
    copies: Vec<Vec<u8>>,
    /// Memory to be returned to handlers.
    spent: Vec<Spent>,
    /// A handler existed when the iteration began.
    served: bool,
    /// Packets of the queue that is being received from that could not be parked.
    pub(crate) overflow: u64,
}

impl Parking {
    /// Makes a state without parked packets. `wake` ends the worker's sleep.
    pub(crate) fn new(shared: &Shared, limits: Limits, wake: Wake) -> Parking {
        let inbox = Arc::new(Inbox::new(wake));
        shared.upcalls.add_inbox(&inbox);
        Parking {
            park: Park::new(limits),
            budget: UpcallBudget::default(),
            outbox: Vec::new(),
            inbox,
            answers: VecDeque::new(),
            copies: Vec::new(),
            spent: Vec::new(),
            served: false,
            overflow: 0,
        }
    }
}

/// Returns whether misses of this iteration may be parked.
pub(crate) fn is_served(engine: &Engine) -> bool {
    engine.parking.as_ref().is_some_and(|p| p.served)
}

/// Begins an iteration: checks whether a handler exists, and collects answers. Returns true if [`answers`]
/// must be called.
#[inline]
pub(crate) fn begin(shared: &Shared, engine: &mut Engine) -> bool {
    let Some(parking) = &mut engine.parking else { return false };
    parking.served = shared.upcalls.is_served();
    parking.inbox.take(&mut parking.answers) || (!parking.served && !parking.park.is_empty())
}

/// Processes answers. Without a handler the worker translates all parked packets inline.
pub(crate) fn answers(shared: &Shared, guard: &Megaflows<'_>, engine: &mut Engine, now: Millis) {
    let Some(parking) = &mut engine.parking else { return };
    let mut answers = std::mem::take(&mut parking.answers);
    let left = !parking.served && !parking.park.is_empty();
    for answer in answers.drain(..) {
        heed(shared, guard, engine, answer, now);
    }
    if let Some(parking) = &mut engine.parking {
        parking.answers = answers;
        if left {
            parking.outbox.clear();
            settle(shared, guard, engine, None, now);
        }
    }
}

/// Ends an iteration: queues upcalls and returns memory. Returns true if the queue was locked: the worker
/// must not sleep.
pub(crate) fn ask(shared: &Shared, engine: &mut Engine) -> bool {
    let Some(parking) = &mut engine.parking else { return false };
    let Parking { outbox, spent, served, .. } = &mut **parking;
    if !*served {
        spent.clear();
    }
    let any = !outbox.is_empty() || !spent.is_empty();
    any && !shared.upcalls.submit(outbox, spent)
}

fn heed(shared: &Shared, guard: &Megaflows<'_>, engine: &mut Engine, answer: Answer, now: Millis) {
    let Some(parking) = &mut engine.parking else { return };
    if parking.copies.len() < BATCH {
        parking.copies.push(answer.bytes);
    }
    let Some(mut packets) = parking.park.answered(answer.flow, answer.ticket) else { return };
    engine.tally.add(Event::Unparked, packets.len() as u64);
    match answer.outcome {
        Outcome::Again => {}
        Outcome::Run { program, owner, tcp_flags } => {
            if let Some(packet) = packets.pop_front() {
                engine.tally.add(Event::Missed, 1);
                let bytes = packet.frame.len() as u64;
                owner.credit(&FlowStats { packets: 1, bytes, used: Some(now), tcp_flags });
                let mut group = engine.list();
                group.push(packet);
                execute::run(engine, &program, &mut group);
                engine.give_back(group);
            }
            if let Some(parking) = &mut engine.parking {
                parking.spent.push((program, owner));
            }
        }
        Outcome::Failed(reason) => {
            if let Some(packet) = packets.pop_front() {
                lose(engine, packet, reason);
            }
        }
        Outcome::Unserved => {
            if let Some(packet) = packets.pop_front() {
                upcall::inline(shared, guard, engine, packet, false, now);
            }
        }
    }
    replay(shared, guard, engine, &mut packets, now);
    if let Some(parking) = &mut engine.parking {
        parking.park.give_back(packets);
    }
}

/// Processes packets in their order.
fn replay(
    shared: &Shared,
    guard: &Megaflows<'_>,
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
        let context = shared.table.context(in_port);
        pass_all(shared, guard, context.as_deref(), engine, now);
    }
}

/// Parks packets of the batch whose flow is parked behind it.
#[inline]
pub(crate) fn waiting(shared: &Shared, guard: &Megaflows<'_>, engine: &mut Engine, now: Millis) {
    let Engine { batch, parking: Some(parking), .. } = engine else { return };
    if parking.park.is_empty() || batch.is_empty() || !parking.park.any_of(batch.meta(0).in_port) {
        return;
    }
    batch.spread();
    let mut flows = [0; BATCH];
    let mut any = false;
    for (i, flow) in flows.iter_mut().enumerate().take(batch.len()) {
        *flow = tuple(batch.frames[i].bytes(), batch.meta(i), &shared.tuple_secret);
        any |= parking.park.waits(*flow);
    }
    if any {
        take_out(shared, guard, engine, &flows, now);
    }
}

fn take_out(shared: &Shared, guard: &Megaflows<'_>, engine: &mut Engine, flows: &[u64; BATCH], now: Millis) {
    let mut frames = std::mem::take(&mut engine.batch.frames);
    let own = std::mem::take(&mut engine.batch.own);
    // The remaining packets get other indices, so the stored keys do not belong to them any more.
    engine.batch.known = None;
    let mut own = own.into_iter();
    for (frame, &flow) in frames.drain(..).zip(flows) {
        let meta = own.next();
        // If the flow could not take another packet, it is not open any more, and later packets continue.
        if engine.parking.as_ref().is_some_and(|p| p.park.waits(flow)) {
            let meta = meta.unwrap_or_else(|| engine.batch.common.clone());
            behind(shared, guard, engine, flow, Packet::new(frame, meta), now);
        } else {
            engine.batch.frames.push(frame);
            engine.batch.own.extend(meta);
        }
    }
    engine.batch.bytes = engine.batch.frames.iter().map(|f| f.len() as u64).sum();
}

/// Adds a packet to a parked flow.
fn behind(
    shared: &Shared,
    guard: &Megaflows<'_>,
    engine: &mut Engine,
    flow: u64,
    packet: Packet,
    now: Millis,
) {
    let Some(parking) = &mut engine.parking else { return };
    let appended = parking.park.append(flow, packet);
    parking.overflow += u64::from(appended.is_err());
    match appended {
        Ok(()) => engine.tally.add(Event::Parked, 1),
        Err(packet) if parking.budget.is_left() => {
            if let Some(mut before) = parking.park.take(flow) {
                engine.tally.add(Event::Unparked, before.len() as u64);
                before.drain(..).for_each(|p| upcall::inline(shared, guard, engine, p, false, now));
            }
            upcall::inline(shared, guard, engine, packet, false, now);
        }
        Err(packet) => lose(engine, packet, DropReason::UpcallBacklog),
    }
}

/// Makes packets misses that were found after a packet of the same flow that was not found. `recent` and
/// `cached` tell which stage found them: their hits are subtracted, because they are looked up again.
pub(crate) fn hold_back(
    engine: &mut Engine,
    secret: &Chain,
    (recent, cached): (u64, u64),
    pending: &mut u64,
) {
    let after_first = u64::MAX.checked_shl(pending.trailing_zeros()).unwrap_or(0);
    let mut found = engine.batch.all() & !*pending & after_first;
    if *pending == 0 || found == 0 {
        return;
    }
    let mut misses: Vec<u64> = Vec::with_capacity(BATCH);
    for i in pending.trailing_zeros() as usize..engine.batch.len() {
        let flow = tuple(engine.batch.frames[i].bytes(), engine.batch.meta(i), secret);
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
            events.iter().for_each(|&event| engine.tally.take_back(event, 1));
        }
        found &= !(1 << i);
        if found == 0 {
            break;
        }
    }
}

/// Parks a packet that has no megaflow and sends an upcall, unless its flow has one already. If it cannot be
/// parked, the worker translates it within its budget.
pub(crate) fn miss(
    shared: &Shared,
    guard: &Megaflows<'_>,
    engine: &mut Engine,
    packet: Packet,
    answered: bool,
    now: Millis,
) {
    let (flow, in_port) =
        (tuple(packet.frame.bytes(), &packet.meta, &shared.tuple_secret), packet.meta.in_port);
    let Some(parking) = &mut engine.parking else { return };
    if parking.park.waits(flow) {
        return behind(shared, guard, engine, flow, packet, now);
    }
    if parking.park.may_open(in_port) {
        let (mut bytes, meta) = (parking.copies.pop().unwrap_or_default(), packet.meta.clone());
        bytes.clear();
        bytes.extend_from_slice(packet.frame.bytes());
        let ticket = parking.park.open(in_port, flow, packet);
        let (worker, inbox) = (engine.id, Some(Arc::clone(&parking.inbox)));
        parking.outbox.push(Request { flow, ticket, bytes, meta, now, worker, inbox });
        engine.tally.add(Event::Parked, 1);
        return;
    }
    parking.overflow += 1;
    if parking.budget.is_left() {
        upcall::inline(shared, guard, engine, packet, answered, now);
    } else {
        lose(engine, packet, DropReason::UpcallBacklog);
    }
}

fn lose(engine: &mut Engine, packet: Packet, reason: DropReason) {
    engine.tally.add(Event::Lost, 1);
    engine.drop_packet(packet, reason);
}

/// Translates all parked packets of a port (`None`: of all ports) inline. Later answers find no entry.
pub(crate) fn settle(
    shared: &Shared,
    guard: &Megaflows<'_>,
    engine: &mut Engine,
    port: Option<u32>,
    now: Millis,
) {
    let Some(parking) = &mut engine.parking else { return };
    for packets in parking.park.take_port(port) {
        engine.tally.add(Event::Unparked, packets.len() as u64);
        packets.into_iter().for_each(|p| upcall::inline(shared, guard, engine, p, false, now));
    }
}

/// Drops all parked packets of a port (`None`: of all ports).
pub(crate) fn abandon(engine: &mut Engine, port: Option<u32>) {
    let Some(parking) = &mut engine.parking else { return };
    for packets in parking.park.take_port(port) {
        engine.tally.add(Event::Unparked, packets.len() as u64);
        // No iteration follows in which the buffers would be returned.
        for packet in packets {
            engine.drop_part(&packet, DropReason::PortRemoved);
            engine.pool.free(packet.frame);
        }
    }
}
