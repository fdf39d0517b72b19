//! NORMAL compared with a simple reference implementation.

use super::*;
use ::bridge::{MacObservation, VlanMode};
use flow::{VLAN_CFI, Vlan};
use proptest::prelude::*;
use std::collections::HashMap;

#[test]
fn unknown_stations_are_flooded_known_ones_are_not() {
    let mut b = TestBridge::with_ports(BR0, 3, 0);
    b.flow(0, 1, &[], vec![normal()]);
    let flood = run(&switch(std::slice::from_mut(&mut b)), &tcp(1));
    assert_eq!(outputs(&flood), [2, 3]);
    let [PacketEffect::MacLearn { observation, .. }] = flood.effects.as_slice() else {
        panic!("{:?}", flood.effects)
    };
    assert_eq!((observation.mac, observation.port), (mac(1), BundleId(1)));
    b.macs.update(observation, Millis(0));
    let back = Flow { dl_src: mac(2), dl_dst: mac(1), ..tcp(2) };
    assert_eq!(outputs(&run(&switch(std::slice::from_mut(&mut b)), &back)), [1]);
    let own = Flow { dl_src: mac(2), dl_dst: mac(1), ..tcp(1) };
    assert_eq!(outputs(&run(&switch(std::slice::from_mut(&mut b)), &own)), [0u32; 0]);
}

#[test]
fn link_protocols_stay_on_their_link() {
    let mut b = TestBridge::with_ports(BR0, 2, 0);
    b.flow(0, 1, &[], vec![normal()]);
    let lldp = Flow { dl_dst: Mac([0x01, 0x80, 0xc2, 0, 0, 0x0e]), ..tcp(1) };
    assert_eq!(outputs(&run(&switch(&mut [b]), &lldp)), [0u32; 0]);
    assert!(is_reserved(Mac([0x01, 0, 0x0c, 0xcc, 0xcc, 0xcc])) && !is_reserved(Mac::BROADCAST));
}

#[test]
fn gratuitous_arps_are_told_apart_by_the_mask() {
    let mut b = TestBridge::with_ports(BR0, 2, 0);
    b.flow(0, 1, &[], vec![normal()]);
    let arp = Flow { dl_type: 0x0806, nw_proto: 1, dl_dst: Mac::BROADCAST, nw_src: 5, nw_dst: 5, ..tcp(1) };
    let o = run(&switch(&mut [b]), &arp);
    let [PacketEffect::MacLearn { observation, .. }] = o.effects.as_slice() else {
        panic!("{:?}", o.effects)
    };
    assert!(observation.grat_arp);
    assert_eq!((o.mask.nw_proto, o.mask.nw_src, o.mask.nw_dst), (0xff, u32::MAX, u32::MAX));
}

/// The reference implementation: a map from station to port, and the standard's rules on tags.
#[derive(Default)]
struct Naive {
    stations: HashMap<(u16, Mac), u16>,
}

impl Naive {
    /// The ports that get the frame, each with the VID on the wire (0: no tag).
    fn forward(
        &mut self,
        ports: &[(VlanMode, u16)],
        at: u16,
        vid: u16,
        src: Mac,
        dst: Mac,
    ) -> Vec<(u16, u16)> {
        let (mode, own) = ports[usize::from(at) - 1];
        let vlan = match (mode, vid) {
            (VlanMode::Access, 0) => own,
            (VlanMode::Access, _) => return Vec::new(),
            (VlanMode::Trunk, v) => v,
            (_, 0) => own,
            (_, v) => v,
        };
        self.stations.insert((vlan, src), at);
        let known = self.stations.get(&(vlan, dst)).copied();
        let mut sent = Vec::new();
        for (i, &(mode, own)) in ports.iter().enumerate() {
            let port = i as u16 + 1;
            if port == at || known.is_some_and(|k| k != port) {
                continue;
            }
            // Packets to a learned station are sent without checking the VLANs of the port.
            let carries = match mode {
                VlanMode::Access => vlan == own,
                VlanMode::Trunk => true,
                _ => vlan != 0,
            };
            if carries || known == Some(port) {
                let tag = match mode {
                    VlanMode::Access => 0,
                    VlanMode::NativeUntagged if vlan == own => 0,
                    _ => vlan,
                };
                sent.push((port, tag));
            }
        }
        sent
    }
}

/// Port and tag of each output, derived from the actions.
fn sent(o: &Output) -> Vec<(u16, u16)> {
    let mut vid = o.initial.vlan_vid().unwrap_or(0);
    let mut sent = Vec::new();
    for a in &o.actions {
        match a {
            DpAction::PopVlan => vid = 0,
            DpAction::PushVlan { tci, .. } => vid = tci & 0xfff,
            DpAction::Output(p) => sent.push((p.0 as u16, vid)),
            DpAction::Drop(_) => {}
            other => panic!("{other:?}"),
        }
    }
    sent
}

fn mode() -> impl Strategy<Value = (VlanMode, u16)> {
    prop_oneof![
        (1u16..4).prop_map(|v| (VlanMode::Access, v)),
        Just((VlanMode::Trunk, 0)),
        (1u16..4).prop_map(|v| (VlanMode::NativeTagged, v)),
        (1u16..4).prop_map(|v| (VlanMode::NativeUntagged, v)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn forwards_as_the_naive_switch(
        ports in proptest::collection::vec(mode(), 2..5),
        frames in proptest::collection::vec((0usize..4, 0u16..4, 0u8..4, 0u8..5), 1..30),
    ) {
        let mut b = TestBridge::new(BR0);
        for (i, (mode, tag)) in ports.iter().enumerate() {
            let number = i as u16 + 1;
            let vlan = VlanConfig { mode: *mode, tag: *tag, ..VlanConfig::default() };
            b.port(number, Attachment::Datapath(PortNo(u32::from(number))), vlan);
        }
        b.flow(0, 1, &[], vec![normal()]);
        let mut naive = Naive::default();
        for (at, vid, src, dst) in frames {
            let at = (at % ports.len()) as u16 + 1;
            let dst = if dst == 4 { Mac::BROADCAST } else { mac(dst) };
            let mut flow = Flow { dl_src: mac(src), dl_dst: dst, ..tcp(u32::from(at)) };
            if vid != 0 {
                flow.vlans[0] = Vlan { tpid: 0x8100, tci: VLAN_CFI | vid };
            }
            let o = run(&switch(std::slice::from_mut(&mut b)), &flow);
            for e in &o.effects {
                if let PacketEffect::MacLearn { observation, .. } = e {
                    let observation: &MacObservation = observation;
                    b.macs.update(observation, Millis(1000));
                }
            }
            prop_assert_eq!(sent(&o), naive.forward(&ports, at, vid, mac(src), dst));
        }
    }
}
