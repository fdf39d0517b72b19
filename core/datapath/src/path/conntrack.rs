//! Connection tracking: packets learn what is known of their connections.
//!
//! Packets are tracked where they are: in the batch, whose keys and metadata change with them, or as packets of a group.

use super::extract;
use crate::action::{helper, nat};
use crate::batch::{BATCH, Batch};
use crate::engine::Engine;
use crate::packet::{Meta, Packet, Rare};
use crate::port::Frame;
use crate::tracked::write_line;
use conntrack::{Action, Control, Known, Metadata, Read, Translation, Tuple};
use flow::flow::ct_state::INVALID;
use packet::ethertype;
use std::sync::Arc;

/// Number of packets whose connections are looked up together.
const TOGETHER: usize = 16;

/// Bytes of Ethernet and IPv4 headers.
const HEADERS: usize = 34;
/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// An Ethernet frame may be a fragment: of IPv4 without tags, which most are, by two comparisons.
#[inline]
pub(super) fn may_be_fragment(frame: &Frame) -> bool {
    let data = frame.bytes();
    match data.first_chunk::<HEADERS>() {
        Some(head) if head[12..14] == ethertype::IPV4.to_be_bytes() => (head[20] & 0x3f) | head[21] != 0,
        _ => {
            let (dl_type, l3) = network(data);
            reassembly::may_be_fragment(dl_type, l3)
        }
    }
}

/// All packets of the batch are Ethernet, and none may be a fragment.
#[inline]
pub(super) fn are_whole(batch: &Batch) -> bool {
    batch.common.packet_type == 0 && !batch.frames.iter().any(may_be_fragment)
}

/// The Ethernet type of a frame behind its tags, and the packet from its network header on.
#[inline(always)]
fn network(data: &[u8]) -> (u16, &[u8]) {
    if let Some((head, l3)) = data.split_at_checked(ETHERNET) {
        let dl_type = u16::from_be_bytes([head[12], head[13]]);
        if matches!(dl_type, ethertype::IPV4 | ethertype::IPV6) {
            return (dl_type, l3);
        }
    }
    tagged(data)
}

#[cold]
fn tagged(data: &[u8]) -> (u16, &[u8]) {
    let layout = crate::layout::Layout::of(data, 0);
    (layout.dl_type, data.get(usize::from(layout.l3)..).unwrap_or_default())
}

/// `ct` for the packets of the batch that have an action, in their order. They [are whole](are_whole), and none has metadata of
/// its own.
pub(super) fn track_batch(engine: &mut Engine, actions: &[Option<&Action>]) {
    let conntrack = Arc::clone(&engine.conntrack);
    let n = engine.batch.len().min(BATCH);
    engine.batch.tell_apart();
    engine.batch.tracked.open(n);
    for (part, actions) in actions.chunks(TOGETHER).enumerate() {
        let first = part * TOGETHER;
        let mut reads = [Read::default(); TOGETHER];
        let Batch { frames, tracked, .. } = &mut engine.batch;
        let packets = frames[first..].iter().zip(&tracked.open(n)[first..]);
        for (((frame, known), action), read) in packets.zip(actions).zip(&mut reads) {
            if let Some(action) = action {
                let (ethertype, l3) = network(frame.bytes());
                let packet = conntrack::Packet { ethertype, l3, verify: !frame.is_undone() };
                *read = conntrack.read(&packet, known, action);
            }
        }
        reads.iter_mut().for_each(|read| conntrack.prefetch(read));
        for ((i, action), read) in (first..).zip(actions).zip(&reads) {
            let Some(action) = action else { continue };
            let known = &mut engine.batch.tracked.open(n)[i];
            let translation = conntrack.track_read(read, known, action, engine.now);
            if translation.is_some() || known.control.is_some() {
                change(engine, i, translation);
            }
            let Batch { lines, tracked, .. } = &mut engine.batch;
            write_line(&mut lines[i % BATCH], &tracked.open(n)[i]);
        }
    }
    engine.batch.fill_connections();
}

/// Changes the bytes of packet `i` of the batch as its connection asks for it.
fn change(engine: &mut Engine, i: usize, translation: Option<Translation>) {
    let control = engine.batch.tracked.get(i).and_then(|known| known.control);
    let mut invalid = false;
    let (packet_type, vlan_limit) = (engine.batch.common.packet_type, engine.batch.common.vlan_limit);
    let frame = engine.batch.frames.swap_remove(i);
    let mut p = Packet::new(frame, Meta { packet_type, vlan_limit, ..Meta::default() });
    if let Some(translation) = &translation {
        nat::write(&mut p, translation);
    }
    if let Some(control) = &control {
        invalid = !hear(engine, control, &mut p);
    }
    let frames = &mut engine.batch.frames;
    frames.push(p.frame);
    let last = frames.len() - 1;
    frames.swap(i, last);
    extract::renew(&mut engine.batch, i);
    if invalid {
        engine.batch.tracked.add_state(i, INVALID);
    }
}

/// `ct`: finds, moves on or begins the packets' connections, and writes the addresses and ports that they give packets.
pub(super) fn track(engine: &mut Engine, action: &Action, group: &mut [Packet]) {
    for group in group.chunks_mut(TOGETHER) {
        let mut reads = [Read::default(); TOGETHER];
        for (read, p) in reads.iter_mut().zip(group.iter_mut()) {
            *read = read_one(engine, action, p);
        }
        reads[..group.len()].iter_mut().for_each(|read| engine.conntrack.prefetch(read));
        for (read, p) in reads.iter().zip(group.iter_mut()) {
            track_one(engine, action, read, p);
        }
    }
}

fn read_one(engine: &Engine, action: &Action, p: &mut Packet) -> Read {
    let layout = p.layout();
    let packet = conntrack::Packet {
        ethertype: layout.dl_type,
        l3: p.frame.bytes().get(usize::from(layout.l3)..).unwrap_or_default(),
        verify: !p.frame.is_undone(),
    };
    let known = Metadata { zone: p.meta.ct_zone, known: p.meta.ct_known, ..Metadata::default() };
    engine.conntrack.read(&packet, &known, action)
}

fn track_one(engine: &mut Engine, action: &Action, read: &Read, p: &mut Packet) {
    let rare = p.meta.rare.get_or_insert_with(|| engine.batch.new_rare());
    let mut known = Metadata {
        state: p.meta.ct_state,
        zone: p.meta.ct_zone,
        mark: p.meta.ct_mark,
        label: rare.ct_label,
        tuple: rare.ct_tuple,
        known: p.meta.ct_known,
        control: None,
    };
    let translation = engine.conntrack.track_read(read, &mut known, action, engine.now);
    (rare.ct_label, rare.ct_tuple) = (known.label, known.tuple);
    (p.meta.ct_state, p.meta.ct_zone, p.meta.ct_mark) = (known.state, known.zone, known.mark);
    p.meta.ct_known = known.known;
    if let Some(translation) = translation {
        nat::write(p, &translation);
    }
    if let Some(control) = &known.control
        && !hear(engine, control, p)
    {
        p.meta.ct_state |= INVALID;
    }
}

/// A packet of a control connection of FTP or TFTP: it may announce other connections. `false`: it is invalid.
#[cold]
fn hear(engine: &Engine, control: &Control, p: &mut Packet) -> bool {
    let layout = p.layout();
    let l3 = p.frame.bytes().get(usize::from(layout.l3)..).unwrap_or_default();
    let packet = conntrack::Packet { ethertype: layout.dl_type, l3, verify: false };
    let heard = engine.conntrack.hear(control, &packet);
    !heard.invalid && helper::write(p, &heard).is_some()
}

/// Executes `ct_clear`: removes all connection tracking metadata.
pub(super) fn clear(p: &mut Packet) {
    (p.meta.ct_state, p.meta.ct_zone, p.meta.ct_mark, p.meta.ct_known) = (0, 0, 0, Known::default());
    if let Some(rare) = &mut p.meta.rare {
        let Rare { ct_label, ct_tuple, .. } = &mut **rare;
        (*ct_label, *ct_tuple) = ([0; 2], Tuple::default());
    }
}
