//! Multipart requests: descriptions and statistics.

use super::features::port_message;
use super::{Answer, Service};
use ofproto::Criteria;
use openflow::meter::METER_ALL;
use openflow::stats::{QUEUE_ALL, QueueRequest};
use openflow::{Body, Message, OfError};
use units::OfPort;

/// Output, set-queue, group, set-field, the VLAN, MPLS and TTL actions but copying TTLs, by number in OpenFlow 1.3.
const BUCKET_ACTIONS: u32 = 1 | 0x7ff << 15;

impl Service<'_> {
    pub(super) fn multipart(&mut self, message: &Message) -> Answer {
        let ofproto = &self.bridge.ofproto;
        let reply = match &message.body {
            Body::DescRequest => Body::DescReply(self.desc()),
            Body::FlowStatsRequest(request) => {
                self.host.fold_statistics();
                Body::FlowStatsReply(ofproto.flow_stats(&Criteria::from(&**request), self.now)?)
            }
            Body::AggregateRequest(request) => {
                self.host.fold_statistics();
                Body::AggregateReply(ofproto.aggregate(&Criteria::from(&**request))?)
            }
            Body::TableStatsRequest => {
                self.host.fold_statistics();
                Body::TableStatsReply(ofproto.table_stats())
            }
            Body::PortStatsRequest(port) => self.port_stats(*port),
            Body::PortDescRequest(port) => {
                let all = *port == OfPort::NONE;
                let ports = self.bridge.ports.values().filter(|p| all || p.ofport == *port);
                Body::PortDescReply(ports.map(port_message).collect())
            }
            Body::QueueStatsRequest(request) => {
                self.check_queues(request)?;
                Body::QueueStatsReply(Vec::new())
            }
            Body::QueueConfigRequest(request) => {
                self.check_queues(request)?;
                Body::QueueConfigReply(request.port, Vec::new())
            }
            Body::GroupStatsRequest(group) => {
                self.host.fold_statistics();
                Body::GroupStatsReply(ofproto.group_stats(*group, self.now))
            }
            Body::GroupDescRequest(group) => Body::GroupDescReply(ofproto.group_desc(*group)),
            Body::GroupFeaturesRequest => {
                let mut features = ofproto.group_features();
                features.actions = [BUCKET_ACTIONS; 4];
                Body::GroupFeaturesReply(features)
            }
            Body::MeterStatsRequest(METER_ALL) => Body::MeterStatsReply(Vec::new()),
            Body::MeterConfigRequest(METER_ALL) => Body::MeterConfigReply(Vec::new()),
            Body::MeterStatsRequest(_) | Body::MeterConfigRequest(_) => {
                return Err(OfError::MmfcUnknownMeter);
            }
            Body::MeterFeaturesRequest => Body::MeterFeaturesReply(ofproto.meter_features()),
            Body::TableFeaturesRequest(features) => return self.table_features(features, message.more),
            Body::TableDescRequest => Body::TableDescReply(self.table_desc()),
            Body::IpfixBridgeRequest | Body::IpfixFlowRequest => return Err(OfError::NxstNotConfigured),
            Body::FlowMonitorRequest(_) => return Err(OfError::BrcBadStat),
            // Messages that only a switch sends.
            _ => return Err(OfError::BrcBadType),
        };
        Ok(Some(reply))
    }

    fn port_stats(&mut self, wanted: OfPort) -> Body {
        self.host.fold_statistics();
        let (host, now, bridge) = (&mut *self.host, self.now, self.bridge.id);
        let ports = self.bridge.ports.values_mut();
        let ports = ports.filter(|p| wanted == OfPort::NONE || p.ofport == wanted);
        let stats = ports.map(|p| {
            let mut stats = host.port_stats(bridge, p);
            stats.port = p.ofport;
            stats.duration = ofproto::duration(p.created, now);
            stats
        });
        Body::PortStatsReply(stats.collect())
    }

    /// No device has queues: asking for all of them is right, asking for one is not.
    fn check_queues(&self, request: &QueueRequest) -> Result<(), OfError> {
        let all_ports = matches!(request.port, OfPort::ALL | OfPort::NONE);
        if all_ports && (request.queue != QUEUE_ALL || self.bridge.ports.is_empty()) {
            return Err(OfError::QofcBadQueue);
        }
        if !all_ports && !self.bridge.ports.contains_key(&request.port) {
            return Err(OfError::QofcBadPort);
        }
        if request.queue == QUEUE_ALL { Ok(()) } else { Err(OfError::QofcBadQueue) }
    }
}
