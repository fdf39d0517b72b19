//! A bond as translations see it: an immutable choice of links.

use crate::buckets::{BUCKETS, station_hash};
use crate::lacp::Negotiation;
use crate::settings::Mode;
use flow::Mac;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::OfPort;

/// What was sent by bucket, counted by whoever reads the statistics of megaflows.
#[derive(Debug)]
pub struct Tally([Cell; BUCKETS]);

#[derive(Debug)]
struct Cell {
    /// Bytes that were not taken yet.
    fresh: AtomicU64,
    /// All packets and bytes.
    sent: (AtomicU64, AtomicU64),
}

impl Default for Tally {
    fn default() -> Tally {
        let zero = || AtomicU64::new(0);
        Tally(std::array::from_fn(|_| Cell { fresh: zero(), sent: (zero(), zero()) }))
    }
}

impl Tally {
    /// So many packets and bytes were sent by a bucket.
    pub fn credit(&self, bucket: u8, packets: u64, bytes: u64) {
        let cell = &self.0[usize::from(bucket)];
        cell.sent.0.fetch_add(packets, Ordering::Relaxed);
        cell.sent.1.fetch_add(bytes, Ordering::Relaxed);
        self.credit_bytes(bucket, bytes);
    }

    /// So many bytes were sent by a bucket without a translation that chose the link.
    pub(crate) fn credit_bytes(&self, bucket: u8, bytes: u64) {
        self.0[usize::from(bucket)].fresh.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Packets and bytes that translations have sent by a bucket.
    pub(crate) fn sent(&self, bucket: u8) -> (u64, u64) {
        let (packets, bytes) = &self.0[usize::from(bucket)].sent;
        (packets.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed))
    }

    /// The bytes that were counted since the last call.
    pub(crate) fn take(&self) -> [u64; BUCKETS] {
        std::array::from_fn(|i| self.0[i].fresh.swap(0, Ordering::Relaxed))
    }
}

/// The links of a bond, as translations see them.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub(crate) mode: Mode,
    pub(crate) negotiation: Negotiation,
    pub(crate) fallback: bool,
    pub(crate) all_active: bool,
    pub(crate) in_datapath: bool,
    pub(crate) basis: u32,
    pub(crate) active: Option<OfPort>,
    /// Links that are enabled or will soon be.
    pub(crate) usable: Vec<OfPort>,
    pub(crate) owners: Option<Arc<[OfPort; BUCKETS]>>,
    pub(crate) tally: Arc<Tally>,
}

/// How a bond selects the link of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// By this link.
    Link(OfPort),
    /// By the link that owns the bucket of the packet's source address and VLAN.
    ByStation,
    /// By the link that owns the bucket of the packet's connection, which the datapath hashes.
    ByConnection,
    /// The packet is dropped.
    Nowhere,
}

/// Whether a packet that was received on a link of a bond is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is taken.
    Accept,
    /// It is dropped.
    Refuse,
    /// It is dropped if its source is known at another port: then it most likely is a packet of ours that
    /// returned on another link.
    RefuseIfMoved,
}

impl View {
    /// How to select the link of packets.
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

    /// The link that has a bucket.
    pub fn owner(&self, bucket: u8) -> Option<OfPort> {
        let owner = self.owners.as_ref()?[usize::from(bucket)];
        (owner != OfPort::NONE).then_some(owner)
    }

    /// The links by bucket; `None` if traffic is not shared.
    #[cfg(test)]
    pub(crate) fn owners(&self) -> Option<&[OfPort; BUCKETS]> {
        self.owners.as_deref()
    }

    /// Counters of bytes by bucket.
    pub fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    /// Of packets that are shared by connection: the datapath knows which link has which bucket.
    pub fn is_in_datapath(&self) -> bool {
        self.in_datapath
    }

    /// Basis of the hash that the datapath makes.
    pub fn basis(&self) -> u32 {
        self.basis
    }

    /// Returns whether a packet received on this link is accepted.
    pub fn admission(&self, link: OfPort, is_multicast: bool) -> Admission {
        match self.negotiation {
            // The other end knows the bond and sends each packet only once.
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
