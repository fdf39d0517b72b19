//! Limits of megaflows, and other settings of the datapath.

use crate::backer::Backer;
use crate::lookups::Lookups;
use flowcache::Choice;
use units::Millis;

/// The settings that `upcall/show` reports, among others.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time after which an unused megaflow is removed.
    pub idle: Millis,
    /// Megaflows at most; `None`: as many as there is memory for.
    pub flows: Option<usize>,
    /// Bytes of memory for megaflows at most.
    pub bytes: usize,
    /// VLAN tags of a packet that are parsed.
    pub vlans: u8,
    /// The look-up in subtables that is in use.
    pub lookups: Lookups,
    /// The flow cache of the workers.
    pub cache: Choice,
    /// One of this many packets is translated again and compared; 0: none.
    pub shadow_check: u32,
    /// Microseconds that packets to be sent wait for more.
    pub tx_hold: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            idle: Millis(10_000),
            flows: None,
            bytes: 1 << 30,
            vlans: 1,
            lookups: Lookups::default(),
            cache: Choice::default(),
            shadow_check: 0,
            tx_hold: 0,
        }
    }
}

impl Limits {
    /// Applies the limits of number and idle time of megaflows.
    pub fn apply_flow_limits(&self, backer: &Backer) {
        backer.datapath.set_flow_limits(self.flows.unwrap_or(usize::MAX), self.bytes);
        backer.revalidator.set_idle(self.idle);
    }
}
