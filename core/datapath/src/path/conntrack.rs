//! Connection tracking: packets of a group learn what is known of their connections.

use crate::engine::Engine;
use crate::packet::{Packet, Rare};
use conntrack::{Action, Metadata, Tuple};

/// `ct`: finds, moves on or begins the packet's connection.
pub(super) fn track(engine: &Engine, action: &Action, p: &mut Packet) {
    let layout = p.layout();
    let packet = conntrack::Packet {
        ethertype: layout.dl_type,
        l3: p.frame.bytes().get(usize::from(layout.l3)..).unwrap_or_default(),
        verify: !p.frame.is_undone(),
    };
    let rare = p.meta.rare.get_or_insert_default();
    let mut known = Metadata {
        state: p.meta.ct_state,
        zone: p.meta.ct_zone,
        mark: p.meta.ct_mark,
        label: rare.ct_label,
        tuple: rare.ct_tuple,
        counted: p.meta.ct_counted,
    };
    engine.conntrack.track(&packet, &mut known, action, engine.now);
    (rare.ct_label, rare.ct_tuple) = (known.label, known.tuple);
    (p.meta.ct_state, p.meta.ct_zone, p.meta.ct_mark) = (known.state, known.zone, known.mark);
    p.meta.ct_counted = known.counted;
}

/// `ct_clear`: the packet is as if it had never been tracked.
pub(super) fn clear(p: &mut Packet) {
    (p.meta.ct_state, p.meta.ct_zone, p.meta.ct_mark, p.meta.ct_counted) = (0, 0, 0, false);
    if let Some(rare) = &mut p.meta.rare {
        let Rare { ct_label, ct_tuple, .. } = &mut **rare;
        (*ct_label, *ct_tuple) = ([0; 2], Tuple::default());
    }
}
