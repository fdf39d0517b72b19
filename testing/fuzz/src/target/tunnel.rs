//! Outer headers of received tunnel packets, and headers to be added.

use ::tunnel::{Kind, PerPacket, Template, pop};

const KINDS: [Kind; 7] = [
    Kind::Vxlan { gbp: false },
    Kind::Vxlan { gbp: true },
    Kind::Geneve,
    Kind::Gre,
    Kind::Erspan,
    Kind::Gtpu,
    Kind::Srv6,
];

/// The first byte selects the kind of tunnel; a frame follows.
pub fn run(data: &[u8]) {
    let Some((&kind, frame)) = data.split_first() else { return };
    let kind = KINDS[usize::from(kind) % KINDS.len()];
    if let Ok(popped) = pop(kind, frame) {
        assert!(popped.header <= popped.end && popped.end <= frame.len(), "{popped:?}");
        assert!(popped.options.len() <= 252);
    }
    // Normally the switch builds these headers, but they may also come from the text of a flow.
    if let Some(template) = Template::new(frame, kind.number(false)) {
        let mut packet = vec![0; frame.len() + 60];
        assert!(template.write(&mut packet, &PerPacket::default()).is_some());
    }
}
