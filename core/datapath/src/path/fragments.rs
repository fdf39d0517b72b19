//! `ct` with fragments: each fragment waits until its datagram is complete; then the complete datagram is tracked.
//! After that every fragment continues with its own bytes, in order, with the connection's metadata.
//!
//! As in Open vSwitch, all fragments of a datagram continue with the actions of the fragment that arrived last, and
//! leave in the order of their offsets. Address translation edits the datagram; the edits are copied to each
//! fragment. A fragment that cannot wait (too small, overlapping, malformed, or the table is full) is tracked by
//! itself, and is invalid as a result.

use super::conntrack;
use crate::engine::Engine;
use crate::packet::{Packet, Rare};
use crate::tally::Event;
use ::conntrack::Action;
use dpif::DropReason;
use flow::flow::ct_state::{DST_NAT, SRC_NAT};
use reassembly::{AddResult, Datagram, Origin, Removal, Removed, may_be_fragment};

/// A waiting fragment is copied if its buffer is larger than the frame by more than this many bytes. Buffers of the
/// usual size are smaller, so their frames are not copied.
const SLACK: usize = 2048;

/// Returns the drop reason of a fragment that was removed.
pub(crate) fn reason(why: Removal) -> DropReason {
    match why {
        Removal::Expired => DropReason::FragmentExpired,
        Removal::Purged => DropReason::FragmentPurged,
        Removal::Evicted => DropReason::FragmentEvicted,
    }
}

/// Returns whether a packet may be a fragment.
#[inline]
fn is_fragment(p: &mut Packet) -> bool {
    if p.meta.packet_type == 0 {
        return conntrack::may_be_fragment(&p.frame);
    }
    let dl_type = p.offsets().dl_type;
    may_be_fragment(dl_type, l3(p))
}

/// Returns the packet's bytes from its network header on. Its header offsets must be computed.
fn l3(p: &Packet) -> &[u8] {
    let at = p.offsets.map_or(0, |offsets| offsets.l3);
    p.frame.bytes().get(usize::from(at)..).unwrap_or_default()
}

/// As `l3`, mutable.
fn l3_mut(p: &mut Packet) -> &mut [u8] {
    let at = p.offsets.map_or(0, |offsets| offsets.l3);
    p.frame.bytes_mut().get_mut(usize::from(at)..).unwrap_or_default()
}

/// Executes `ct` for all packets of a group. Afterwards the group may have fewer or more packets.
pub(super) fn track(engine: &mut Engine, action: &Action, group: &mut Vec<Packet>) {
    match group.iter_mut().any(is_fragment) {
        true => track_each(engine, action, group),
        false => conntrack::track(engine, action, group, true),
    }
}

fn track_one(engine: &mut Engine, action: &Action, p: &mut Packet) {
    conntrack::track(engine, action, std::slice::from_mut(p), false);
}

/// As `track`, when some of the packets may be fragments.
#[cold]
fn track_each(engine: &mut Engine, action: &Action, group: &mut Vec<Packet>) {
    let (mut all, mut removed) = (engine.free_lists.packet_list(), Vec::new());
    all.append(group);
    for mut p in all.drain(..) {
        let offsets = p.offsets();
        // No kernel or network card sends a fragment with unfinished offloads, so such a packet is not treated as a
        // fragment.
        let may_wait = may_be_fragment(offsets.dl_type, l3(&p)) && !p.frame.has_offload_state();
        let fragment = may_wait.then(|| engine.tracking.reassembly.read(offsets.dl_type, l3(&p))).flatten();
        let Some(fragment) = fragment else {
            track_one(engine, action, &mut p);
            group.push(p);
            continue;
        };
        let p = prepare_to_wait(engine, p);
        let origin = Origin {
            port: p.meta.in_port,
            zone: action.zone,
            recirc_id: p.meta.recirc_id,
            l3_offset: offsets.l3.into(),
            memory: p.frame.memory() as u32,
        };
        engine.tally.add(Event::FragmentWaitsBegun, 1);
        match engine.tracking.reassembly.add(&fragment, &origin, p, engine.now, &mut removed) {
            AddResult::Stored => {}
            AddResult::Refused(mut p) => {
                engine.tally.add(Event::FragmentWaitsEnded, 1);
                track_one(engine, action, &mut p);
                group.push(p);
            }
            AddResult::Complete(datagram) => complete(engine, action, datagram, group),
            AddResult::TooLong(datagram) => too_long(engine, datagram),
        }
    }
    for Removed { content, why, .. } in removed {
        engine.tally.add(Event::FragmentWaitsEnded, 1);
        engine.drop_packet(content, reason(why));
    }
    engine.free_lists.return_list(all);
}

/// Prepares a packet for waiting, which may take seconds: copies the packet if its buffer belongs to a device, which
/// needs its buffers, or is much larger than the packet.
fn prepare_to_wait(engine: &mut Engine, mut p: Packet) -> Packet {
    p.number = None;
    if p.frame.source().is_some() || p.frame.memory() > p.frame.len() + SLACK {
        let copy = p.frame.detached();
        engine.pool.free(std::mem::replace(&mut p.frame, copy));
    }
    p.frame.complete();
    p
}

/// Tracks a complete datagram and lets its fragments continue.
fn complete(engine: &mut Engine, action: &Action, mut datagram: Datagram<Packet>, group: &mut Vec<Packet>) {
    engine.tally.add(Event::FragmentWaitsEnded, datagram.parts.len() as u64);
    let mut whole = whole(engine, &datagram);
    if let Some(whole) = &mut whole {
        track_one(engine, action, whole);
    }
    if let Some(whole) = whole.as_ref().filter(|whole| whole.meta.ct_state & (SRC_NAT | DST_NAT) != 0) {
        datagram.write_back(l3(whole), l3_mut);
    }
    for part in datagram.parts {
        let mut p = part.content;
        match &whole {
            Some(whole) => copy_connection(&mut p, whole),
            None => track_one(engine, action, &mut p),
        }
        group.push(p);
    }
    whole.into_iter().for_each(|whole| engine.pool.free(whole.frame));
}

/// Builds the complete datagram behind the link header of its first fragment, with that fragment's metadata. Returns
/// `None` if there is no buffer.
fn whole(engine: &mut Engine, datagram: &Datagram<Packet>) -> Option<Packet> {
    let first = &datagram.parts.first()?.content;
    let front = usize::from(first.offsets?.l3);
    let mut frame = engine.pool.alloc(front + datagram.len())?;
    let (link, network) = frame.bytes_mut().split_at_mut(front);
    link.copy_from_slice(first.frame.bytes().get(..front)?);
    datagram.write(network, l3)?;
    Some(Packet::new(frame, first.meta.clone()))
}

/// Copies the connection's metadata from the datagram to a fragment.
fn copy_connection(p: &mut Packet, whole: &Packet) {
    let (to, from) = (&mut p.meta, &whole.meta);
    (to.ct_state, to.ct_zone, to.ct_mark) = (from.ct_state, from.ct_zone, from.ct_mark);
    to.ct_earlier = from.ct_earlier.of_fragments();
    if let Some(known) = &from.rare {
        let Rare { ct_label, ct_tuple, .. } = &mut **to.rare.get_or_insert_default();
        (*ct_label, *ct_tuple) = (known.ct_label, known.ct_tuple);
    }
}

/// Drops a complete datagram that is longer than the maximum.
fn too_long(engine: &mut Engine, datagram: Datagram<Packet>) {
    engine.tally.add(Event::FragmentWaitsEnded, datagram.parts.len() as u64);
    if let Some(first) = datagram.parts.first() {
        engine.tracking.reassembly.note_oversize(&datagram, l3(&first.content));
    }
    datagram.parts.into_iter().for_each(|p| engine.drop_packet(p.content, DropReason::DatagramTooLong));
}
