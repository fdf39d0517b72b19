//! Packets that no port received: a controller's, and the switch's own.

use crate::control::Published;
use crate::handler::Handler;
use crate::owner::Owner;
use datapath::Datapath;
use dpif::{FlowOwner, FlowStats};
use flow::Flow;
use units::{Millis, PortNo};
use xlate::{Input, Snapshot, translate};

impl Handler {
    /// Translates the packet of `input` in `snapshot` and executes what comes out, as if it had been received by this
    /// port of the datapath. **Threads**: any.
    pub(crate) fn inject(
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
        let owner = Owner::new(&self.control, &self.patches, output.credits, output.recircs, true);
        let (bytes, tcp_flags) = (packet.len() as u64, input.flow.tcp_flags);
        owner.credit(&FlowStats { packets: 1, bytes, used: Some(now), tcp_flags });
    }
}
