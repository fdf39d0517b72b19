//! Mirrors of a bridge: what they select, and where copies go.

use bridge::{BundleId, VlanSet};
use flow::{FieldId, Flow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

mod copy;

/// Most mirrors of a bridge: one bit each.
pub const MIRRORS_MAX: usize = 32;

/// Where copies go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorTo {
    /// Out of a port, which serves nothing else then.
    Port(BundleId),
    /// Into a VLAN.
    Vlan(u16),
}

/// What a mirror has copied.
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

    /// Packets and bytes so far.
    pub fn get(&self) -> (u64, u64) {
        (self.packets.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// One mirror of a bridge.
#[derive(Clone, Debug)]
pub struct Mirror {
    /// Copies what comes in by these.
    pub from: Vec<BundleId>,
    /// Copies what leaves by these.
    pub to: Vec<BundleId>,
    /// Only of these VLANs.
    pub vlans: Option<VlanSet>,
    /// Only what agrees with the flow (first) in the bits of the mask (second).
    pub filter: Option<Arc<(Flow, Flow)>>,
    /// Where copies go.
    pub out: MirrorTo,
    /// Bytes of a copy at most; 0: all.
    pub snaplen: u16,
    /// Counts.
    pub tally: Arc<MirrorTally>,
}

impl Mirror {
    /// The packet agrees with the filter; the mask learns what was looked at.
    fn wants(&self, flow: &Flow, mask: &mut Flow) -> bool {
        let Some((wanted, bits)) = self.filter.as_deref() else { return true };
        FieldId::all().filter(|f| f.mask_of(bits) != 0).all(|field| {
            let relevant = field.mask_of(bits);
            let seen = field.mask_of(mask);
            field.set_mask(mask, seen | relevant);
            (field.get(flow) ^ field.get(wanted)) & relevant == 0
        })
    }
}
