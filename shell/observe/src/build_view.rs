//! Builds a view on the main thread, in slices, so that one turn of the main loop reads at most [`SLICE`] ports.

use crate::view::{BridgeView, Counters, DatapathView, PortView, RxqView, View};
use bridge::vlan::VlanMode;
use netdev::device::Netdev;
use openflow_service::{Backing, Bridge, BridgePort};
use runtime::cpu_time;
use std::collections::BTreeSet;
use std::sync::Arc;
use switch::{Backer, PortPosition, Switch};
use units::{PortNo, QueueId};

/// Maximum cost of a slice. The unit is a port whose counters need not be read: about 1 µs.
const SLICE: usize = 1024;
/// Cost of a port whose device counters must be read, in the same unit.
const READ_COST: usize = 4;
/// Maximum number of meters that are shown of a bridge.
const METERS_MAX: usize = 1024;
/// The meter number that means all meters in OpenFlow.
const METER_ALL: u32 = 0xffff_ffff;

/// A view in progress.
#[derive(Default)]
pub struct ViewBuilder {
    view: View,
    /// The last port that was read.
    position: PortPosition,
    /// A view is in progress.
    started: bool,
}

impl ViewBuilder {
    /// Builds the next slice; returns the view when it is complete.
    pub fn run(&mut self, switch: &mut Switch) -> Option<View> {
        if !self.started {
            self.started = true;
            self.view.datapaths = switch.datapaths.all().map(datapath).collect();
        }
        if !self.read_ports(switch) {
            return None;
        }
        let mut view = std::mem::take(&mut self.view);
        *self = ViewBuilder::default();
        mark_disabled_rxqs(&mut view);
        view.bonds = bonds(switch);
        view.configured = switch.is_up();
        view.database_connected = switch.db.replica.is_synced();
        view.next_cfg = switch.applied.next_cfg;
        view.failed = switch.bridges.values().map(|b| b.failed.len()).sum();
        let polled = view.datapaths.iter().flat_map(|d| &d.workers).map(|w| w.core.0);
        let polled: BTreeSet<u32> = polled.collect();
        view.free_cores = switch.machine.cores.difference(&polled).copied().collect();
        view.now = switch.clock.now();
        view.taken = cpu_time::monotonic();
        Some(view)
    }

    /// Whether a view is in progress.
    pub fn is_running(&self) -> bool {
        self.started
    }

    /// Reads the next ports; returns true if there are no more.
    fn read_ports(&mut self, switch: &mut Switch) -> bool {
        let mut left = SLICE;
        loop {
            let Some((bridge, after)) = self.position.bridge(&mut switch.bridges) else { return true };
            if after.is_none() {
                self.view.bridges.push(bridge_view(bridge, switch.clock.now()));
            }
            let Some(at) = self.view.datapaths.iter().position(|d| d.kind == bridge.config.datapath_type)
            else {
                self.position.end_bridge();
                continue;
            };
            let bridge_name = self.view.bridges.last().map_or_else(|| Arc::from(""), |b| Arc::clone(&b.name));
            let backer = switch.datapaths.of_bridge(bridge);
            for port in bridge.ports.after_mut_unmarked(after) {
                self.position.visited(port.ofport);
                let counters = counters(port, backer, bridge.id);
                left = left.saturating_sub(if matches!(counters, Counters::Read(_)) { READ_COST } else { 1 });
                let logical =
                    switch::logical_name(&switch.db, &bridge.config, port).unwrap_or_default().to_owned();
                let row = bridge.config.ports.get(&port.port_row).map(|row| &row.vlan);
                let vlan = row.filter(|vlan| vlan.mode != VlanMode::Trunk).map(|vlan| vlan.tag);
                self.view.ports.push(PortView {
                    logical,
                    vlan,
                    ..port_view(port, &bridge_name, at, counters)
                });
                if left == 0 {
                    return false;
                }
            }
            self.position.end_bridge();
        }
    }
}

fn datapath(backer: &Backer) -> DatapathView {
    let workers = backer.workers.infos();
    let mut rxqs = Vec::new();
    // The worker of kernel ports is the first. Its queues are added last, because the number of queues that are shown is
    // limited.
    for (at, info) in workers.iter().enumerate().rev() {
        rxqs.extend(backer.workers.all_rxqs(info.id).map(|q| RxqView {
            no: q.no,
            port: q.port.to_owned(),
            queue: q.queue,
            worker: at,
            load: Arc::clone(q.load),
            forecast: q.forecast.next(),
            enabled: true,
        }));
    }
    DatapathView {
        name: backer.name(),
        kind: backer.datapath_type.clone(),
        datapath: Arc::clone(&backer.datapath),
        rxqs,
        workers,
        names: backer.ports.iter().map(|(no, info)| (*no, info.name.clone())).collect(),
        handlers: backer.handler_threads.count(),
        revalidation_pending: backer.revalidator.is_behind(),
        round_ms: backer.revalidator.took_ms(),
        moves: backer.workers.moves_made(),
    }
}

/// Marks the rx queues that are disabled.
fn mark_disabled_rxqs(view: &mut View) {
    for port in view.ports.iter().filter(|p| !p.disabled_rxqs.is_empty()) {
        let Some(datapath) = view.datapaths.get_mut(port.datapath) else { continue };
        let of_port = datapath.rxqs.iter_mut().filter(|q| Some(q.no) == port.number);
        of_port.for_each(|q| q.enabled = !port.disabled_rxqs.contains(&q.queue));
    }
}

fn bonds(switch: &Switch) -> Vec<(Arc<str>, String, usize, usize)> {
    let named = |id| switch.bridges.values().find(|b| b.id == id).map(|b| Arc::from(b.name.as_str()));
    let bonds = switch.bond_links().into_iter();
    bonds.filter_map(|(id, name, links, enabled)| Some((named(id)?, name, links, enabled))).collect()
}

fn bridge_view(bridge: &Bridge, now: units::Millis) -> BridgeView {
    let table = |number: u8| {
        let table = bridge.ofproto.table(number)?;
        let flows = table.classifier().len() as u64;
        let (matched, missed) = (table.matched(), table.missed());
        (flows + matched + missed > 0).then_some((number, flows, matched, missed))
    };
    let meters = bridge.ofproto.meters(METER_ALL).unwrap_or_default();
    let (macs, groups) = (bridge.macs.lock(), bridge.multicast_groups.lock());
    BridgeView {
        name: Arc::from(bridge.name.as_str()),
        ports: bridge.ports.len(),
        groups: bridge.ofproto.group_count(),
        macs: (macs.len(), macs.size()),
        multicast: bridge.config.snooping.as_ref().map(|_| (groups.len(), groups.size())),
        connections: bridge.conns.open_counts(),
        controllers: bridge.conns.controllers().map(|(name, up)| (name.to_owned(), up)).collect(),
        tables: (0..u8::MAX).filter_map(table).collect(),
        meters: meters
            .iter()
            .take(METERS_MAX)
            .map(|m| m.stats(0, now))
            .map(|m| (m.meter, m.packets, m.bytes, m.bands.iter().map(|b| b.0).sum()))
            .collect(),
    }
}

fn counters(port: &mut BridgePort, backer: Option<&Backer>, bridge: xlate::BridgeId) -> Counters {
    let ofport = port.ofport;
    match &mut port.backing {
        Backing::Device { netdev, number } => match netdev.kernel_counters() {
            Some(corrections) => Counters::Kernel(corrections),
            None => switch::qos::statistics(backer.map(|b| &*b.datapath), *number, &mut **netdev)
                .map_or(Counters::None, |stats| Counters::Read(Box::new(stats))),
        },
        Backing::Patch { .. } | Backing::Tunnel { .. } => backer.map_or(Counters::None, |backer| {
            let s = backer.patch_tunnel_counters.get(bridge, ofport);
            Counters::Read(Box::new(netdev::stats::Stats {
                rx_packets: Some(s.rx_packets),
                rx_bytes: Some(s.rx_bytes),
                tx_packets: Some(s.tx_packets),
                tx_bytes: Some(s.tx_bytes),
                ..netdev::stats::Stats::default()
            }))
        }),
    }
}

fn disabled_rxqs_of(netdev: &dyn Netdev) -> Vec<QueueId> {
    if !netdev.is_pmd() {
        return Vec::new();
    }
    (0..netdev.n_rxq() as u16).map(QueueId).filter(|q| !netdev.rxq_enabled(*q)).collect()
}

fn port_view(port: &BridgePort, bridge: &Arc<str>, datapath: usize, counters: Counters) -> PortView {
    let facts = port.facts.as_ref();
    let text = |key: &str| port.bfd.as_ref().and_then(|bfd| bfd.status.get(key)).map(String::as_str);
    let flaps = || text("flap_count").and_then(|n| n.parse().ok()).unwrap_or(0);
    let (number, disabled_rxqs): (Option<PortNo>, _) = match &port.backing {
        Backing::Device { netdev, number } => (Some(*number), disabled_rxqs_of(&**netdev)),
        Backing::Tunnel { .. } | Backing::Patch { .. } => (None, Vec::new()),
    };
    PortView {
        bridge: Arc::clone(bridge),
        datapath,
        name: port.name.clone(),
        kind: if port.kind.is_empty() { "system".to_owned() } else { port.kind.clone() },
        logical: String::new(),
        vlan: None,
        ofport: port.ofport,
        number,
        up: port.is_up(),
        link_resets: facts.map_or(0, |f| f.link_resets),
        mtu: facts.map(|f| f.mtu),
        speed_mbps: facts.and_then(|f| f.modes.speed_mbps),
        bfd: port.bfd.as_ref().map(|bfd| (text("state") == Some("up"), bfd.forwarding, flaps())),
        has_lacp_partner_info: port.lacp.as_ref().map(|lacp| lacp.has_partner_info),
        counters,
        disabled_rxqs,
    }
}
