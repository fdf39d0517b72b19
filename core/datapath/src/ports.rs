//! The ports of the datapath: their numbers, their tx queues, their counters.
//!
//! Workers read a snapshot; adding or removing a port publishes another. A tx queue stands behind a lock of its own:
//! where a port has one for every worker (the usual case) nobody ever waits.

use crate::egress::{DeviceQueues, Egress, EgressQueue};
use crate::path::receive::SHORTEST;
use crate::policer::Policer;
use crate::port::TxQueue;
use crate::steering::{TxMode, Users};
use crate::tunnels::TunnelPorts;
use dpif::{Counter, PortStats};
use numbered::Numbered;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use units::PortNo;

/// The largest port number.
pub const MAX_PORT: u32 = classifier::megaflow::publisher::MAX_PORT;

/// One port. Copies share everything.
#[derive(Clone)]
pub struct Port {
    /// Its number.
    pub no: PortNo,
    /// What workers send by: the device's own queues, or those of `egress` in front of them.
    pub(crate) txqs: DeviceQueues,
    device: DeviceQueues,
    pub(crate) egress: Option<Arc<Egress>>,
    /// Its device has QoS queues, by which packets go as `set_queue` says.
    device_has_queues: bool,
    /// Packets say by which queue they go.
    by_hash: bool,
    pub(crate) users: Arc<Users>,
    pub(crate) counters: Arc<Counters>,
    /// Limits what it brings.
    pub(crate) policer: Option<Arc<Policer>>,
    /// A batch with a frame shorter than this is looked at frame by frame: every batch of a policed port.
    pub(crate) inspect_below: usize,
}

/// What is counted at a port, whatever its queues are at the time.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) rx: Counter,
    pub(crate) tx: Counter,
    pub(crate) tx_dropped: AtomicU64,
    pub(crate) rx_policed: AtomicU64,
    pub(crate) tx_qos: AtomicU64,
}

impl Port {
    /// A port that sends by these queues. One that has none drops what it is given.
    pub(crate) fn new(no: PortNo, txqs: Vec<Box<dyn TxQueue>>) -> Port {
        let device: DeviceQueues = txqs.into_iter().map(Mutex::new).collect();
        Port {
            no,
            txqs: Arc::clone(&device),
            device,
            egress: None,
            device_has_queues: false,
            by_hash: false,
            users: Arc::default(),
            counters: Arc::default(),
            policer: None,
            inspect_below: SHORTEST,
        }
    }

    /// The same port with other tx queues.
    pub(crate) fn with_queues(&self, txqs: Vec<Box<dyn TxQueue>>) -> Port {
        let Port { device, users, .. } = Port::new(self.no, txqs);
        Port { device, users, ..self.clone() }.with_egress(self.egress.clone())
    }

    /// The same port with this between the workers and the device, or nothing.
    pub(crate) fn with_egress(&self, egress: Option<Arc<Egress>>) -> Port {
        let txqs = match &egress {
            Some(egress) => EgressQueue::all(egress, &self.device),
            None => Arc::clone(&self.device),
        };
        Port { txqs, egress, ..self.clone() }
    }

    /// The same port, whose device has QoS queues or none.
    pub(crate) fn with_device_queues(&self, device_has_queues: bool) -> Port {
        Port { device_has_queues, ..self.clone() }
    }

    /// Whether it matters which QoS queue a packet names.
    pub(crate) fn has_queues(&self) -> bool {
        self.device_has_queues || self.egress.is_some()
    }

    /// The same port; packets say (or do not) by which queue they go.
    pub(crate) fn steered(&self, by_hash: bool) -> Port {
        Port { by_hash, ..self.clone() }
    }

    /// The same port with another ingress policer, or none.
    pub(crate) fn policed(&self, policer: Option<Policer>) -> Port {
        let inspect_below = if policer.is_some() { usize::MAX } else { SHORTEST };
        Port { policer: policer.map(Arc::new), inspect_below, ..self.clone() }
    }

    pub(crate) fn is_by_hash(&self) -> bool {
        self.by_hash
    }

    /// How its tx queues are shared by so many workers.
    #[inline]
    pub(crate) fn tx_mode(&self, senders: usize) -> TxMode {
        match self.txqs.len() {
            // One queue is the same for all packets.
            2.. if self.by_hash => TxMode::Hash,
            n if n >= senders => TxMode::Static,
            _ => TxMode::Xps,
        }
    }

    /// What was counted at this port.
    pub fn stats(&self) -> PortStats {
        let Counters { rx, tx, tx_dropped, rx_policed, tx_qos } = &*self.counters;
        let ((rx_packets, rx_bytes), (tx_packets, tx_bytes)) = (rx.get(), tx.get());
        PortStats {
            rx_packets,
            rx_bytes,
            tx_packets,
            tx_bytes,
            tx_dropped: tx_dropped.load(Ordering::Relaxed),
            rx_policed: rx_policed.load(Ordering::Relaxed),
            tx_qos_dropped: tx_qos.load(Ordering::Relaxed),
        }
    }
}

/// All ports, by number. Copies share what they have in common.
#[derive(Clone, Default)]
pub struct Ports {
    pub(crate) all: Numbered<PortNo, Port>,
    /// How many workers send.
    pub(crate) senders: usize,
    /// Ports without devices.
    pub(crate) tunnels: TunnelPorts,
}

impl Ports {
    /// The port of a number.
    #[inline]
    pub fn get(&self, no: u32) -> Option<&Arc<Port>> {
        self.all.get_shared(&PortNo(no))
    }

    /// All of them, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Port> {
        self.all.values()
    }
}
