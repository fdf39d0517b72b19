//! Multipart requests: descriptions and statistics.

use crate::bridge::Bridge;
use crate::features::{ACTIONS_10, port_description};
use crate::long_list::LongList;
use crate::port::{Backing, BridgePort};
use crate::ports::Ports;
use crate::request_context::{RequestContext, RequestResult};
use crate::switch_access::{QueueCounts, SwitchAccess};
use crate::unfinished::Dump;
use ofproto::{Criteria, Group, Meter};
use openflow::flow_mod::Duration;
use openflow::group::{GroupDesc, GroupStats};
use openflow::meter::{MeterConfig, MeterStats};
use openflow::stats::{IpfixStats, PortStats, QUEUE_ALL, QueueConfig, QueueRequest, QueueStats, UNKNOWN};
use openflow::table::actions_in_11;
use openflow::{Body, Message, OfError, Version};
use std::sync::Arc;
use units::{Millis, OfPort};

/// Ports whose statistics are read in one turn: at 10 µs per device this takes 1 ms.
pub(crate) const PORTS_PER_TURN: usize = 100;

/// Actions of buckets, as bits of OpenFlow 1.3: output, set-queue, group, set-field, and the VLAN, MPLS and TTL actions except those that
/// copy a TTL.
const BUCKET_ACTIONS: u32 = 1 | 0x7ff << 15;

fn group_stats(groups: Vec<(Arc<Group>, u32)>) -> LongList<(Arc<Group>, u32), GroupStats> {
    LongList {
        items: groups,
        actions: |(group, _)| group.buckets.len(),
        entry: |(group, users), now| group.stats(*users, now),
        body: Body::GroupStatsReply,
    }
}

fn group_descs(groups: Vec<Arc<Group>>) -> LongList<Arc<Group>, GroupDesc> {
    LongList {
        items: groups,
        actions: |group| group.buckets.iter().map(|bucket| 1 + bucket.actions.len()).sum(),
        entry: |group, _| group.desc(),
        body: Body::GroupDescReply,
    }
}

fn meter_stats(meters: Vec<(Arc<Meter>, u32)>) -> LongList<(Arc<Meter>, u32), MeterStats> {
    LongList {
        items: meters,
        actions: |(meter, _)| meter.config.bands.len(),
        entry: |(meter, users), now| meter.stats(*users, now),
        body: Body::MeterStatsReply,
    }
}

fn meter_configs(meters: Vec<Arc<Meter>>) -> LongList<Arc<Meter>, MeterConfig> {
    LongList {
        items: meters,
        actions: |meter| meter.config.bands.len(),
        entry: |meter, _| meter.config.clone(),
        body: Body::MeterConfigReply,
    }
}

impl RequestContext<'_> {
    pub(crate) fn multipart(&mut self, message: &Message) -> RequestResult {
        let ofproto = &self.bridge.ofproto;
        let reply = match &message.body {
            Body::DescRequest => Body::DescReply(self.desc()),
            Body::AggregateRequest(request) => {
                self.outside.fold_statistics();
                Body::AggregateReply(ofproto.aggregate(&Criteria::from(&**request))?)
            }
            Body::TableStatsRequest => {
                self.outside.fold_statistics();
                Body::TableStatsReply(ofproto.table_stats())
            }
            Body::PortStatsRequest(port) => return self.port_stats(*port, message),
            Body::PortDescRequest(port) => {
                let all = *port == OfPort::NONE;
                let ports = self.bridge.ports.values().filter(|p| all || p.ofport == *port);
                Body::PortDescReply(ports.map(port_description).collect())
            }
            Body::QueueStatsRequest(request) => {
                let queues = self.queues(request)?.into_iter();
                Body::QueueStatsReply(queues.map(|(port, queue)| self.queue_stats(port, queue)).collect())
            }
            Body::QueueConfigRequest(request) => {
                let queues = self.queues(request)?.into_iter();
                let configs =
                    queues.map(|(port, queue)| QueueConfig { port, queue, ..QueueConfig::default() });
                Body::QueueConfigReply(request.port, configs.collect())
            }
            Body::GroupStatsRequest(group) => {
                self.outside.fold_statistics();
                return self.list(group_stats(ofproto.groups_with_users(*group)), message);
            }
            Body::GroupDescRequest(group) => {
                return self.list(group_descs(ofproto.groups(*group)), message);
            }
            Body::GroupFeaturesRequest => {
                let mut features = ofproto.group_features();
                features.actions = [match message.version {
                    Version::V10 => ACTIONS_10,
                    Version::V11 => actions_in_11(BUCKET_ACTIONS),
                    _ => BUCKET_ACTIONS,
                }; 4];
                Body::GroupFeaturesReply(features)
            }
            Body::MeterStatsRequest(meter) => {
                return self.list(meter_stats(ofproto.meters_with_users(*meter)?), message);
            }
            Body::MeterConfigRequest(meter) => {
                return self.list(meter_configs(ofproto.meters(*meter)?), message);
            }
            Body::MeterFeaturesRequest => Body::MeterFeaturesReply(ofproto.meter_features()),
            Body::TableFeaturesRequest(features) => return self.table_features(features, message.more),
            Body::TableDescRequest => Body::TableDescReply(self.table_desc()),
            Body::IpfixBridgeRequest => Body::IpfixBridgeReply(self.ipfix_stats(false)?),
            Body::IpfixFlowRequest => Body::IpfixFlowReply(self.ipfix_stats(true)?),
            Body::FlowMonitorRequest(requests) => return self.flow_monitor(requests, message),
            // Replies, which only a switch may send.
            _ => return Err(OfError::BrcBadType),
        };
        Ok(Some(reply))
    }

    fn ipfix_stats(&mut self, of_flows: bool) -> Result<Vec<IpfixStats>, OfError> {
        self.outside.ipfix_stats(self.bridge.id, of_flows).ok_or(OfError::NxstNotConfigured)
    }

    /// `OFPMP_PORT_STATS`. Returns no reply if there are many ports: a dump then sends it in parts.
    fn port_stats(&mut self, wanted: OfPort, message: &Message) -> RequestResult {
        // Devices have their own counters; those of tunnels and patch ports are fetched from the datapath.
        let is_meant = |p: &BridgePort| wanted == OfPort::NONE || p.ofport == wanted;
        let is_counted_here = |p: &BridgePort| is_meant(p) && !matches!(p.backing, Backing::Device { .. });
        if self.bridge.ports.values().any(is_counted_here) {
            self.outside.fold_statistics();
        }
        let mut ports: Vec<OfPort> =
            local_first(&self.bridge.ports).filter(|p| is_meant(p)).map(|p| p.ofport).collect();
        if ports.len() <= PORTS_PER_TURN || self.outside.waker().is_none() {
            let stats = port_stats(self.bridge, self.outside, ports.into_iter(), self.now);
            return Ok(Some(Body::PortStatsReply(stats)));
        }
        ports.reverse();
        let dump = Dump::Ports { request: message.clone(), rest: ports };
        self.bridge.unfinished.dumps.insert(self.conn, dump);
        Ok(None)
    }

    fn queue_stats(&mut self, port: OfPort, queue: u32) -> QueueStats {
        let unknown = unknown_stats(port, queue);
        let Some(bridge_port) = self.bridge.ports.get(&port) else { return unknown };
        let created = bridge_port.qos.queues.get(&queue).map(|queue| queue.created);
        let duration = created.map_or(unknown.duration, |created| ofproto::duration(created, self.now));
        match self.outside.queue_counts(bridge_port, queue) {
            Some(QueueCounts { packets, bytes, dropped }) => {
                QueueStats { tx_packets: packets, tx_bytes: bytes, tx_errors: dropped, duration, ..unknown }
            }
            None => QueueStats { duration, ..unknown },
        }
    }

    /// The requested queues as pairs of port and queue, the local port first.
    fn queues(&self, request: &QueueRequest) -> Result<Vec<(OfPort, u32)>, OfError> {
        let ports = &self.bridge.ports;
        if !matches!(request.port, OfPort::ALL | OfPort::NONE) {
            let port = ports.get(&request.port).ok_or(OfError::QofcBadPort)?;
            return queues_of(port, request.queue).ok_or(OfError::QofcBadQueue);
        }
        let found: Vec<_> = local_first(ports).filter_map(|p| queues_of(p, request.queue)).collect();
        if found.is_empty() { Err(OfError::QofcBadQueue) } else { Ok(found.concat()) }
    }
}

/// The statistics of ports. Ports that have been removed are left out.
pub(crate) fn port_stats(
    bridge: &mut Bridge,
    outside: &mut dyn SwitchAccess,
    ports: impl Iterator<Item = OfPort>,
    now: Millis,
) -> Vec<PortStats> {
    let id = bridge.id;
    let stats = ports.filter_map(|ofport| {
        let port = bridge.ports.get_mut_unmarked(&ofport)?;
        let duration = ofproto::duration(port.created, now);
        Some(PortStats { port: ofport, duration, ..outside.port_stats(id, port) })
    });
    stats.collect()
}

/// The local port, then the other ports by number.
fn local_first(ports: &Ports) -> impl Iterator<Item = &BridgePort> {
    ports.get(&OfPort::LOCAL).into_iter().chain(ports.values().filter(|p| p.ofport != OfPort::LOCAL))
}

/// Queues of a port; a dummy device has one queue. `None`: the requested queue does not exist.
fn queues_of(port: &BridgePort, wanted: u32) -> Option<Vec<(OfPort, u32)>> {
    let dummy = matches!(&port.backing, Backing::Device { netdev, .. } if netdev.dummy().is_some());
    let queues = port.qos.queues.keys().map(|queue| (port.ofport, *queue));
    let all: Vec<(OfPort, u32)> = if dummy { vec![(port.ofport, 0)] } else { queues.collect() };
    match wanted {
        QUEUE_ALL => Some(all),
        one => all.into_iter().find(|(_, q)| *q == one).map(|q| vec![q]),
    }
}

/// Statistics of a queue without counters, as on a dummy device.
fn unknown_stats(port: OfPort, queue: u32) -> QueueStats {
    QueueStats {
        port,
        queue,
        tx_bytes: UNKNOWN,
        tx_packets: UNKNOWN,
        tx_errors: UNKNOWN,
        duration: Duration { sec: u32::MAX, nsec: u32::MAX },
    }
}
