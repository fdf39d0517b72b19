//! Ports in the states of a spanning tree.

use super::*;
use ::bridge::spanning_tree::{DESTINATION, PortState, PortTreeState, Protocol};
use dpif::{DropReason, SlowReason};

/// A bridge with NORMAL, whose port 1 has this state; port 2 forwards, port 3 takes no part.
fn bridge(protocol: Protocol, state: PortState) -> TestBridge {
    let mut b = TestBridge::with_ports(BR0, 3, 0);
    b.flow(0, 1, &[], vec![normal()]);
    for (port, state) in [(1, state), (2, PortState::Forwarding)] {
        b.ports.get_mut(&OfPort(port)).unwrap().tree = Some(PortTreeState { protocol, state });
        b.bundles[usize::from(port) - 1].floodable = state.forwards();
    }
    b
}

fn bpdu(in_port: u32) -> Flow {
    Flow { in_port, dl_type: 0x05ff, dl_src: mac(9), dl_dst: DESTINATION, ..Flow::ZERO }
}

fn learns(o: &Output) -> bool {
    o.effects.iter().any(|e| matches!(e, PacketEffect::MacLearn { .. }))
}

const DROP: [DpAction; 1] = [DpAction::Drop(DropReason::ActionForwardingDisabled)];

#[test]
fn the_bridge_takes_all_bpdus() {
    for state in [PortState::Disabled, PortState::Discarding, PortState::Forwarding] {
        let s = switch(&mut [bridge(Protocol::Rstp, state)]);
        let o = run(&s, &bpdu(1));
        assert!(matches!(o.effects[..], [PacketEffect::Bpdu { at: (BR0, OfPort(1)) }]));
        assert_eq!((o.slow, outputs(&o)), (SlowReason::STP, vec![]));
        // The port takes no part in the tree, but BPDUs are not forwarded from it either.
        let o = run(&s, &bpdu(3));
        assert!(o.effects.is_empty() && o.slow == SlowReason::STP && outputs(&o).is_empty());
        // Another protocol with a length instead of an Ethernet type.
        let o = run(&s, &Flow { dl_dst: mac(2), ..bpdu(2) });
        assert_eq!((o.slow, outputs(&o).contains(&3)), (SlowReason::empty(), true));
    }
    let mut without = TestBridge::with_ports(BR0, 2, 0);
    without.flow(0, 1, &[], vec![out(2)]);
    assert_eq!(outputs(&run(&switch(&mut [without]), &bpdu(1))), [2]);
}

#[test]
fn a_port_learns_before_it_forwards() {
    for (protocol, state) in [
        (Protocol::Stp, PortState::Disabled),
        (Protocol::Stp, PortState::Blocking),
        (Protocol::Stp, PortState::Listening),
        (Protocol::Rstp, PortState::Discarding),
    ] {
        let o = run(&switch(&mut [bridge(protocol, state)]), &tcp(1));
        assert!(!learns(&o) && o.actions == DROP, "{state:?}: {:?}", o.actions);
    }
    let o = run(&switch(&mut [bridge(Protocol::Stp, PortState::Learning)]), &tcp(1));
    assert!(learns(&o) && o.actions == DROP, "{:?}", o.actions);
    let o = run(&switch(&mut [bridge(Protocol::Stp, PortState::Forwarding)]), &tcp(1));
    assert!(learns(&o) && outputs(&o) == [2, 3]);
}

#[test]
fn nothing_leaves_by_a_port_that_does_not_forward() {
    for (protocol, state, line) in [
        (Protocol::Stp, PortState::Learning, "STP not in forwarding state, skipping output"),
        (Protocol::Rstp, PortState::Discarding, "RSTP not in forwarding state, skipping output"),
    ] {
        let mut b = bridge(protocol, state);
        assert_eq!(outputs(&run(&switch(&mut [b]), &tcp(2))), [3]);
        for actions in [vec![out(1)], vec![Action::output(OfPort::FLOOD)]] {
            b = bridge(protocol, state);
            b.flow(0, 2, &[], actions);
            let s = switch(&mut [b]);
            assert!(!outputs(&run(&s, &tcp(2))).contains(&1));
            assert!(trace(&s, &tcp(2)).contains(line), "{}", trace(&s, &tcp(2)));
        }
        // Output to `ALL` ignores the port states.
        b = bridge(protocol, state);
        b.flow(0, 2, &[], vec![Action::output(OfPort::ALL)]);
        assert_eq!(outputs(&run(&switch(&mut [b]), &tcp(2))), [1, 3]);
    }
}

#[test]
fn own_bpdus_leave_by_any_port() {
    for state in [PortState::Blocking, PortState::Listening, PortState::Discarding] {
        let s = switch(&mut [bridge(Protocol::Stp, state)]);
        let (flow, recirc) = (bpdu(u32::from(OfPort::NONE.0)), SharedRecirc::default());
        let actions = [out(1)];
        let own = Input { start: Start::Actions(&actions), ..input(&flow, &recirc) };
        assert_eq!(outputs(&translate(&s, &own)), [1], "{state:?}");
        let of_controller = Input { packet_out: true, ..own };
        let passes = state != PortState::Blocking;
        assert_eq!(outputs(&translate(&s, &of_controller)), if passes { vec![1] } else { vec![] });
    }
}

#[test]
fn a_patch_port_that_learns_forwards_nothing() {
    for state in [PortState::Discarding, PortState::Learning, PortState::Forwarding] {
        let mut near = TestBridge::with_ports(BR0, 1, 0);
        near.port(2, Attachment::Patch(BR1, OfPort(5)), VlanConfig::trunk());
        near.flow(0, 1, &[], vec![out(2)]);
        let mut far = TestBridge::new(BR1);
        far.port(5, Attachment::Patch(BR0, OfPort(2)), VlanConfig::trunk());
        far.port(6, Attachment::Datapath(PortNo(6)), VlanConfig::trunk());
        far.flow(0, 1, &[], vec![normal()]);
        far.ports.get_mut(&OfPort(5)).unwrap().tree = Some(PortTreeState { protocol: Protocol::Rstp, state });
        let s = switch(&mut [near, far]);
        let o = run(&s, &tcp(1));
        assert_eq!(
            (learns(&o), outputs(&o).len()),
            (state.learns(), usize::from(state.forwards())),
            "{state:?}"
        );
        let o = run(&s, &bpdu(1));
        assert!(matches!(o.effects[..], [PacketEffect::Bpdu { at: (BR1, OfPort(5)) }]));
    }
}

#[test]
fn only_walks_that_consult_a_state_depend_on_it() {
    let mut b = bridge(Protocol::Rstp, PortState::Forwarding);
    b.flow(0, 2, &[(FieldId::InPort, 3)], vec![out(2)]);
    let s = switch(&mut [b]);
    let affected = |flow: &Flow, port: u16| {
        let change = DependencyChange::PortState { bridge: BR0, port: OfPort(port) };
        !run(&s, flow).dependencies.affected_by(&change).is_empty()
    };
    // Received by a port of the tree and flooded; received by another port and sent to port 2.
    assert_eq!([1, 2, 3].map(|port| affected(&tcp(1), port)), [true, true, true]);
    assert_eq!([1, 2].map(|port| affected(&tcp(3), port)), [false, true]);
    let all = run(&s, &tcp(1)).dependencies.affected_by(&DependencyChange::Stations { bridge: BR0 });
    assert!(!all.is_empty());
    assert!(
        run(&s, &tcp(3)).dependencies.affected_by(&DependencyChange::Stations { bridge: BR0 }).is_empty()
    );
}
