//! Prepare: copies a packet, truncates it, or finishes its offloads, before an operation that needs this.

use crate::engine::Engine;
use crate::last_drop::DropPort;
use crate::packet::Packet;
use crate::tally::Event;
use dpif::DropReason;

/// Copies a packet. Returns `None` and counts a drop if there is no buffer.
pub(super) fn copy(engine: &mut Engine, p: &Packet) -> Option<Packet> {
    engine.tally.add(Event::Created, 1);
    let Some(frame) = engine.pool.copy_of(&p.frame) else {
        engine.drop_part(p, DropReason::NoBuffer);
        return None;
    };
    Some(Packet { frame, meta: p.meta.clone(), offsets: p.offsets, number: p.number })
}

#[inline]
pub(super) fn truncate(p: &mut Packet) {
    if p.meta.cut == 0 {
        return;
    }
    p.frame.trim(p.frame.len().saturating_sub(p.meta.cut));
    // The unfinished offloads cover bytes that were truncated.
    p.frame.set_offload(Default::default());
    (p.offsets, p.number) = (None, None);
    p.meta.cut = 0;
}

/// Finishes the offloads of packets. A packet that needs segmentation becomes several packets.
pub(super) fn finish_offloads(engine: &mut Engine, group: &mut Vec<Packet>) {
    if group.iter().any(|p| p.frame.has_offload_state()) {
        finish_numbered(engine, group, |_| ());
    }
}

/// As [`finish_offloads`]. For each resulting packet, `number` is called with the number of segments of the same
/// packet that precede it.
pub(super) fn finish_numbered(engine: &mut Engine, group: &mut Vec<Packet>, mut number: impl FnMut(u16)) {
    let mut finished = engine.free_lists.packet_list();
    for p in group.drain(..) {
        let before = finished.len();
        match p.frame.has_offload_state() {
            true => finish_one(engine, p, &mut finished),
            false => finished.push(p),
        }
        (0..finished.len() - before).for_each(|n| number(n as u16));
    }
    std::mem::swap(group, &mut finished);
    engine.free_lists.return_list(finished);
}

fn finish_one(engine: &mut Engine, mut p: Packet, finished: &mut Vec<Packet>) {
    let offload_request = p.frame.offload();
    if offload_request.gso.is_none() && offload_request.finish(p.frame.bytes_mut(), |_| ()).is_some() {
        if p.frame.rx_checksums().is_none() {
            p.frame.set_offload(Default::default());
        }
        return finished.push(p);
    }
    let (pool, meta) = (&mut engine.pool, &p.meta);
    let (mut pieces, mut lost) = (0, 0);
    let cut = offload_request.finish(p.frame.bytes_mut(), |bytes| {
        pieces += 1;
        match pool.frame_of(bytes) {
            Some(frame) => finished.push(Packet::new(frame, meta.clone())),
            None => lost += 1,
        }
    });
    if cut.is_none() || pieces == 0 {
        return engine.drop_packet(p, DropReason::MalformedForAction);
    }
    // The packet itself is the first of its segments.
    engine.tally.add(Event::Created, pieces - 1);
    if lost != 0 {
        // `drop_part` counts one of the lost segments.
        engine.tally.count_drops(DropReason::NoBuffer, lost - 1);
        engine.drops.ports.count(DropPort::In(p.meta.in_port), DropReason::NoBuffer, lost - 1);
        engine.drop_part(&p, DropReason::NoBuffer);
    }
    engine.pool.free(p.frame);
}
