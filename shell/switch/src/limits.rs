//! Limits of megaflows, and other settings of the datapath.

use crate::backer::Backer;
use crate::lookups::Lookups;
use flowcache::CacheParams;
use units::Millis;

/// Settings of datapaths, some of which `upcall/show` reports.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time after which an unused megaflow is removed.
    pub idle: Millis,
    /// Maximum number of megaflows. `None`: only the memory limits the number.
    pub flows: Option<usize>,
    /// Maximum memory for megaflows in bytes.
    pub bytes: usize,
    /// Maximum number of VLAN tags that are parsed in a packet.
    pub vlans: u8,
    /// The implementation of the subtable look-up that is in use.
    pub lookups: Lookups,
    /// The flow cache of the workers.
    pub cache: CacheParams,
    /// Shadow check: one of this many packets is translated again and compared with its megaflow; 0: none.
    pub shadow_check: u32,
    /// How long packets wait in a tx burst for more packets, in microseconds.
    pub tx_flush_interval_us: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            idle: Millis(10_000),
            flows: None,
            bytes: 1 << 30,
            vlans: 1,
            lookups: Lookups::default(),
            cache: CacheParams::default(),
            shadow_check: 0,
            tx_flush_interval_us: 0,
        }
    }
}

impl Limits {
    /// Applies the limits of number, memory and idle time of megaflows to a datapath.
    pub fn apply_flow_limits(&self, backer: &Backer) {
        backer.datapath.set_flow_limits(self.flows.unwrap_or(usize::MAX), self.bytes);
        backer.revalidator.set_idle(self.idle);
    }
}
