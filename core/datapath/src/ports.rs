//! The ports of the datapath: their numbers, their tx queues, their counters.
//!
//! Workers read a snapshot; adding or removing a port publishes another. A tx queue stands behind a lock of its own:
//! where a port has one for every worker (the usual case) nobody ever waits.

use crate::port::TxQueue;
use crate::steering::{TxMode, Users};
use dpif::{Counter, PortStats};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use units::PortNo;

/// The largest port number.
pub const MAX_PORT: u32 = classifier::megaflow::publisher::MAX_PORT;

/// One port.
pub struct Port {
    /// Its number.
    pub no: PortNo,
    pub(crate) txqs: Arc<[Mutex<Box<dyn TxQueue>>]>,
    /// Packets say by which queue they go.
    by_hash: bool,
    pub(crate) users: Arc<Users>,
    pub(crate) counters: Arc<Counters>,
}

/// What is counted at a port, whatever its queues are at the time.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) rx: Counter,
    pub(crate) tx: Counter,
    pub(crate) tx_dropped: AtomicU64,
}

impl Port {
    /// A port that sends by these queues. One that has none drops what it is given.
    pub(crate) fn new(no: PortNo, txqs: Vec<Box<dyn TxQueue>>) -> Port {
        let txqs = txqs.into_iter().map(Mutex::new).collect::<Vec<_>>();
        Port { no, txqs: txqs.into(), by_hash: false, users: Arc::default(), counters: Arc::default() }
    }

    /// The same port with other tx queues.
    pub(crate) fn with_queues(&self, txqs: Vec<Box<dyn TxQueue>>) -> Port {
        Port { counters: Arc::clone(&self.counters), by_hash: self.by_hash, ..Port::new(self.no, txqs) }
    }

    /// The same port; packets say (or do not) by which queue they go.
    pub(crate) fn steered(&self, by_hash: bool) -> Port {
        let (txqs, users, counters) = (&self.txqs, &self.users, &self.counters);
        let (txqs, users, counters) = (Arc::clone(txqs), Arc::clone(users), Arc::clone(counters));
        Port { no: self.no, txqs, by_hash, users, counters }
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
        let Counters { rx, tx, tx_dropped } = &*self.counters;
        let ((rx_packets, rx_bytes), (tx_packets, tx_bytes)) = (rx.get(), tx.get());
        PortStats {
            rx_packets,
            rx_bytes,
            tx_packets,
            tx_bytes,
            tx_dropped: tx_dropped.load(Ordering::Relaxed),
        }
    }
}

/// All ports, by number.
#[derive(Clone, Default)]
pub struct Ports {
    by_no: Vec<Option<Arc<Port>>>,
    /// How many workers send.
    pub(crate) senders: usize,
}

impl Ports {
    /// The port of a number.
    #[inline]
    pub fn get(&self, no: u32) -> Option<&Arc<Port>> {
        self.by_no.get(no as usize)?.as_ref()
    }

    /// All of them, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Port>> {
        self.by_no.iter().flatten()
    }

    /// With a port added or (`None`) removed; the port that had the number.
    pub(crate) fn set(&mut self, no: u32, port: Option<Arc<Port>>) -> Option<Arc<Port>> {
        let at = no as usize;
        if self.by_no.len() <= at {
            self.by_no.resize(at + 1, None);
        }
        std::mem::replace(&mut self.by_no[at], port)
    }
}
