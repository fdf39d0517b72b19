//! Spanning tree: a parsed BPDU is equal after it was written and parsed again. After any frames at any times, no timer of a bridge
//! stays due.

use bridge::spanning_tree::{Bpdu, Link, PortSetup, Settings, Tree, payload, rstp, stp};
use flow::Mac;
use units::{Millis, OfPort};

/// Number of ports of the bridge.
const PORTS: u16 = 3;
/// Number of bytes of a step: milliseconds, port and kind, BPDU.
const STEP: usize = 3 + 36;

pub fn run(data: &[u8]) {
    payload(data);
    if let Ok(bpdu) = Bpdu::decode(data) {
        assert_eq!(Bpdu::decode(&bpdu.encode()), Ok(bpdu));
    }
    bridge(data, &Settings::Stp(stp::Settings::default()));
    bridge(data, &Settings::Rstp(rstp::Settings::default()));
}

fn bridge(data: &[u8], settings: &Settings) {
    let mut now = Millis(1);
    let mut tree = Tree::new("br", settings, now);
    let setup = |n: u16| PortSetup {
        port: OfPort(n),
        name: format!("p{n}"),
        number: None,
        priority: 128,
        path_cost: 10,
        rapid: rstp::PortSettings::default(),
        link: Link { mac: Mac([2, 0, 0, 0, 0, n as u8]), up: true },
    };
    let ports: Vec<PortSetup> = (1..=PORTS).map(setup).collect();
    tree.configure(settings, &ports, now);
    for step in data.chunks_exact(STEP) {
        let Some((&[high, low, kind], bpdu)) = step.split_first_chunk() else { return };
        now = now + Millis(u64::from(u16::from_be_bytes([high, low])));
        let port = OfPort(u16::from(kind) % PORTS + 1);
        tree.run(now);
        match kind >> 6 {
            0 => tree.set_link(port, Link { up: kind & 0x20 != 0, ..Link::default() }, now),
            1 => tree.confirm(port, now),
            _ => tree.receive(port, &frame(bpdu), now),
        }
        run_due(&mut tree, now);
    }
}

fn frame(bpdu: &[u8]) -> Vec<u8> {
    let mut frame = vec![1, 0x80, 0xc2, 0, 0, 0, 2, 0, 0, 0, 0, 9, 0, 3 + bpdu.len() as u8, 0x42, 0x42, 3];
    frame.extend(bpdu);
    // The protocol gets its correct value, so that a search need not find it.
    frame[17..19].fill(0);
    frame
}

/// Takes the outputs and runs the timers, and checks that none is due afterwards.
fn run_due(tree: &mut Tree, now: Millis) {
    for (_, frame) in tree.take_output().frames {
        Bpdu::decode(payload(&frame).expect("it is a frame")).expect("it is a BPDU");
    }
    // The root bridge may announce a delay of zero; then a port passes through its states at once.
    (0..4).for_each(|_| tree.run(now));
    assert!(tree.deadline().is_none_or(|at| at > now));
    tree.show();
    tree.status();
}
