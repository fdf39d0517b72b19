//! Packets that no port received: a controller's, and the switch's own.

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

/// A frame that the switch itself has made, and what becomes of it.
pub struct OwnFrame<'a> {
    /// The bridge where it starts.
    pub bridge: BridgeId,
    /// The port that seems to have received it: OpenFlow's number and the datapath's.
    pub from: (OfPort, PortNo),
    /// From the Ethernet header on.
    pub frame: &'a [u8],
    /// What is done with it; no table sees it unless an output asks for that.
    pub actions: &'a [Action],
}

impl OwnFrame<'_> {
    /// Received by no port: no session takes it for a message to itself.
    pub const NOWHERE: (OfPort, PortNo) = (OfPort::NONE, PortNo::NONE);
}

impl Handler {
    /// Sends a frame of the switch's own. **Threads**: any.
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

    /// Translates the packet of `input` in `snapshot` and executes what comes out, as if it had been received by this
    /// port of the datapath. **Threads**: any.
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
