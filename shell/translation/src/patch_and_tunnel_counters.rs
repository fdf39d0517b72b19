//! Counters of patch ports and tunnel ports. The datapath has no ports of its own for them, so their counters are computed
//! from the statistics of megaflows.

use dpif::FlowStats;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use units::OfPort;
use xlate::BridgeId;

/// Counters of one patch port or tunnel port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatchAndTunnelStats {
    /// Packets received by the port.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets sent by the port.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
}

/// Counters of all patch ports and tunnel ports. Threads that collect statistics write them; the main thread reads them.
#[derive(Debug, Default)]
pub struct PatchAndTunnelCounters(Mutex<HashMap<(BridgeId, OfPort), PatchAndTunnelStats>>);

impl PatchAndTunnelCounters {
    /// Counts packets that port `tx` of one bridge sent and port `rx` of the next bridge received.
    pub fn credit(&self, tx: (BridgeId, OfPort), rx: (BridgeId, OfPort), delta: &FlowStats) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = all.entry(tx).or_default();
        sender.tx_packets += delta.packets;
        sender.tx_bytes += delta.bytes;
        let receiver = all.entry(rx).or_default();
        receiver.rx_packets += delta.packets;
        receiver.rx_bytes += delta.bytes;
    }

    /// Counts packets that a tunnel port sent (`out`) or received.
    pub fn credit_tunnel(&self, at: (BridgeId, OfPort), out: bool, delta: &FlowStats) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let port = all.entry(at).or_default();
        let (packets, bytes) = match out {
            true => (&mut port.tx_packets, &mut port.tx_bytes),
            false => (&mut port.rx_packets, &mut port.rx_bytes),
        };
        *packets += delta.packets;
        *bytes += delta.bytes;
    }

    /// The counters of a port.
    pub fn get(&self, bridge: BridgeId, port: OfPort) -> PatchAndTunnelStats {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&(bridge, port))
            .copied()
            .unwrap_or_default()
    }

    /// Removes the counters of a port, so that a later port with the same number starts at zero.
    pub fn forget(&self, bridge: BridgeId, port: OfPort) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&(bridge, port));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_count_what_crosses() {
        let counters = PatchAndTunnelCounters::default();
        let (a, b) = ((BridgeId(1), OfPort(5)), (BridgeId(2), OfPort(6)));
        counters.credit(a, b, &FlowStats { packets: 3, bytes: 300, ..FlowStats::default() });
        counters.credit(b, a, &FlowStats { packets: 1, bytes: 60, ..FlowStats::default() });
        let sent = PatchAndTunnelStats { rx_packets: 1, rx_bytes: 60, tx_packets: 3, tx_bytes: 300 };
        assert_eq!(counters.get(a.0, a.1), sent);
        counters.forget(a.0, a.1);
        assert_eq!(counters.get(a.0, a.1), PatchAndTunnelStats::default());
    }
}
