//! Serves OpenFlow requests of a bridge: the switch is the [`SwitchAccess`] of the request.
//!
//! The bridge is removed from the switch while its request is served, so that both can be changed. Packet-outs wait
//! until the bridge is back, because they are translated with the published state of all bridges. They are executed
//! before the next request of any connection.

use crate::switch::Switch;
use crate::tracked_connections;
use flow::Flow;
use flow::extract::extract;
use ofproto::{TableChanges, Tables};
use openflow::OfError;
use openflow::flow_mod::Duration;
use openflow::packet_io::PacketOut;
use openflow::session::CtFlush;
use openflow::stats::{IpfixStats, PortStats};
use openflow_service::Bridge;
use openflow_service::{self as service, QueueCounts, ResumedPacket, SwitchAccess};
use openflow_service::{Backing, BridgePort};
use runtime::Waker;
use std::sync::Arc;
use std::time::Instant;
use units::{Millis, PortNo};
use xlate::{BridgeId, Input, Recirc, Snapshot, Start};

/// The switch without the bridge that is being served. The packets of the request are sent once the bridge is back.
struct RestOfSwitch<'a> {
    switch: &'a mut Switch,
    datapath_type: String,
    packet_outs: Vec<(PacketOut, Option<Arc<Tables>>)>,
    resumes: Vec<ResumedPacket>,
}

impl Switch {
    /// Serves requests of a bridge's connections until the time `until`, or until a request has an effect outside of
    /// the bridge; in dummy mode only one request. Returns false if no more requests are waiting or the time is up.
    pub(crate) fn serve(&mut self, name: &str, now: Millis, until: Instant) -> bool {
        let one_by_one = self.options.dummy_mode();
        let more = self.with_service(name, |bridge, rest| {
            while let Some(request) = bridge.conns.next_request(now) {
                service::handle(bridge, rest, request);
                if one_by_one
                    || !bridge.unreported_ports.is_empty()
                    || !rest.packet_outs.is_empty()
                    || !rest.resumes.is_empty()
                {
                    return true;
                }
                if Instant::now() >= until {
                    bridge.conns.postpone();
                    break;
                }
            }
            false
        });
        more.unwrap_or(false)
    }

    /// Continues the work on a bridge that takes several turns of the main loop. `wait`: complete a commit, however long it takes.
    pub(crate) fn continue_bridge_work(&mut self, name: &str, wait: bool) {
        if self.bridges.get(name).is_some_and(Bridge::is_at_work) {
            self.with_service(name, |bridge, outside| service::continue_work(bridge, outside, wait));
            self.run_deferred_side_effects(name);
        }
    }

    /// Calls `work` with a bridge and the rest of the switch, then sends the packets that the served requests contained.
    fn with_service<T>(
        &mut self,
        name: &str,
        work: impl FnOnce(&mut Bridge, &mut RestOfSwitch<'_>) -> T,
    ) -> Option<T> {
        let mut bridge = self.bridges.remove(name)?;
        let datapath_type = bridge.config.datapath_type.clone();
        let mut rest =
            RestOfSwitch { switch: self, datapath_type, packet_outs: Vec::new(), resumes: Vec::new() };
        let done = work(&mut bridge, &mut rest);
        let (packet_outs, resumes) = (rest.packet_outs, rest.resumes);
        let datapath_type = rest.datapath_type;
        let id = bridge.id;
        self.bridges.insert(name.to_owned(), bridge);
        for (packet_out, tables) in packet_outs {
            self.packet_out(id, &packet_out, tables);
        }
        for packet in resumes {
            self.resume(&datapath_type, packet);
        }
        Some(done)
    }

    fn packet_out(&mut self, bridge: BridgeId, packet_out: &PacketOut, tables: Option<Arc<Tables>>) {
        let Some((datapath_type, number)) = self.bridges.values().find(|b| b.id == bridge).map(|b| {
            let port = b.ports.get(&packet_out.in_port()).and_then(BridgePort::number);
            (b.config.datapath_type.clone(), port.unwrap_or(PortNo::NONE))
        }) else {
            return;
        };
        let start = Start::Actions(&packet_out.actions);
        let from = Origin { datapath_type: &datapath_type, bridge, number, start, packet_out: true, tables };
        self.inject(from, packet_out.metadata.flow, &packet_out.packet);
    }

    /// Resumes the translation of a packet that was paused for a controller (`NXT_RESUME`).
    fn resume(&mut self, datapath_type: &str, resumed: ResumedPacket) {
        let Some(backer) = self.datapaths.of(datapath_type) else { return };
        let ResumedPacket { packet, metadata, state, port: number } = resumed;
        let bridge = state.bridge;
        let mut flow = Flow::ZERO;
        flow.copy_conntrack(&metadata);
        // These fields are the packet's own metadata in the datapath, so they are not part of the frozen state.
        (flow.pkt_mark, flow.skb_priority, flow.dp_hash) =
            (metadata.pkt_mark, metadata.skb_priority, metadata.dp_hash);
        state.metadata.restore(&mut flow);
        let shared = Arc::clone(&backer.shared);
        // The state is restored like the state of a recirculated packet.
        let Some(id) = shared.freeze(state) else { return };
        flow.recirc_id = id;
        let from =
            Origin { datapath_type, bridge, number, start: Start::Tables, packet_out: false, tables: None };
        self.inject(from, flow, &packet);
        shared.release(&[id]);
    }

    /// Translates a packet of a controller, with the metadata of `flow`, and executes the actions.
    fn inject(&mut self, from: Origin<'_>, mut flow: Flow, packet: &[u8]) {
        self.publish_changes();
        let now = self.clock.now();
        let Some(backer) = self.datapaths.of(from.datapath_type) else { return };
        extract(packet, usize::from(self.limits.vlans), &mut flow);
        let published = backer.shared.published();
        let input = Input {
            bridge: from.bridge,
            flow: &flow,
            packet: Some(packet),
            start: from.start,
            packet_out: from.packet_out,
            returns_side_effects: true,
            dry_run: false,
            recirc: &*backer.shared,
            trace_format: None,
        };
        let other = from.tables.map(|tables| with_tables(&published.snapshot, from.bridge, tables));
        let snapshot = other.as_ref().unwrap_or(&published.snapshot);
        backer.upcall_translator.inject(&backer.datapath, (&published, snapshot), &input, from.number, now);
    }
}

/// Where the translation of a controller's packet begins.
struct Origin<'a> {
    /// The datapath's type.
    datapath_type: &'a str,
    bridge: BridgeId,
    /// The datapath port that counts as the port that received the packet.
    number: PortNo,
    start: Start<'a>,
    packet_out: bool,
    /// Use these tables of the bridge instead of the current ones.
    tables: Option<Arc<Tables>>,
}

impl SwitchAccess for RestOfSwitch<'_> {
    fn now(&self) -> Millis {
        self.switch.clock.now()
    }

    fn ipfix_stats(&mut self, bridge: BridgeId, of_flows: bool) -> Option<Vec<IpfixStats>> {
        let exporters = &self.switch.datapaths.exporters;
        if !of_flows {
            return exporters.bridge_stats(bridge.0).map(|stats| vec![ipfix_stats(0, &stats)]);
        }
        let sets = exporters.collector_set_stats(bridge.0);
        (!sets.is_empty()).then(|| sets.iter().map(|(set, stats)| ipfix_stats(*set, stats)).collect())
    }

    fn waker(&self) -> Option<Waker> {
        // In dummy mode, all consequences of a request are complete before its reply, so no waker is needed.
        (!self.switch.options.dummy_mode()).then(|| self.switch.waker.clone())
    }

    fn fold_statistics(&mut self) {
        if let Some(backer) = self.switch.datapaths.of(&self.datapath_type) {
            backer.datapath.maintain(self.switch.clock.now());
        }
    }

    fn port_stats(&mut self, bridge: BridgeId, port: &mut BridgePort) -> PortStats {
        let now = self.switch.clock.now();
        let age = now.since(port.created).0;
        let duration = Duration { sec: (age / 1000) as u32, nsec: (age % 1000) as u32 * 1_000_000 };
        let known = PortStats { port: port.ofport, duration, ..PortStats::default() };
        match &mut port.backing {
            Backing::Device { netdev, number } => {
                let datapath = self.switch.datapaths.of(&self.datapath_type).map(|backer| &*backer.datapath);
                match crate::qos::statistics(datapath, *number, &mut **netdev) {
                    Ok(s) => device_stats(known, &s),
                    Err(_) => known,
                }
            }
            Backing::Patch { .. } | Backing::Tunnel { .. } => {
                match self.switch.datapaths.of(&self.datapath_type) {
                    Some(backer) => {
                        let s = backer.patch_tunnel_counters.get(bridge, port.ofport);
                        PortStats {
                            rx_packets: s.rx_packets,
                            rx_bytes: s.rx_bytes,
                            tx_packets: s.tx_packets,
                            tx_bytes: s.tx_bytes,
                            ..known
                        }
                    }
                    None => known,
                }
            }
        }
    }

    fn queue_counts(&mut self, port: &BridgePort, queue: u32) -> Option<QueueCounts> {
        let datapath = self.switch.datapaths.of(&self.datapath_type).map(|backer| &*backer.datapath);
        let found = crate::qos::queue_counts(datapath, port, queue).ok()?;
        Some(QueueCounts { packets: found.packets, bytes: found.bytes, dropped: found.dropped })
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

    fn next_version(&self) -> u64 {
        let backer = self.switch.datapaths.of(&self.datapath_type);
        backer.map_or(0, |b| b.shared.version() + u64::from(!b.changes.is_empty()))
    }

    fn is_revalidated(&self, version: u64) -> bool {
        // In dummy mode revalidation is complete before anything else happens. While revalidation is suspended by a
        // command, waiting for it would never end.
        let backer = self.switch.datapaths.of(&self.datapath_type);
        let waits = !self.switch.options.dummy_mode() && !self.switch.revalidation_paused;
        !waits || backer.is_none_or(|b| b.revalidator.is_done(version))
    }

    fn mark_all_changed(&mut self) {
        if let Some(backer) = self.switch.datapaths.of_mut(&self.datapath_type) {
            backer.mark_all_changed();
        }
    }

    fn note_table_changes(&mut self, bridge: BridgeId, changes: &TableChanges) {
        if let Some(backer) = self.switch.datapaths.of_mut(&self.datapath_type) {
            backer.changes.push_table_changes(bridge, changes);
        }
    }

    fn flush_connections(&mut self, wanted: &CtFlush) -> Option<u64> {
        let now = self.switch.clock.now();
        tracked_connections::begin_flush(self.switch.datapaths.of_mut(&self.datapath_type)?, wanted, now)
    }

    fn is_flushed(&self, number: u64) -> bool {
        self.switch
            .datapaths
            .of(&self.datapath_type)
            .is_none_or(|backer| backer.tracking.flushes.is_done(number))
    }

    fn packet_out(&mut self, packet: &PacketOut, tables: Option<Arc<Tables>>) {
        self.packet_outs.push((packet.clone(), tables));
    }

    fn resume(&mut self, packet: ResumedPacket) -> Result<(), OfError> {
        let backer = self.switch.datapaths.of(&self.datapath_type).ok_or(OfError::NxrStale)?;
        backer.shared.published().snapshot.bridge(packet.state.bridge).ok_or(OfError::NxrStale)?;
        self.resumes.push(packet);
        Ok(())
    }
}

/// A copy of the snapshot in which one bridge has other tables.
fn with_tables(snapshot: &Snapshot, bridge: BridgeId, tables: Arc<Tables>) -> Snapshot {
    let mut changed = snapshot.clone();
    if let Some(b) = changed.bridges.get_mut(&bridge) {
        Arc::make_mut(b).tables = tables;
    }
    changed
}

/// A device's counters in OpenFlow's form. Counters that the device does not have are reported as unknown.
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

/// Statistics of an exporter in OpenFlow's form.
fn ipfix_stats(collector_set_id: u32, s: &exporter::ipfix::Stats) -> IpfixStats {
    IpfixStats {
        collector_set_id,
        flows: s.flows,
        current_flows: s.current,
        packets: s.packets,
        ipv4: s.ipv4,
        ipv6: s.ipv6,
        errors: s.errors,
        ipv4_errors: s.ipv4_errors,
        ipv6_errors: s.ipv6_errors,
        tx_packets: s.sent,
        tx_errors: s.send_errors,
    }
}
