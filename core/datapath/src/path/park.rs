//! Park: packets without a megaflow are set aside and asked about; packets behind them wait; answers set them going.
//!
//! Three places keep the order of a flow. Before a batch is looked up, packets of flows that wait join them
//! ([`waiting`]). A packet that was found behind one of the same flow that was not, is a miss like it
//! ([`hold_back`]: a megaflow may have been published between the two look-ups). And a flow's packets are set going
//! together, before anything else is received, each looked up again ([`answers`]).
//!
//! Only ports that have parked packets pay: with none, each batch costs a comparison.

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

/// What a worker needs to let others translate for it.
pub(crate) struct Parking {
    pub(crate) park: Park<Packet>,
    pub(crate) budget: UpcallBudget,
    /// Asked, and not yet in the queue.
    outbox: Vec<Request>,
    inbox: Arc<Inbox>,
    answers: VecDeque<Answer>,
    /// Copies of packets that were answered, for the next ones.
    copies: Vec<Vec<u8>>,
    /// Done with, and not yet given back.
    spent: Vec<Spent>,
    /// Somebody served when the turn began.
    served: bool,
    /// Packets of the queue that is being received from for which there was no room.
    pub(crate) overflow: u64,
}

impl Parking {
    /// Nothing is parked. `wake` ends the worker's sleep.
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

/// Misses of this turn leave the worker.
pub(crate) fn is_served(engine: &Engine) -> bool {
    engine.parking.as_ref().is_some_and(|p| p.served)
}

/// Begins a turn: takes note of whether anybody serves, and of answers. True: there is something to do for [`answers`].
#[inline]
pub(crate) fn begin(shared: &Shared, engine: &mut Engine) -> bool {
    let Some(parking) = &mut engine.parking else { return false };
    parking.served = shared.upcalls.is_served();
    parking.inbox.take(&mut parking.answers) || (!parking.served && !parking.park.is_empty())
}

/// Does what answers say. When nobody serves any more the worker helps itself.
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

/// Ends a turn: what was asked is queued, what was answered is given back. True if it could not be: the worker must not
/// sleep.
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

/// Takes packets through the path, in their order.
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

/// Packets of the batch whose flow waits wait behind it.
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
    // Packets that stay get other numbers than their keys have.
    engine.batch.known = None;
    let mut own = own.into_iter();
    for (frame, &flow) in frames.drain(..).zip(flows) {
        let meta = own.next();
        // A flow that could not take one more is open no longer: what comes behind goes on its way.
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

/// Adds a packet to a flow that waits.
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

/// Packets that were found, behind one of the same flow that was not, are misses, too. `recent` and `cached` say who found
/// them: their hits are taken back, since they are looked up again.
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

/// Parks a packet that has no megaflow, and asks, unless its flow has asked already. Where there is no room for it the
/// worker translates by itself, as far as its budget goes.
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

/// Nothing of a port (`None`: of any) is parked afterwards: each packet is translated here and now. Answers that are on
/// their way find nothing.
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

/// Nothing of a port (`None`: of any) is parked afterwards: each packet is dropped.
pub(crate) fn abandon(engine: &mut Engine, port: Option<u32>) {
    let Some(parking) = &mut engine.parking else { return };
    for packets in parking.park.take_port(port) {
        engine.tally.add(Event::Unparked, packets.len() as u64);
        // No turn follows that would give back what is held.
        for packet in packets {
            engine.drop_part(&packet, DropReason::PortRemoved);
            engine.pool.free(packet.frame);
        }
    }
}
