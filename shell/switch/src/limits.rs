//! The limits of megaflows.

use crate::backer::Backer;
use flowcache::Choice;
use units::Millis;

/// What is known of the limits of megaflows (`upcall/show`).
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A megaflow unused for this long goes.
    pub idle: Millis,
    /// There may be this many megaflows; `None`: as many as there is memory for.
    pub flows: Option<usize>,
    /// Megaflows may take so many bytes.
    pub bytes: usize,
    /// This many VLAN tags of a packet are looked at.
    pub vlans: u8,
    /// The cache that workers use.
    pub cache: Choice,
    /// Of so many packets one is translated again and compared; 0: none.
    pub shadow_check: u32,
    /// Microseconds that packets to send wait for more.
    pub tx_hold: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            idle: Millis(10_000),
            flows: None,
            bytes: 1 << 30,
            vlans: 1,
            cache: Choice::default(),
            shadow_check: 0,
            tx_hold: 0,
        }
    }
}

impl Limits {
    /// Puts in force how many megaflows there may be, and for how long.
    pub fn give_room(&self, backer: &Backer) {
        backer.datapath.set_flow_limits(self.flows.unwrap_or(usize::MAX), self.bytes);
        backer.revalidator.set_idle(self.idle);
    }
}
