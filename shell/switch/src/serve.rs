//! What an OpenFlow request of one bridge needs of the rest of the switch.
//!
//! The bridge is taken out of the switch while its request is served. Packet-outs wait until it is back, since they go
//! through the published state of all bridges; their effects still come before the next request of any connection.

use crate::openflow::{self as service, Host};
use crate::owner::Owner;
use crate::port::{Backing, BridgePort};
use crate::switch::Switch;
use dpif::{FlowOwner, FlowStats};
use flow::Flow;
use flow::extract::extract;
use ofconn::Request;
use ofproto::Tables;
use openflow::flow_mod::Duration;
use openflow::packet_io::PacketOut;
use openflow::stats::PortStats;
use std::sync::Arc;
use units::{Millis, PortNo};
use xlate::{BridgeId, Input, Snapshot, Start, translate};

/// VLAN tags that a packet-out's packet is looked at for.
const VLAN_LIMIT: usize = flow::flow::VLANS_MAX;

struct Rest<'a> {
    switch: &'a mut Switch,
    kind: String,
    packet_outs: Vec<(PacketOut, Option<Arc<Tables>>)>,
}

impl Switch {
    /// Serves one request of a connection of a bridge.
    pub(crate) fn serve(&mut self, name: &str, request: &Request) {
        let Some(mut bridge) = self.bridges.remove(name) else { return };
        let kind = bridge.config.datapath_type.clone();
        let mut rest = Rest { switch: self, kind, packet_outs: Vec::new() };
        service::handle(&mut bridge, &mut rest, request);
        let packet_outs = rest.packet_outs;
        let id = bridge.id;
        self.bridges.insert(name.to_owned(), bridge);
        for (packet_out, tables) in packet_outs {
            self.packet_out(id, &packet_out, tables);
        }
    }

    fn packet_out(&mut self, bridge: BridgeId, packet_out: &PacketOut, tables: Option<Arc<Tables>>) {
        self.publish_changes();
        let now = self.clock.now();
        let Some((kind, number)) = self.bridges.values().find(|b| b.id == bridge).map(|b| {
            let port = b.ports.get(&packet_out.in_port()).and_then(BridgePort::number);
            (b.config.datapath_type.clone(), port.unwrap_or(PortNo::NONE))
        }) else {
            return;
        };
        let Some(backer) = self.backers.get(&kind) else { return };
        let mut flow = packet_out.metadata.flow;
        extract(&packet_out.packet, VLAN_LIMIT, &mut flow);
        let published = backer.control.published();
        let input = Input {
            bridge,
            flow: &flow,
            packet: Some(&packet_out.packet),
            start: Start::Actions(&packet_out.actions),
            packet_out: true,
            side_effects: true,
            pretend: false,
            recirc: &*backer.control,
            trace: None,
        };
        let output = match tables {
            Some(tables) => translate(&with_tables(&published.snapshot, bridge, tables), &input),
            None => translate(&published.snapshot, &input),
        };
        crate::handler::Handler::log(&output);
        backer.handler.carry_out(&published, output.effects, now);
        let datapath_flow = Flow { in_port: number.0, ..flow };
        backer.datapath.execute(&packet_out.packet, &datapath_flow, &output.actions, now);
        let owner = Owner::new(&backer.control, &backer.patches, output.credits, output.recircs, true);
        let bytes = packet_out.packet.len() as u64;
        owner.credit(&FlowStats { packets: 1, bytes, used: Some(now), tcp_flags: flow.tcp_flags });
    }
}

impl Host for Rest<'_> {
    fn now(&self) -> Millis {
        self.switch.clock.now()
    }

    fn fold_statistics(&mut self) {
        if let Some(backer) = self.switch.backers.get(&self.kind) {
            backer.datapath.maintain(self.switch.clock.now());
        }
    }

    fn port_stats(&mut self, bridge: BridgeId, port: &mut BridgePort) -> PortStats {
        let now = self.switch.clock.now();
        let age = now.since(port.created).0;
        let duration = Duration { sec: (age / 1000) as u32, nsec: (age % 1000) as u32 * 1_000_000 };
        let known = PortStats { port: port.ofport, duration, ..PortStats::default() };
        match &mut port.backing {
            Backing::Device { netdev, .. } => match netdev.stats() {
                Ok(s) => device_stats(known, &s),
                Err(_) => known,
            },
            Backing::Patch { .. } => match self.switch.backers.get(&self.kind) {
                Some(backer) => {
                    let s = backer.patches.get(bridge, port.ofport);
                    PortStats {
                        rx_packets: s.rx_packets,
                        rx_bytes: s.rx_bytes,
                        tx_packets: s.tx_packets,
                        tx_bytes: s.tx_bytes,
                        ..known
                    }
                }
                None => known,
            },
        }
    }

    fn set_port_admin(&mut self, port: &mut BridgePort, up: bool) -> bool {
        let Some(netdev) = port.netdev() else { return true };
        if netdev.set_admin(up).is_err() {
            return false;
        }
        let facts = netdev.facts();
        if let Ok(facts) = facts {
            port.facts = Some(facts);
        }
        true
    }

    fn changed(&mut self) {
        if let Some(backer) = self.switch.backers.get_mut(&self.kind) {
            backer.dirty = true;
        }
    }

    fn packet_out(&mut self, packet: &PacketOut, tables: Option<Arc<Tables>>) {
        self.packet_outs.push((packet.clone(), tables));
    }
}

/// The same moment but for the tables of one bridge.
fn with_tables(snapshot: &Snapshot, bridge: BridgeId, tables: Arc<Tables>) -> Snapshot {
    let mut changed = snapshot.clone();
    if let Some(b) = changed.bridges.get_mut(&bridge) {
        Arc::make_mut(b).tables = tables;
    }
    changed
}

/// What a device counts, in OpenFlow's words. What it does not count is not known.
fn device_stats(known: PortStats, s: &netdev::stats::Stats) -> PortStats {
    let n = |v: Option<u64>| v.unwrap_or(openflow::stats::UNKNOWN);
    PortStats {
        rx_packets: n(s.rx_packets),
        tx_packets: n(s.tx_packets),
        rx_bytes: n(s.rx_bytes),
        tx_bytes: n(s.tx_bytes),
        rx_dropped: n(s.rx_dropped),
        tx_dropped: n(s.tx_dropped),
        rx_errors: n(s.rx_errors),
        tx_errors: n(s.tx_errors),
        rx_frame_errors: n(s.rx_frame_errors),
        rx_over_errors: n(s.rx_over_errors),
        rx_crc_errors: n(s.rx_crc_errors),
        collisions: n(s.collisions),
        custom: s.custom.clone(),
        ..known
    }
}
