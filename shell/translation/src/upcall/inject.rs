//! Packets that no port received: those of controllers and of the switch itself.

use crate::published::Published;
use crate::upcall::handler::Handler;
use crate::upcall::owner::Owner;
use datapath::Datapath;
use dpif::{FlowOwner, FlowStats};
use flow::Flow;
use flow::extract::extract_from;
use openflow::Action;
use units::{Millis, OfPort, PortNo};
use xlate::{BridgeId, Input, Snapshot, Start, translate};

/// A frame that the switch itself made, with its actions.
pub struct OwnFrame<'a> {
    /// The bridge where it starts.
    pub bridge: BridgeId,
    /// The port that it appears to come from: OpenFlow port number and datapath port number.
    pub from: (OfPort, PortNo),
    /// From the Ethernet header on.
    pub frame: &'a [u8],
    /// Its actions. The frame goes through the tables only if an output action says so.
    pub actions: &'a [Action],
}

impl OwnFrame<'_> {
    /// No in port: no protocol session takes the frame for a message to itself.
    pub const NOWHERE: (OfPort, PortNo) = (OfPort::NONE, PortNo::NONE);
}

impl Handler {
    /// Sends a frame of the switch itself. **Threads**: any.
    pub fn send(&self, datapath: &Datapath, published: &Published, own: &OwnFrame<'_>, now: Millis) {
        let (in_port, number) = own.from;
        let input = Input {
            bridge: own.bridge,
            flow: &extract_from(own.frame, u32::from(in_port.0)),
            packet: Some(own.frame),
            start: Start::Actions(own.actions),
            packet_out: false,
            side_effects: true,
            pretend: false,
            recirc: &*self.shared,
            trace: None,
        };
        self.inject(datapath, (published, &published.snapshot), &input, number, now);
    }

    /// Translates the packet of `input` with `snapshot` and executes the actions as if this datapath port had received
    /// it. **Threads**: any.
    pub fn inject(
        &self,
        datapath: &Datapath,
        (published, snapshot): (&Published, &Snapshot),
        input: &Input<'_>,
        number: PortNo,
        now: Millis,
    ) {
        let Some(packet) = input.packet else { return };
        let mut output = translate(snapshot, input);
        Handler::log(&output);
        self.carry_out(published, std::mem::take(&mut output.effects), packet, now);
        let datapath_flow = Flow { in_port: number.0, recirc_id: 0, ..*input.flow };
        datapath.execute(packet, &datapath_flow, &output.packet_actions(), now);
        let owner = Owner::new(&self.shared, &self.patches, output.credits, output.recircs, true);
        let (bytes, tcp_flags) = (packet.len() as u64, input.flow.tcp_flags);
        owner.credit(&FlowStats { packets: 1, bytes, used: Some(now), tcp_flags });
    }
}
