//! The path of a batch, in the order of its stages:
//! `receive → extract → recent → cache → classify → inspection → execute_batch → execute → upcall`.
//!
//! `output` adds packets to the bursts of ports. `transmit` sends a full burst at once, and the others at the end of the iteration, after
//! the batches of all rx queues (`Worker::finish`), or of a later one if packets are held (`Settings::tx_flush_interval_us`).
//!
//! `small_batch` looks up and sends a batch of at most eight packets without these stages, if every packet only needs to be
//! sent. `execute_batch` selects one of several ways to execute a batch: usually `per_packet`, otherwise `push_tunnel`, `lb_output` or
//! `recirculate`, and for all other programs `execute_frames`, which continues in `execute`. `steps` and `rewrites` execute
//! parts of programs for these ways. Packets that are recirculated go from `execute_batch` back to `recent`, with a key that is
//! changed or read again.

pub(crate) mod answers;
mod autovalidator;
pub mod cache;
pub(crate) mod capture;
mod charge_meters;
pub mod classify;
pub(crate) mod conntrack;
mod drop_run;
pub mod execute;
pub mod execute_batch;
pub(crate) mod execute_frames;
pub mod extract;
pub(crate) mod fragments;
pub(crate) mod inspection;
mod lb_output;
pub mod megaflow_guard;
pub(crate) mod meter;
mod output;
pub(crate) mod park;
mod per_packet;
mod prepare;
mod push_tunnel;
pub mod receive;
pub mod recent;
mod recirculate;
mod rewrites;
mod sample;
pub(crate) mod slow_path;
pub(crate) mod small_batch;
mod steps;
mod translate_inline;
pub mod transmit;
mod tunnel;
pub mod upcall;

use crate::engine::Engine;
use crate::shared::Shared;
use crate::stages::PathStage;
use crate::tally::Event;
use classifier::megaflow::{ALL_WORDS, Depth, MegaflowsByPort, PortMegaflows};
use cpu::{Level, Stage};
use megaflow_guard::MegaflowGuard;
use small_batch::{SMALL, SmallBatch};
use units::Millis;

/// Processes the engine's batch, whose packets were all received by `in_port`, and then the packets that were
/// decapsulated from them.
#[inline]
pub(crate) fn run(
    shared: &Shared,
    guard: &MegaflowGuard<'_>,
    by_port: &mut MegaflowsByPort,
    in_port: u32,
    engine: &mut Engine,
    now: Millis,
) {
    pass_all(shared, guard, by_port.of(in_port), engine, now);
    if !engine.popped.is_empty() {
        run_popped(shared, guard, by_port, engine, now);
    }
}

/// Processes decapsulated packets.
#[inline(never)]
fn run_popped(
    shared: &Shared,
    guard: &MegaflowGuard<'_>,
    by_port: &mut MegaflowsByPort,
    engine: &mut Engine,
    now: Millis,
) {
    while let Some(in_port) = engine.next_popped() {
        pass_all(shared, guard, by_port.of(in_port), engine, now);
    }
}

/// Processes the batch. `port_megaflows`: the megaflows of the ingress port; `None` if the port has none.
#[inline]
pub(crate) fn pass_all(
    shared: &Shared,
    guard: &MegaflowGuard<'_>,
    port_megaflows: Option<&PortMegaflows>,
    engine: &mut Engine,
    now: Millis,
) {
    if engine.parking.is_some() {
        park::join_parked(shared, guard, engine, now);
    }
    let sent = match (engine.batch.len(), port_megaflows) {
        (0, _) => true,
        (1..=SMALL, Some(port_megaflows)) => cpu::stage(SmallBatch { shared, guard, port_megaflows, engine }),
        _ => false,
    };
    if !sent {
        cpu::stage(PassAll { shared, guard, port_megaflows, engine, now });
    }
}

/// The stages from extraction to execution, compiled as one function for the instructions of this CPU: with small
/// bursts, a function call per stage would cost as much as the stage.
struct PassAll<'a, 'g> {
    shared: &'a Shared,
    guard: &'a MegaflowGuard<'g>,
    port_megaflows: Option<&'a PortMegaflows>,
    engine: &'a mut Engine,
    now: Millis,
}

impl Stage for PassAll<'_, '_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Level>(self, level: L) {
        let PassAll { shared, guard, port_megaflows, engine, now } = self;
        extract(level, port_megaflows, engine);
        engine.clocks.end_stage(PathStage::Extract);
        while pass(shared, guard, port_megaflows, engine, now) {}
    }
}

#[inline(always)]
fn extract<L: Level>(level: L, port_megaflows: Option<&PortMegaflows>, engine: &mut Engine) {
    let (depth, by_kind) = port_megaflows.map_or((Depth::Port, true), |c| (c.depth(), c.is_by_kind()));
    if engine.batch.known_depth.take() == Some(depth) {
        (engine.batch.depth, engine.batch.shares_key) = (depth, false);
    } else {
        // Cache kinds other than `unified` hash all bits that distinguish flows, whether or not a megaflow matches
        // them. So all words must be filled.
        let words = port_megaflows
            .map_or(0, |c| if engine.caches.cache.is_by_masks() { c.words() } else { ALL_WORDS });
        let extract = extract::Extract { batch: &mut engine.batch, depth, words, by_kind };
        match depth {
            // Reading wide keys needs all registers.
            Depth::Wide => cpu::stage(extract),
            _ => extract.run(level),
        }
    }
}

/// Looks the packets up and executes them. Returns true if packets are left in the batch to be looked up
/// again.
#[inline(always)]
fn pass(
    shared: &Shared,
    guard: &MegaflowGuard<'_>,
    port_megaflows: Option<&PortMegaflows>,
    engine: &mut Engine,
    now: Millis,
) -> bool {
    let mut pending = engine.batch.key_bits();
    let (mut recent, mut cached) = (0, 0);
    if let Some(port_megaflows) = port_megaflows {
        recent = recent::stage(guard, engine, &mut pending);
        if pending != 0 {
            if port_megaflows.is_single() {
                let Engine { batch, tally, .. } = &mut *engine;
                classify::stage(port_megaflows, guard, (batch, tally), &mut pending, |_, _, _| ());
            } else {
                cached = cache::stage(port_megaflows, guard, engine, &shared.secrets.cache, &mut pending);
            }
        }
    }
    // The results of the previous batch are not cleared: each stage sets `found` of the packets that it finds, and
    // `set_missing` sets `found` of the others.
    if pending != 0 {
        engine.batch.set_missing(pending);
    }
    if let Some(port_megaflows) = port_megaflows {
        autovalidator::stage(shared, guard, port_megaflows, engine);
    }
    if pending != 0 {
        engine.batch.spread_metadata();
        park::hold_back(engine, &shared.secrets.flow_hash, (recent, cached), &mut pending);
    }
    if recent & !pending != 0
        && port_megaflows.is_some_and(PortMegaflows::is_by_kind)
        && engine.batch.own.is_empty()
    {
        let n = if engine.batch.shares_key {
            engine.batch.len() as u64
        } else {
            (recent & !pending).count_ones().into()
        };
        engine.tally.add(Event::SimpleHit, n);
    }
    inspection::stage(shared, guard, engine);
    engine.clocks.end_stage(PathStage::LookUp);
    let again = execute_batch::stage(guard, engine, pending, now);
    engine.clocks.end_stage(PathStage::Execute);
    upcall::stage(shared, guard, engine, now);
    again
}
