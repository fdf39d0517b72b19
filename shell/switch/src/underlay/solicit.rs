//! Sends neighbour requests for next hops, and the packets that waited for the answers.

use crate::switch::Switch;
use openflow::Action;
use translation::{HeldPacket, OwnFrame};
use units::{OfPort, PortNo};
use xlate::{Input, Solicitation, Start};

impl Switch {
    /// Sends a neighbour request, as if the port of the device had received it, unless the same request was sent
    /// recently.
    pub(crate) fn solicit(&mut self, kind: &str, asked: &Solicitation) {
        let now = self.clock.now();
        let Some(backer) = self.datapaths.of(kind) else { return };
        let (bridge, port) = asked.at;
        if !self.underlay.neighbours.may_request(bridge, asked.target, now) {
            return;
        }
        let Some(frame) = router::neighbour_request(asked.mac, asked.source, asked.target) else { return };
        let published = backer.shared.published();
        let actions = [Action::output(OfPort::TABLE)];
        let own = OwnFrame { bridge, from: (port, asked.number), frame: &frame, actions: &actions };
        backer.upcall_translator.send(&backer.datapath, &published, &own, now);
    }

    /// Sends packets whose next hop is now known.
    pub(crate) fn send_held_packets(&mut self, kind: &str, packets: &[HeldPacket]) {
        let now = self.clock.now();
        let Some(backer) = self.datapaths.of(kind) else { return };
        let published = backer.shared.published();
        for HeldPacket { held, packet, .. } in packets {
            let in_port = OfPort(held.initial.in_port as u16);
            let bridge = published.snapshot.bridge(held.at.0);
            let number = bridge.and_then(|b| b.datapath_port(in_port)).unwrap_or(PortNo::NONE);
            let input = Input {
                bridge: held.at.0,
                flow: &held.initial,
                packet: Some(packet),
                start: Start::TunnelOutput(held),
                packet_out: false,
                returns_side_effects: true,
                dry_run: false,
                recirc: &*backer.shared,
                trace_format: None,
            };
            backer.upcall_translator.inject(
                &backer.datapath,
                (&published, &published.snapshot),
                &input,
                number,
                now,
            );
        }
    }
}
