//! Mirrors of a bridge: which packets they copy, and where they send the copies.

use bridge::{BundleId, VlanSet};
use flow::{FieldId, Flow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

mod copy;

/// Maximum number of mirrors of a bridge: sets of mirrors are bit sets in a `u32`.
pub const MIRRORS_MAX: usize = 32;

/// The destination of copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorOutput {
    /// A port, which is used for nothing else.
    Port(BundleId),
    /// A VLAN.
    Vlan(u16),
}

/// The counters of a mirror.
#[derive(Debug, Default)]
pub struct MirrorTally {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl MirrorTally {
    /// Counts packets.
    pub fn credit(&self, packets: u64, bytes: u64) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns packets and bytes.
    pub fn get(&self) -> (u64, u64) {
        (self.packets.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// One mirror of a bridge.
#[derive(Clone, Debug)]
pub struct Mirror {
    /// Copies packets that these ports receive.
    pub src_ports: Vec<BundleId>,
    /// Copies packets that these ports send.
    pub dst_ports: Vec<BundleId>,
    /// Copies only packets of these VLANs; `None`: of all.
    pub vlans: Option<VlanSet>,
    /// Copies only packets that equal this flow in the bits of this mask; `None`: all packets.
    pub filter: Option<Arc<(Flow, Flow)>>,
    /// The destination of copies.
    pub out: MirrorOutput,
    /// Maximum length of a copy in bytes; 0: unlimited.
    pub snaplen: u16,
    /// Counters.
    pub tally: Arc<MirrorTally>,
}

impl Mirror {
    /// Returns whether the packet passes the filter; adds the filter's bits to the mask.
    fn selects(&self, flow: &Flow, mask: &mut Flow) -> bool {
        let Some((wanted, bits)) = self.filter.as_deref() else { return true };
        FieldId::all().filter(|f| f.mask_of(bits) != 0).all(|field| {
            let relevant = field.mask_of(bits);
            let seen = field.mask_of(mask);
            field.set_mask(mask, seen | relevant);
            (field.get(flow) ^ field.get(wanted)) & relevant == 0
        })
    }
}
