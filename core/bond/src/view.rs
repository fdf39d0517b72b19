//! A bond in the form that translations read: an immutable choice of links.

use crate::buckets::{BUCKETS, station_hash};
use crate::lacp::Negotiation;
use crate::settings::Mode;
use flow::Mac;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::OfPort;

/// Counters of the traffic of each bucket. The threads that collect the statistics of megaflows update them.
#[derive(Debug)]
pub struct Tally([Cell; BUCKETS]);

#[derive(Debug)]
struct Cell {
    /// Bytes since the last call of [`take`](Tally::take).
    new_bytes: AtomicU64,
    /// All packets and bytes for which a translation selected the link.
    sent: (AtomicU64, AtomicU64),
}

impl Default for Tally {
    fn default() -> Tally {
        let zero = || AtomicU64::new(0);
        Tally(std::array::from_fn(|_| Cell { new_bytes: zero(), sent: (zero(), zero()) }))
    }
}

impl Tally {
    /// Adds packets and bytes that were sent by a bucket.
    pub fn credit(&self, bucket: u8, packets: u64, bytes: u64) {
        let cell = &self.0[usize::from(bucket)];
        cell.sent.0.fetch_add(packets, Ordering::Relaxed);
        cell.sent.1.fetch_add(bytes, Ordering::Relaxed);
        self.credit_bytes(bucket, bytes);
    }

    /// Adds bytes that were sent by a bucket whose link the datapath itself selected.
    pub(crate) fn credit_bytes(&self, bucket: u8, bytes: u64) {
        self.0[usize::from(bucket)].new_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Packets and bytes that were sent by a bucket whose link a translation selected.
    pub(crate) fn sent(&self, bucket: u8) -> (u64, u64) {
        let (packets, bytes) = &self.0[usize::from(bucket)].sent;
        (packets.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed))
    }

    /// The bytes that were counted since the last call.
    pub(crate) fn take(&self) -> [u64; BUCKETS] {
        std::array::from_fn(|i| self.0[i].new_bytes.swap(0, Ordering::Relaxed))
    }
}

/// The links of a bond in the form that translations read.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub(crate) mode: Mode,
    pub(crate) negotiation: Negotiation,
    pub(crate) fallback: bool,
    pub(crate) all_active: bool,
    pub(crate) in_datapath: bool,
    pub(crate) basis: u32,
    pub(crate) active: Option<OfPort>,
    /// Links that are enabled, or will be enabled after a delay.
    pub(crate) usable: Vec<OfPort>,
    pub(crate) owners: Option<Arc<[OfPort; BUCKETS]>>,
    pub(crate) tally: Arc<Tally>,
}

/// How a bond selects the link of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// This link.
    Link(OfPort),
    /// The link that owns the bucket of the packet's source address and VLAN.
    ByStation,
    /// The link that owns the bucket of the packet's connection, whose hash the datapath computes.
    ByConnection,
    /// The packet is dropped.
    Nowhere,
}

/// Whether a packet that was received on a link of a bond is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The packet is accepted.
    Accept,
    /// The packet is dropped.
    Refuse,
    /// The packet is dropped if its source address is learned at another port: then it is most likely our own packet,
    /// which returned on another link.
    RefuseIfMoved,
}

impl View {
    /// How the bond selects the link of packets.
    pub fn choice(&self) -> Choice {
        let by_active = self.active.map_or(Choice::Nowhere, Choice::Link);
        match (self.mode, self.negotiation) {
            (_, Negotiation::Configured) if self.fallback => by_active,
            (_, Negotiation::Configured) => Choice::Nowhere,
            (Mode::ActiveBackup, _) => by_active,
            (Mode::BalanceSlb, _) => Choice::ByStation,
            (Mode::BalanceTcp, Negotiation::Negotiated) => Choice::ByConnection,
            (Mode::BalanceTcp, Negotiation::Off) => Choice::Nowhere,
        }
    }

    /// The bucket of a station in a VLAN.
    pub fn bucket_of(&self, mac: Mac, vlan: u16) -> u8 {
        (station_hash(mac, vlan, self.basis) & 0xff) as u8
    }

    /// The link that owns a bucket.
    pub fn owner(&self, bucket: u8) -> Option<OfPort> {
        let owner = self.owners.as_ref()?[usize::from(bucket)];
        (owner != OfPort::NONE).then_some(owner)
    }

    /// The link of each bucket; `None` if traffic is not distributed.
    #[cfg(test)]
    pub(crate) fn owners(&self) -> Option<&[OfPort; BUCKETS]> {
        self.owners.as_deref()
    }

    /// The counters of the traffic of each bucket.
    pub fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    /// Whether the datapath itself selects the link of packets that are distributed by connection (`lb_output`).
    pub fn is_in_datapath(&self) -> bool {
        self.in_datapath
    }

    /// Initial value of the hash that the datapath computes.
    pub fn basis(&self) -> u32 {
        self.basis
    }

    /// Returns whether a packet that was received on a link is accepted.
    pub fn admission(&self, link: OfPort, is_multicast: bool) -> Admission {
        match self.negotiation {
            // The other end treats the links as one port, and sends each packet through one link only.
            Negotiation::Negotiated if self.usable.contains(&link) => return Admission::Accept,
            Negotiation::Negotiated => return Admission::Refuse,
            Negotiation::Configured if !self.fallback => return Admission::Refuse,
            Negotiation::Off if self.mode == Mode::BalanceTcp => return Admission::Refuse,
            Negotiation::Configured | Negotiation::Off => {}
        }
        let is_active = self.active == Some(link);
        if is_multicast && !is_active && !self.all_active {
            return Admission::Refuse;
        }
        match self.mode {
            Mode::BalanceSlb => Admission::RefuseIfMoved,
            Mode::BalanceTcp | Mode::ActiveBackup if is_active => Admission::Accept,
            Mode::BalanceTcp | Mode::ActiveBackup => Admission::Refuse,
        }
    }
}
