//! Packets that no port received: packets of controllers and of the switch itself.

use crate::published::PublishedState;
use crate::upcall::owner::Owner;
use crate::upcall::translator::UpcallTranslator;
use datapath::Datapath;
use dpif::{FlowOwner, FlowStats};
use flow::Flow;
use flow::extract::extract_from;
use openflow::Action;
use units::{Millis, OfPort, PortNo};
use xlate::{BridgeId, Input, Snapshot, Start, translate};

/// A frame that the switch itself made, with its actions.
pub struct OwnFrame<'a> {
    /// The bridge that executes the actions.
    pub bridge: BridgeId,
    /// The in port: OpenFlow port number and datapath port number.
    pub from: (OfPort, PortNo),
    /// The bytes of the frame, from the Ethernet header on.
    pub frame: &'a [u8],
    /// The actions that are executed. The frame enters the OpenFlow tables only if an action outputs it to `TABLE`.
    pub actions: &'a [Action],
}

impl OwnFrame<'_> {
    /// No in port, so that no protocol session on a port consumes the frame.
    pub const NO_PORT: (OfPort, PortNo) = (OfPort::NONE, PortNo::NONE);
}

impl UpcallTranslator {
    /// Sends a frame of the switch itself. **Threads**: any.
    pub fn send(&self, datapath: &Datapath, published: &PublishedState, own: &OwnFrame<'_>, now: Millis) {
        let (in_port, number) = own.from;
        let input = Input {
            bridge: own.bridge,
            flow: &extract_from(own.frame, u32::from(in_port.0)),
            packet: Some(own.frame),
            start: Start::Actions(own.actions),
            packet_out: false,
            returns_side_effects: true,
            dry_run: false,
            recirc: &*self.shared,
            trace_format: None,
        };
        self.inject(datapath, (published, &published.snapshot), &input, number, now);
    }

    /// Translates the packet of `input` with `snapshot`, and executes the actions as if datapath port `number` had received
    /// the packet. **Threads**: any.
    pub fn inject(
        &self,
        datapath: &Datapath,
        (published, snapshot): (&PublishedState, &Snapshot),
        input: &Input<'_>,
        number: PortNo,
        now: Millis,
    ) {
        let Some(packet) = input.packet else { return };
        let mut output = translate(snapshot, input);
        UpcallTranslator::log(&output);
        self.carry_out(published, std::mem::take(&mut output.effects), packet, now);
        let datapath_flow = Flow { in_port: number.0, recirc_id: 0, ..*input.flow };
        datapath.execute(packet, &datapath_flow, &output.packet_actions(), now);
        let owner =
            Owner::new(&self.shared, &self.patch_tunnel_counters, output.stats_targets, output.recircs, true);
        let (bytes, tcp_flags) = (packet.len() as u64, input.flow.tcp_flags);
        owner.credit(&FlowStats { packets: 1, bytes, used: Some(now), tcp_flags });
    }
}
