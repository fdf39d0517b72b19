//! Receive: a burst of one rx queue becomes a batch.

use super::transmit;
use crate::engine::Engine;
use crate::last_drop::DropPort;
use crate::packet::Meta;
use crate::policer::Policer;
use crate::port::{Frame, RX_BURST};
use crate::ports::{Port, SHORTEST};
use crate::rxq::{Rxq, SharedPortCount};
use crate::tally::Event;
use dpif::DropReason;
use packet::held_buffers;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Fills the engine's batch; returns the number of packets that the queue delivered.
#[inline(always)]
pub(crate) fn stage(rxq: &mut Rxq, engine: &mut Engine) -> usize {
    if held_buffers::holds_any() {
        // `held_buffers::release` returns the held buffers of all senders. So packets whose buffers are held
        // must be sent before packets of another sender are received.
        transmit::end_iteration(engine, None);
    }
    let frames = &mut engine.batch.frames;
    let result = rxq.queue.rx(&mut engine.pool, frames, RX_BURST);
    let in_port = result.port.map_or(rxq.port.0, NonZeroU32::get);
    let n = frames.len();
    let lost = u64::from(result.dropped);
    if n as u64 + lost == 0 {
        return 0;
    }
    let (bytes, shortest) = lengths(frames);
    engine.batch.bytes = bytes;
    engine.tally.add(Event::Received, n as u64 + lost);
    if result.needs_return {
        (rxq.needs_return, engine.bursts.hold.needs_return) = (true, true);
    }
    if lost != 0 {
        count_rx_dropped(engine, in_port, lost);
    }
    let check_frames_below = match result.port {
        None => {
            if rxq.copied_version != engine.view.version {
                copy_port_settings(rxq, engine);
            }
            if let Some(received) = rxq.received.as_ref().filter(|_| n > 0) {
                received.add(n as u64, bytes);
            }
            rxq.check_frames_below
        }
        Some(_) => count_for_port(rxq, engine, in_port, (n as u64, bytes)),
    };
    if shortest < check_frames_below {
        check_frames(engine, in_port, shortest);
    }
    engine.batch.set_received(in_port, engine.view.vlan_limit);
    n
}

/// Returns the sum of the frame lengths in bytes, and the smallest length.
#[inline(always)]
fn lengths(frames: &[Frame]) -> (u64, usize) {
    // For a single packet, setting up the loop takes longer than the loop itself.
    if let [frame] = frames {
        return (frame.len() as u64, frame.len());
    }
    frames.iter().fold((0, usize::MAX), |(bytes, shortest), frame| {
        (bytes + frame.len() as u64, shortest.min(frame.len()))
    })
}

/// Copies the port's settings that every burst needs into the rx queue. Called when the worker's snapshots have
/// changed.
#[cold]
fn copy_port_settings(rxq: &mut Rxq, engine: &Engine) {
    let port = engine.view.ports.get(rxq.port.0);
    if rxq.received.is_none() {
        rxq.received = port.map(|port| port.counters.rx.queue());
    }
    rxq.check_frames_below = port.map_or(SHORTEST, |port| port.check_frames_below);
    rxq.copied_version = engine.view.version;
}

/// Counts a burst of a shared rx queue for the port that received it. Returns the length in bytes below which the
/// port's frames are checked.
#[inline(never)]
fn count_for_port(rxq: &mut Rxq, engine: &Engine, in_port: u32, (packets, bytes): (u64, u64)) -> usize {
    let Some(port) = engine.view.ports.get(in_port) else { return SHORTEST };
    let new = || SharedPortCount { port: Arc::clone(&port.counters), count: port.counters.rx.queue() };
    let known = rxq.by_port.entry(in_port).or_insert_with(new);
    if !Arc::ptr_eq(&known.port, &port.counters) {
        // The port number belongs to another port now.
        *known = new();
    }
    known.count.add(packets, bytes);
    port.check_frames_below
}

/// Handles a batch that contains a frame that is too short, or whose port has a policer.
#[cold]
fn check_frames(engine: &mut Engine, in_port: u32, shortest: usize) {
    if shortest < SHORTEST {
        drop_short(engine, in_port);
    }
    let ports = Arc::clone(&engine.view.ports);
    if let Some(port) = ports.get(in_port)
        && let Some(policer) = &port.policer
    {
        police(engine, in_port, port, policer);
    }
}

/// Drops packets that exceed the port's rates.
fn police(engine: &mut Engine, in_port: u32, port: &Port, policer: &Policer) {
    let now = engine.clocks.fine.read(engine.now);
    let Engine { batch, pool, tally, drops, now: millis, .. } = engine;
    if policer.pass(batch.frames.len() as u64, batch.bytes, now) {
        return;
    }
    let (meta, drop_port) = (Meta::received(in_port), DropPort::In(in_port));
    let mut dropped = 0;
    for frame in batch.frames.extract_if(.., |f| !policer.pass(1, f.len() as u64, now)) {
        dropped += 1;
        drops.log_bytes(frame.bytes(), &meta, DropReason::RxPoliced, drop_port, *millis);
        batch.bytes -= frame.len() as u64;
        pool.free(frame);
    }
    tally.count_drops(DropReason::RxPoliced, dropped);
    drops.ports.count(drop_port, DropReason::RxPoliced, dropped);
    port.counters.rx_policed.fetch_add(dropped, Ordering::Relaxed);
}

/// Counts packets that the device has received but could not deliver. Their bytes are not available.
#[cold]
fn count_rx_dropped(engine: &mut Engine, in_port: u32, lost: u64) {
    engine.tally.count_drops(DropReason::RxInvalidPacket, lost);
    let (meta, drop_port) = (Meta::received(in_port), DropPort::In(in_port));
    engine.drops.ports.count(drop_port, DropReason::RxInvalidPacket, lost);
    engine.drops.log_bytes(&[], &meta, DropReason::RxInvalidPacket, drop_port, engine.now);
}

fn drop_short(engine: &mut Engine, in_port: u32) {
    let Engine { batch, pool, tally, drops, now, .. } = engine;
    let (meta, drop_port) = (Meta::received(in_port), DropPort::In(in_port));
    for frame in batch.frames.extract_if(.., |f| f.len() < SHORTEST) {
        tally.count_drops(DropReason::RxInvalidPacket, 1);
        drops.ports.count(drop_port, DropReason::RxInvalidPacket, 1);
        drops.log_bytes(frame.bytes(), &meta, DropReason::RxInvalidPacket, drop_port, *now);
        batch.bytes -= frame.len() as u64;
        pool.free(frame);
    }
}
