//! QoS counters and settings, for commands and controllers.

use super::{egress, kernel};
use crate::switch::Switch;
use datapath::Datapath;
use netdev::device::{Netdev, QosPlace};
use netdev::error::NetdevError;
use netdev::qdisc;
use netdev::stats::Stats;
use openflow_service::{Backing, BridgePort};
use qos::QueueCounts;
use std::io;
use units::PortNo;

/// The counters of a port: those of its device, and the drops by the datapath's policers and shapers.
pub fn statistics(
    datapath: Option<&Datapath>,
    number: PortNo,
    netdev: &mut dyn Netdev,
) -> Result<Stats, NetdevError> {
    let mut stats = netdev.stats()?;
    if let Some(counted) = datapath.and_then(|datapath| datapath.port_stats(number)) {
        stats.add_qos(counted.rx_policed, counted.tx_qos_dropped);
    }
    Ok(stats)
}

/// Counters of a queue of a port.
pub fn queue_counts(datapath: Option<&Datapath>, port: &BridgePort, queue: u32) -> io::Result<QueueCounts> {
    let no_queue = || io::Error::from(io::ErrorKind::NotFound);
    let Backing::Device { netdev, number } = &port.backing else { return Err(no_queue()) };
    match netdev.qos_place() {
        QosPlace::Kernel => {
            let ifindex = port.facts.as_ref().and_then(|facts| facts.ifindex).ok_or_else(no_queue)?;
            let found = qdisc::counts(ifindex, queue)?;
            Ok(QueueCounts { packets: found.packets, bytes: found.bytes, dropped: found.dropped })
        }
        _ => {
            let egress = datapath.and_then(|datapath| datapath.egress(*number));
            egress.and_then(|egress| egress.counts(queue)).ok_or_else(no_queue)
        }
    }
}

const NO_INTERFACE: &str = "no such interface";

impl Switch {
    /// The port of an interface, and the datapath of its bridge.
    fn interface(&self, name: &str) -> Result<(&BridgePort, Option<&Datapath>), String> {
        let found = self.bridges.values().find_map(|bridge| Some((bridge.ports.named(name)?, bridge)));
        let (port, bridge) = found.ok_or_else(|| NO_INTERFACE.to_owned())?;
        Ok((port, self.datapaths.of_bridge(bridge).map(|backer| &*backer.datapath)))
    }

    /// `qos/show-types`
    pub fn qos_types(&self, interface: &str) -> Result<String, String> {
        let (port, _) = self.interface(interface)?;
        let place = match &port.backing {
            Backing::Device { netdev, .. } => netdev.qos_place(),
            Backing::Patch { .. } | Backing::Tunnel { .. } => QosPlace::None,
        };
        let types: &[&str] = match place {
            QosPlace::None => return Ok(format!("No QoS types supported for interface: {interface}\n")),
            QosPlace::Kernel => &kernel::TYPES,
            QosPlace::Datapath => &egress::TYPES,
        };
        Ok(types.iter().map(|kind| format!("QoS type: {kind}\n")).collect())
    }

    /// `qos/show`
    pub fn show_qos(&self, interface: &str) -> Result<String, String> {
        let (port, datapath) = self.interface(interface)?;
        let qos = &port.qos;
        if qos.kind.is_empty() {
            return Ok(format!("QoS not configured on {interface}\n"));
        }
        let mut out = format!("QoS: {interface} {}\n", qos.kind);
        out.extend(qos.details.iter().map(|(key, value)| format!("{key}: {value}\n")));
        for (number, queue) in &qos.queues {
            out += &match number {
                0 => "\nDefault:\n".to_owned(),
                n => format!("\nQueue {n}:\n"),
            };
            out.extend(queue.details.iter().map(|(key, value)| format!("  {key}: {value}\n")));
            out += &match queue_counts(datapath, port, *number) {
                Ok(QueueCounts { packets, bytes, dropped }) => {
                    format!("  tx_packets: {packets}\n  tx_bytes: {bytes}\n  tx_errors: {dropped}\n")
                }
                Err(e) => {
                    format!("  Failed to get statistics for queue {number}: {}", runtime::error_text(&e))
                }
            };
        }
        Ok(out)
    }
}
