//! Publishes the snapshot that translations read.
//!
//! Only the ports, Port rows and patch peers that changed since the last snapshot are updated. If only tables changed, only the
//! bridges with a changed table are updated. The result equals a snapshot made from scratch
//! (`tests::an_updated_snapshot_equals_a_new_one`).

use crate::backer::Backer;
use crate::link_aggregation::LinkAggregation;
use crate::snapshot_builder::{Peers, SnapshotBuilder};
use crate::underlay::Underlay;
use config::PortConfig;
use numbered::NumberedTable;
use openflow::session::FragMode;
use openflow_service::Bridge;
use openflow_service::{Backing, BridgePort, TouchedPorts};
use sampling::Exporters;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use units::OfPort;
use xlate::{
    Attachment, BridgeId, Bundle, Fragments, PortFlags, PortView, Snapshot, TunnelPort, TunnelPorts,
};

/// Publishes the state of a datapath's bridges. `backer.changes` has the changes since the last publication.
pub fn publish(backer: &mut Backer, bridges: &mut BTreeMap<String, Bridge>, underlay: &Underlay) {
    let of_datapath = || bridges.values().filter(|b| b.config.datapath_type == backer.datapath_type);
    if backer.changes.only_tables_changed() && !of_datapath().any(|b| b.ports.differ_from_snapshot()) {
        publish_tables(backer, bridges);
    } else {
        publish_all(backer, bridges, underlay);
    }
}

/// Publishes the changed tables of bridges; nothing else of the snapshot has changed.
fn publish_tables(backer: &mut Backer, bridges: &mut BTreeMap<String, Bridge>) {
    let snapshot = &mut backer.snapshot_builder.snapshot;
    for bridge in bridges.values_mut() {
        let Some(before) = snapshot.bridges.get_mut(&bridge.id) else { continue };
        let tables = bridge.ofproto.publish();
        if !Arc::ptr_eq(&before.tables, &tables) {
            *before = Arc::new(xlate::BridgeView { tables, ..(**before).clone() });
        }
    }
    let last = backer.shared.published();
    backer.shared.publish(snapshot.clone(), Arc::clone(&last.macs), Arc::clone(&last.groups));
}

/// Publishes everything that may have changed.
fn publish_all(backer: &mut Backer, bridges: &mut BTreeMap<String, Bridge>, underlay: &Underlay) {
    let builder = &mut backer.snapshot_builder;
    let mut of_datapath: Vec<&mut Bridge> =
        bridges.values_mut().filter(|b| b.config.datapath_type == backer.datapath_type).collect();
    update_peers(&mut builder.peers, &mut of_datapath);
    let SnapshotBuilder { snapshot, peers, tunnels_changed, .. } = builder;
    snapshot.capabilities = backer.upcall_translator.command_settings.capabilities();
    snapshot.timeouts = Arc::clone(backer.tracking.timeouts.zones());
    let mut macs = HashMap::new();
    let mut groups = HashMap::new();
    for bridge in &mut of_datapath {
        macs.insert(bridge.id, Arc::clone(&bridge.macs));
        if bridge.config.snooping.is_some() {
            groups.insert(bridge.id, Arc::clone(&bridge.multicast_groups));
        }
        *tunnels_changed |=
            update_bridge(bridge, snapshot, peers, (&backer.link_aggregation, &backer.shared.exporters));
    }
    snapshot.bridges.retain(|id, _| macs.contains_key(id));
    if std::mem::take(tunnels_changed) {
        snapshot.tunnels = tunnels(&of_datapath);
    }
    if !snapshot.tunnels.is_empty() {
        snapshot.underlay = crate::underlay::view::view(underlay, &backer.datapath_type, bridges);
    }
    backer.shared.publish(snapshot.clone(), Arc::new(macs), Arc::new(groups));
}

/// Updates a bridge in the snapshot. Returns whether a tunnel port was among the changes.
fn update_bridge(
    bridge: &mut Bridge,
    snapshot: &mut Snapshot,
    peers: &Peers,
    (link_aggregation, exporters): (&LinkAggregation, &Exporters),
) -> bool {
    let touched = bridge.ports.take_for_snapshot();
    if !bridge.config.sampling.is_empty() && !touched.is_empty() {
        crate::sampling::pass_ports_to_exporters(bridge, exporters);
    }
    let mut tunnels = false;
    for port in touched.ports.iter().filter_map(|port| bridge.ports.get(port)) {
        match (port.number(), port.tunnel()) {
            (Some(_), Some(_)) => tunnels = true,
            (Some(number), None) => snapshot.ingress.insert(number, (bridge.id, port.ofport)),
            (None, _) => {}
        }
    }
    let before = snapshot.bridges.get(&bridge.id);
    let mut port_views = before.map(|b| PortViews { ports: b.ports.clone(), bundles: b.bundles.clone() });
    let sampling = crate::sampling::view(bridge, exporters);
    let view = view(bridge, port_views.take().unwrap_or_default(), touched, (peers, link_aggregation));
    let view = xlate::BridgeView { sampling, ..view };
    snapshot.bridges.insert(bridge.id, Arc::new(view));
    tunnels
}

fn tunnels(bridges: &[&mut Bridge]) -> TunnelPorts {
    let mut tunnels = TunnelPorts::default();
    for bridge in bridges {
        for port in bridge.ports.tunnels() {
            if let (Some(number), Some(config)) = (port.number(), port.tunnel()) {
                let at = (bridge.id, port.ofport);
                tunnels.push(TunnelPort { number, at, config: Arc::clone(config) });
            }
        }
    }
    tunnels
}

/// Updates the peers of patch ports. Two patch ports are peers if they name each other and their bridges belong to the
/// same datapath. Ports whose peer changed are marked as changed.
fn update_peers(published: &mut Peers, bridges: &mut [&mut Bridge]) {
    let now = peers(bridges);
    let differs = |at: &(BridgeId, OfPort)| published.get(at) != now.get(at);
    let differ: BTreeSet<(BridgeId, OfPort)> =
        published.keys().chain(now.keys()).filter(|at| differs(at)).copied().collect();
    for bridge in bridges.iter_mut() {
        let range = (bridge.id, OfPort(0))..=(bridge.id, OfPort(u16::MAX));
        differ.range(range).for_each(|(_, port)| bridge.ports.touch(*port));
    }
    *published = now;
}

/// For each patch port whose peer names it as peer: that peer.
fn peers(bridges: &[&mut Bridge]) -> Peers {
    let mut by_name: HashMap<&str, (&str, (BridgeId, OfPort))> = HashMap::new();
    for bridge in bridges {
        for port in bridge.ports.patches() {
            if let Some(peer) = port.peer() {
                by_name.insert(port.name.as_str(), (peer, (bridge.id, port.ofport)));
            }
        }
    }
    let of = |(name, (peer, at)): (&&str, &(&str, (BridgeId, OfPort)))| {
        let (back, other) = by_name.get(peer)?;
        (back == name).then_some((*at, *other))
    };
    by_name.iter().filter_map(of).collect()
}

/// The parts of a bridge's snapshot that describe ports.
#[derive(Default)]
struct PortViews {
    ports: NumberedTable<OfPort, PortView>,
    bundles: NumberedTable<bridge::BundleId, Bundle>,
}

/// A bridge in the form that translations read. `port_views`: the ports of the last snapshot, in which the touched ports are updated.
fn view(
    bridge: &mut Bridge,
    mut port_views: PortViews,
    touched: TouchedPorts,
    (peers, link_aggregation): (&Peers, &LinkAggregation),
) -> xlate::BridgeView {
    let tables = bridge.ofproto.publish();
    let mut rows = touched.rows;
    let there = touched.ports.iter().filter_map(|port| bridge.ports.get(port));
    let numbered: Vec<(OfPort, String)> = there.map(|p| (p.ofport, p.port_row.clone())).collect();
    rows.extend(numbered.iter().map(|(_, row)| row.clone()));
    number_bundles(bridge, numbered, &rows);
    let mirrors = crate::mirrors::view(bridge);
    rows.iter().for_each(|row| update_port_row(bridge, row, &mut port_views, (peers, link_aggregation)));
    xlate::BridgeView {
        id: bridge.id,
        name: bridge.name.clone(),
        tables,
        macs: Arc::clone(&bridge.macs) as Arc<dyn bridge::MacRead + Send + Sync>,
        snooping: crate::snooping::view(bridge),
        ports: port_views.ports,
        bundles: port_views.bundles,
        mirrors,
        sampling: None,
        forward_bpdu: bridge.config.forward_bpdu,
        in_band: !bridge.controllers.in_band.wanted.remotes.is_empty(),
        tree: bridge.config.spanning_tree.protocol(),
        packet_in_on_miss: bridge.controllers.packet_in_on_miss,
        controller_port_live: bridge.controllers.any_connected,
        fragments: match bridge.frags {
            FragMode::Drop => Fragments::Drop,
            FragMode::NxMatch => Fragments::Match,
            FragMode::Normal | FragMode::Reassemble => Fragments::Normal,
        },
    }
}

/// Updates a Port row and its interfaces in the snapshot. Packets are flooded in the order of
/// bundle numbers (see [`number_bundles`]).
fn update_port_row(
    bridge: &Bridge,
    name: &str,
    port_views: &mut PortViews,
    (peers, link_aggregation): (&Peers, &LinkAggregation),
) {
    let Some(id) = bridge.known_bundle(name) else { return };
    let had = port_views.bundles.get(&id).map(|bundle| bundle.ports.clone());
    for port in had.unwrap_or_default() {
        if port_views.ports.get(&port).is_some_and(|port| port.bundle == Some(id)) {
            port_views.ports.remove(&port);
        }
    }
    port_views.bundles.remove(&id);
    let Some(row) = bridge.config.ports.get(name) else {
        return crate::snooping::apply_port_settings(bridge, None, id);
    };
    let named = row.interfaces.iter().filter_map(|i| bridge.ports.named(&i.name));
    let mut members: Vec<&BridgePort> = named.filter(|port| port.port_row == name).collect();
    members.sort_by_key(|port| port.ofport);
    crate::snooping::apply_port_settings(bridge, Some(row).filter(|_| !members.is_empty()), id);
    if members.is_empty() {
        return;
    }
    let mut floodable = false;
    for port in &members {
        let mut view = PortView::new(port.ofport, &port.name, id, attachment(bridge.id, port, peers));
        view.flags = flags(port);
        view.is_live = port.may_enable();
        view.lacp = port.lacp.is_some();
        view.tree = port.tree;
        view.ifindex = port.facts.as_ref().and_then(|facts| facts.ifindex).unwrap_or(0);
        view.bfd = port.bfd.as_ref().map(|bfd| bfd.filter);
        view.cfm = port.cfm.as_ref().map(|cfm| cfm.filter);
        view.lldp = port.lldp.as_ref().is_some_and(|lldp| lldp.enabled);
        view.tunnel = port.tunnel().cloned();
        view.queue_dscp = queue_dscp(row);
        let forwards = view.tree.is_none_or(|tree| tree.state.forwards());
        floodable |= !view.flags.contains(PortFlags::NO_FLOOD) && forwards;
        port_views.ports.insert(port.ofport, view);
    }
    let bundle = Bundle {
        id,
        name: name.to_owned(),
        ports: members.iter().map(|port| port.ofport).collect(),
        vlan: row.vlan.clone(),
        floodable,
        protected: row.protected,
        bond: link_aggregation.view(&(bridge.id, name.to_owned())),
    };
    port_views.bundles.insert(id, bundle);
}

/// The DSCP of each queue number, shifted to its position in the TOS byte.
fn queue_dscp(row: &PortConfig) -> Vec<(u32, u8)> {
    let queues = row.qos.iter().flat_map(|qos| &qos.queues);
    queues.filter_map(|(number, queue)| Some((*number, queue.dscp? << 2))).collect()
}

/// Assigns numbers to new bundles. The order is: the bundle of the bridge's own port, the others by port number, then
/// Port rows without a port.
fn number_bundles(bridge: &mut Bridge, mut ports: Vec<(OfPort, String)>, rows: &BTreeSet<String>) {
    ports.retain(|(_, row)| bridge.known_bundle(row).is_none());
    ports.sort_by_key(|(port, _)| port.0.wrapping_sub(OfPort::LOCAL.0));
    let empty = rows.iter().filter(|row| bridge.config.ports.contains_key(*row)).cloned();
    let all: Vec<String> = ports.into_iter().map(|(_, row)| row).chain(empty).collect();
    for row in all {
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
