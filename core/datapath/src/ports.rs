//! The ports of the datapath: their numbers, their tx queues, their counters.
//!
//! Workers read a snapshot; adding or removing a port publishes a new one. Each tx queue has a lock. If a port has a
//! tx queue for every worker (the usual case), no worker ever waits for this lock.

use crate::capture::{CapturedQueue, Captures};
use crate::egress_qos::{CountedQueue, DeviceQueues, Egress, EgressQueue};
use crate::policer::Policer;
use crate::port::TxQueue;
use crate::port_count::PortCount;
use crate::steering::{TxMode, Users};
use crate::tunnel_ports::TunnelPorts;
use dpif::PortStats;
use numbered::NumberedTable;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use units::PortNo;

/// The largest port number.
pub const MAX_PORT: u32 = classifier::megaflow::publisher::MAX_PORT;

/// Used instead of a port's number for rx queues that several ports share.
pub const SHARED_RX: PortNo = PortNo(MAX_PORT + 1);

/// Length in bytes of the shortest valid frame: an Ethernet header.
pub(crate) const SHORTEST: usize = 14;

/// One port. Copies share its queues and counters.
#[derive(Clone)]
pub struct Port {
    /// The port's number.
    pub no: PortNo,
    /// The tx queues that workers use: the device's own queues, or those of `egress` or of captures in front of them.
    pub(crate) txqs: DeviceQueues,
    device: DeviceQueues,
    pub(crate) egress: Option<Arc<Egress>>,
    /// Captures of what the port sends; empty: no tx queue is wrapped for them.
    captures: Arc<Captures>,
    /// The device has QoS queues, and `set_queue` selects one.
    device_has_queues: bool,
    /// A hash of the packet selects the tx queue, instead of the worker.
    by_hash: bool,
    pub(crate) users: Arc<Users>,
    pub(crate) counters: Arc<Counters>,
    /// Ingress policer.
    pub(crate) policer: Option<Arc<Policer>>,
    /// A batch with a frame shorter than this (in bytes) is checked frame by frame. On a port with a policer
    /// this is longer than any frame, so every batch is checked.
    pub(crate) check_frames_below: usize,
}

/// Counters of a port. They continue when the port's queues are replaced.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) rx: PortCount,
    pub(crate) tx: PortCount,
    pub(crate) tx_dropped: AtomicU64,
    pub(crate) rx_policed: AtomicU64,
    pub(crate) tx_qos: AtomicU64,
}

impl Counters {
    /// Creates the counted tx queues of a device.
    fn device(&self, txqs: Vec<Box<dyn TxQueue>>) -> DeviceQueues {
        txqs.into_iter().map(|queue| CountedQueue::with_lock(queue, &self.tx)).collect()
    }
}

impl Port {
    /// Creates a port with these tx queues. A port without tx queues drops all frames.
    pub(crate) fn new(no: PortNo, txqs: Vec<Box<dyn TxQueue>>) -> Port {
        let counters = Arc::<Counters>::default();
        let device = counters.device(txqs);
        Port {
            no,
            txqs: Arc::clone(&device),
            device,
            egress: None,
            captures: Arc::default(),
            device_has_queues: false,
            by_hash: false,
            users: Arc::default(),
            counters,
            policer: None,
            check_frames_below: SHORTEST,
        }
    }

    /// Returns the same port with other tx queues.
    pub(crate) fn with_queues(&self, txqs: Vec<Box<dyn TxQueue>>) -> Port {
        let device = self.counters.device(txqs);
        Port { device, users: Arc::default(), ..self.clone() }.with_egress(self.egress.clone())
    }

    /// Returns the same port with this egress policer or shaper, or with none.
    pub(crate) fn with_egress(&self, egress: Option<Arc<Egress>>) -> Port {
        let device = match self.captures.is_empty() {
            true => Arc::clone(&self.device),
            false => CapturedQueue::all(&self.captures, self.no.0, &self.device, &self.counters.tx),
        };
        let txqs = match &egress {
            Some(egress) => EgressQueue::all(egress, &device, &self.counters.tx),
            None => device,
        };
        Port { txqs, egress, ..self.clone() }
    }

    /// Returns the same port with its part of these captures; `None` if neither the port nor `all` has captures for
    /// it.
    pub(crate) fn captured(&self, all: &Captures) -> Option<Port> {
        let captures = all.of_tx(self.no.0);
        if captures.is_empty() && self.captures.is_empty() {
            return None;
        }
        let port = Port { captures: Arc::new(captures), ..self.clone() };
        Some(port.with_egress(self.egress.clone()))
    }

    /// Returns the same port, with or without QoS queues in its device.
    pub(crate) fn with_device_queues(&self, device_has_queues: bool) -> Port {
        Port { device_has_queues, ..self.clone() }
    }

    /// Returns whether a packet's QoS queue has an effect on this port.
    pub(crate) fn has_queues(&self) -> bool {
        self.device_has_queues || self.egress.is_some()
    }

    /// Returns the same port, with or without selection of the tx queue by hash.
    pub(crate) fn steered(&self, by_hash: bool) -> Port {
        Port { by_hash, ..self.clone() }
    }

    /// Returns the same port with another ingress policer, or none.
    pub(crate) fn policed(&self, policer: Option<Policer>) -> Port {
        let check_frames_below = if policer.is_some() { usize::MAX } else { SHORTEST };
        Port { policer: policer.map(Arc::new), check_frames_below, ..self.clone() }
    }

    pub(crate) fn is_by_hash(&self) -> bool {
        self.by_hash
    }

    /// Returns how `senders` workers share the tx queues.
    #[inline]
    pub(crate) fn tx_mode(&self, senders: usize) -> TxMode {
        match self.txqs.len() {
            // With one queue there is nothing to select.
            2.. if self.by_hash => TxMode::Hash,
            n if n >= senders => TxMode::Static,
            _ => TxMode::Xps,
        }
    }

    /// The tx queue of the worker whose own queue has index `own`. `None` if the queue also depends on packets or on
    /// other workers (see [`tx_mode`](Self::tx_mode)), or if there are no queues.
    #[inline(always)]
    pub(crate) fn static_queue(&self, own: usize, senders: usize) -> Option<&Mutex<CountedQueue>> {
        let queues = &*self.txqs;
        if self.by_hash || queues.len() < senders {
            return None;
        }
        // Usually there are as many queues as senders, and a comparison is faster than a division.
        queues.get(own).or_else(|| queues.get(own % queues.len().max(1))).map(|queue| &**queue)
    }

    /// Packets that the port's policer and its egress QoS dropped.
    pub(crate) fn limit_drops(&self) -> u64 {
        let Counters { rx_policed, tx_qos, .. } = &*self.counters;
        rx_policed.load(Ordering::Relaxed).wrapping_add(tx_qos.load(Ordering::Relaxed))
    }

    /// Statistics of the port.
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

/// All ports, by number. Copies share the memory of the ports.
#[derive(Clone, Default)]
pub struct Ports {
    pub(crate) all: NumberedTable<PortNo, Port>,
    /// Number of workers that send.
    pub(crate) senders: usize,
    /// Tunnel ports, which have no devices.
    pub(crate) tunnels: TunnelPorts,
}

impl Ports {
    /// Returns the port with a number.
    #[inline]
    pub fn get(&self, no: u32) -> Option<&Arc<Port>> {
        self.all.get_shared(&PortNo(no))
    }

    /// All ports, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Port> {
        self.all.values()
    }
}
