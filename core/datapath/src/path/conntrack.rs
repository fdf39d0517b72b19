//! Connection tracking: packets of a group get the metadata of their connections.

use crate::action::{helper, nat};
use crate::engine::Engine;
use crate::packet::{Packet, Rare};
use conntrack::{Action, Control, Known, Metadata, Read, Tuple};
use flow::flow::ct_state::INVALID;

/// Number of packets whose connections are looked up together.
const TOGETHER: usize = 16;

/// Executes `ct`: finds, updates or begins the packets' connections, and translates addresses and ports as
/// these say.
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
    let rare = p.meta.rare.get_or_insert_with(|| engine.new_rare());
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
    if let Some(control) = &known.control {
        hear(engine, control, p);
    }
}

/// Passes a packet of an FTP or TFTP control connection to its helper: it may announce other connections.
#[cold]
fn hear(engine: &Engine, control: &Control, p: &mut Packet) {
    let layout = p.layout();
    let l3 = p.frame.bytes().get(usize::from(layout.l3)..).unwrap_or_default();
    let packet = conntrack::Packet { ethertype: layout.dl_type, l3, verify: false };
    let heard = engine.conntrack.hear(control, &packet);
    if heard.invalid || helper::write(p, &heard).is_none() {
        p.meta.ct_state |= INVALID;
    }
}

/// Executes `ct_clear`: removes all connection tracking metadata.
pub(super) fn clear(p: &mut Packet) {
    (p.meta.ct_state, p.meta.ct_zone, p.meta.ct_mark, p.meta.ct_known) = (0, 0, 0, Known::default());
    if let Some(rare) = &mut p.meta.rare {
        let Rare { ct_label, ct_tuple, .. } = &mut **rare;
        (*ct_label, *ct_tuple) = ([0; 2], Tuple::default());
    }
}
