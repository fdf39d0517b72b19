//! Building the snapshot that translations see from the bridges of the main loop.

use crate::backer::Backer;
use crate::bridge::Bridge;
use crate::port::{Backing, BridgePort};
use config::{FailMode, PortConfig};
use openflow::session::FragMode;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use units::OfPort;
use xlate::{Attachment, BridgeId, Bundle, Fragments, Port, PortFlags, Snapshot, TunnelPort};

/// Publishes the state of a datapath's bridges.
pub fn publish(backer: &Backer, bridges: &mut BTreeMap<String, Bridge>) {
    let kind = backer.kind.as_str();
    let peers = peers(bridges);
    let capabilities = backer.handler.knobs.capabilities();
    let mut snapshot = Snapshot { capabilities, chain: backer.chain, ..Snapshot::default() };
    let mut macs = HashMap::new();
    for bridge in bridges.values_mut().filter(|b| b.config.datapath_type == kind) {
        macs.insert(bridge.id, Arc::clone(&bridge.macs));
        for port in bridge.ports.values() {
            let at = (bridge.id, port.ofport);
            match (port.number(), port.tunnel()) {
                (Some(number), Some(config)) => {
                    snapshot.tunnels.push(TunnelPort { number, at, config: Arc::clone(config) });
                }
                (Some(number), None) => drop(snapshot.ingress.insert(number, at)),
                (None, _) => {}
            }
        }
        let view = view(bridge, &peers);
        snapshot.bridges.insert(bridge.id, Arc::new(view));
    }
    backer.control.publish(snapshot, macs);
}

/// Patch ports and their peers.
pub(crate) type Peers = HashMap<(BridgeId, OfPort), (BridgeId, OfPort)>;

/// Patch ports with their peers: two that name each other, in bridges of one datapath.
pub(crate) fn peers(bridges: &BTreeMap<String, Bridge>) -> Peers {
    type Name<'a> = (&'a str, &'a str);
    type Patch<'a> = (&'a str, (BridgeId, OfPort));
    let mut by_name: HashMap<Name, Patch> = HashMap::new();
    for bridge in bridges.values() {
        let kind = bridge.config.datapath_type.as_str();
        for port in bridge.ports.values() {
            if let Some(peer) = port.peer() {
                by_name.insert((kind, port.name.as_str()), (peer, (bridge.id, port.ofport)));
            }
        }
    }
    let of = |((kind, name), (peer, at)): (&Name, &Patch)| {
        let (back, other) = by_name.get(&(*kind, *peer))?;
        (back == name).then_some((*at, *other))
    };
    by_name.iter().filter_map(of).collect()
}

fn view(bridge: &mut Bridge, peers: &Peers) -> xlate::Bridge {
    let tables = bridge.ofproto.publish();
    let rows: Vec<(String, PortConfig)> =
        bridge.config.ports.iter().map(|(name, row)| (name.clone(), row.clone())).collect();
    number_bundles(bridge);
    let mut ports = BTreeMap::new();
    let mut bundles = Vec::new();
    for (name, row) in rows {
        let id = bridge.bundle_id(&name);
        let members: Vec<OfPort> =
            bridge.ports.values().filter(|p| p.port_row == name).map(|p| p.ofport).collect();
        if members.is_empty() {
            continue;
        }
        for ofport in &members {
            if let Some(port) = bridge.ports.get(ofport) {
                let attachment = attachment(bridge.id, port, peers);
                let mut view = Port::new(*ofport, &port.name, id, attachment);
                view.flags = flags(port);
                view.may_enable = port.may_enable();
                view.bfd = port.bfd.as_ref().map(|bfd| bfd.filter);
                view.tunnel = port.tunnel().cloned();
                ports.insert(*ofport, view);
            }
        }
        let floodable =
            members.iter().any(|p| ports.get(p).is_some_and(|p| !p.flags.contains(PortFlags::NO_FLOOD)));
        bundles.push(Bundle {
            id,
            name,
            ports: members,
            vlan: row.vlan.clone(),
            floodable,
            protected: row.protected,
        });
    }
    let mirrors = crate::mirrors::view(bridge);
    // Floods go out in the order in which the ports came.
    bundles.sort_by_key(|b| b.id);
    xlate::Bridge {
        id: bridge.id,
        name: bridge.name.clone(),
        tables,
        macs: Arc::clone(&bridge.macs) as Arc<dyn bridge::MacRead + Send + Sync>,
        ports,
        bundles,
        mirrors,
        forward_bpdu: bridge.config.forward_bpdu,
        packet_in_on_miss: bridge.packet_in_on_miss,
        alive: bridge.alive || bridge.config.fail_mode == FailMode::Standalone,
        fragments: match bridge.frags {
            FragMode::Drop => Fragments::Drop,
            FragMode::NxMatch => Fragments::Match,
            FragMode::Normal | FragMode::Reassemble => Fragments::Normal,
        },
    }
}

/// Bundles are numbered as they come; of those that come together the bridge's own is first, then by port number.
fn number_bundles(bridge: &mut Bridge) {
    let mut ports: Vec<(u16, String)> = bridge
        .ports
        .values()
        .map(|p| (p.ofport.0.wrapping_sub(OfPort::LOCAL.0), p.port_row.clone()))
        .collect();
    ports.sort();
    for (_, row) in ports {
        bridge.bundle_id(&row);
    }
}

fn attachment(bridge: BridgeId, port: &BridgePort, peers: &Peers) -> Attachment {
    match &port.backing {
        Backing::Device { number, .. } | Backing::Tunnel { number, .. } => Attachment::Datapath(*number),
        Backing::Patch { .. } => match peers.get(&(bridge, port.ofport)) {
            Some(&(peer, at)) => Attachment::Patch(peer, at),
            None => Attachment::None,
        },
    }
}

fn flags(port: &BridgePort) -> PortFlags {
    let c = &port.config;
    let down = c.port_down || port.facts.as_ref().is_some_and(|f| !f.admin_up);
    [
        (down, PortFlags::PORT_DOWN),
        (c.no_stp, PortFlags::NO_STP),
        (c.no_recv, PortFlags::NO_RECV),
        (c.no_recv_stp, PortFlags::NO_RECV_STP),
        (c.no_flood, PortFlags::NO_FLOOD),
        (c.no_fwd, PortFlags::NO_FWD),
        (c.no_packet_in, PortFlags::NO_PACKET_IN),
    ]
    .into_iter()
    .filter(|(on, _)| *on)
    .fold(PortFlags::empty(), |all, (_, flag)| all | flag)
}
