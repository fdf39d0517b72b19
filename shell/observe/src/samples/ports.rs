//! Metrics of the ports of bridges.

use super::kernel::{self, RxAndTx};
use crate::view::{Counters, PortView, View};
use metrics::table as m;
use metrics::{Labels, Metric, Object, Samples, Value};
use netdev::device::KernelCounters;
use netdev::stats::Stats;
use std::collections::HashMap;

/// Bytes per second of a megabit per second.
const MEGABIT: u64 = 125_000;

/// Adds the metrics of all ports.
pub fn add(view: &View, samples: &mut Samples) {
    let some_kernel = view.ports.iter().any(|p| matches!(p.counters, Counters::Kernel(_)));
    add_with(view, &if some_kernel { kernel::read() } else { HashMap::new() }, samples);
}

/// Adds the metrics of all ports. `kernel`: the kernel's counters of all devices.
pub fn add_with(view: &View, kernel: &HashMap<String, RxAndTx>, samples: &mut Samples) {
    for port in &view.ports {
        info(port, samples);
        let Some(of) = samples.object(Object::Port, &[&port.bridge, &port.name]) else { continue };
        counts(view, port, kernel, of, samples);
        state(port, of, samples);
    }
}

fn info(port: &PortView, samples: &mut Samples) {
    // As in the column ofport: the local port is 65534.
    let ofport = port.ofport.0.to_string();
    let labels = [&*port.bridge, &port.name, &port.kind, &ofport, &port.logical];
    if let Some(of) = samples.object(Object::PortInfo, &labels) {
        samples.set(&m::PORT, of, 1u64);
    }
}

fn state(port: &PortView, of: Labels, samples: &mut Samples) {
    samples.set(&m::PORT_UP, of, port.up);
    samples.set(&m::PORT_LINK_RESETS, of, port.link_resets);
    if let Some(mtu) = port.mtu {
        samples.set(&m::PORT_MTU, of, u64::from(mtu));
    }
    if let Some(vlan) = port.vlan {
        samples.set(&m::PORT_VLAN, of, u64::from(vlan));
    }
    if let Some(mbps) = port.speed_mbps {
        samples.set(&m::PORT_SPEED, of, u64::from(mbps) * MEGABIT);
    }
    if let Some((up, forwarding, flaps)) = port.bfd {
        samples.set(&m::PORT_BFD_UP, of, up);
        samples.set(&m::PORT_BFD_FORWARDING, of, forwarding);
        samples.set(&m::PORT_BFD_FLAPS, of, flaps);
    }
    if let Some(has_partner_info) = port.has_lacp_partner_info {
        samples.set(&m::PORT_LACP_CURRENT, of, has_partner_info);
    }
}

fn counts(
    view: &View,
    port: &PortView,
    kernel: &HashMap<String, RxAndTx>,
    of: Labels,
    samples: &mut Samples,
) {
    let stats = match &port.counters {
        Counters::None => return,
        Counters::Read(stats) => Stats { custom: Vec::new(), ..(**stats).clone() },
        Counters::Kernel(corrections) => {
            let Some(both) = kernel.get(&port.name) else { return };
            let datapath = view.datapaths.get(port.datapath);
            let qos = port.number.and_then(|no| datapath?.datapath.port_stats(no));
            of_kernel(both, corrections, qos.map_or((0, 0), |s| (s.rx_policed, s.tx_qos_dropped)))
        }
    };
    let all: [(&'static Metric, Option<u64>); 8] = [
        (&m::PORT_RX_PACKETS, stats.rx_packets),
        (&m::PORT_RX_BYTES, stats.rx_bytes),
        (&m::PORT_RX_DROPPED, stats.rx_dropped),
        (&m::PORT_RX_ERRORS, stats.rx_errors),
        (&m::PORT_TX_PACKETS, stats.tx_packets),
        (&m::PORT_TX_BYTES, stats.tx_bytes),
        (&m::PORT_TX_DROPPED, stats.tx_dropped),
        (&m::PORT_TX_ERRORS, stats.tx_errors),
    ];
    for (metric, value) in all {
        if let Some(n) = value {
            samples.set(metric, of, Value::Whole(n));
        }
    }
}

/// The counters of a kernel device, as counters of the port. `qos`: numbers of packets that policers and shapers of the datapath
/// dropped, received and to be sent.
fn of_kernel((rx, tx): &RxAndTx, corrections: &KernelCounters, qos: (u64, u64)) -> Stats {
    let (rx, tx) = if corrections.directions_swapped { (tx, rx) } else { (rx, tx) };
    Stats {
        rx_packets: Some(rx.packets),
        rx_bytes: Some(rx.bytes),
        rx_errors: Some(rx.errors),
        rx_dropped: Some(rx.dropped + corrections.dropped.0 + qos.0),
        tx_packets: Some(tx.packets),
        tx_bytes: Some(tx.bytes),
        tx_errors: Some(tx.errors),
        tx_dropped: Some(tx.dropped + corrections.dropped.1 + qos.1),
        ..Stats::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::kernel::DeviceCounters;

    #[test]
    fn a_tap_is_seen_from_its_other_end() {
        let side = |n| DeviceCounters { packets: n, bytes: 10 * n, errors: 0, dropped: 1 };
        let both = (side(3), side(5));
        let plain = of_kernel(&both, &KernelCounters { directions_swapped: false, dropped: (0, 0) }, (0, 7));
        assert_eq!((plain.rx_packets, plain.tx_bytes, plain.tx_dropped), (Some(3), Some(50), Some(8)));
        let tap = of_kernel(&both, &KernelCounters { directions_swapped: true, dropped: (2, 0) }, (0, 0));
        assert_eq!((tap.rx_packets, tap.tx_packets, tap.rx_dropped), (Some(5), Some(3), Some(3)));
    }
}
