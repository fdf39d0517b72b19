//! Keeping megaflows right. A change is looked up in what megaflows were made from: those that it may concern are translated
//! again and compared, the others are left alone (`xlate::Trail`). What concerns everything, as a port's coming does, has all
//! of them translated again.
//!
//! Nothing here holds a lock while it translates; a megaflow published meanwhile was made from the snapshot that is used
//! here or from a newer one (`UpcallHandler::is_current`), so nothing escapes.
//!
//! | file | what |
//! |---|---|
//! | `check.rs` | one megaflow: translated again, compared, repaired |
//! | `history.rs` | what changed lately, for the log line about a megaflow that no change had found |
//! | `passes.rs` | which megaflows: those of a change, all, and a few at a time to be safe |
//! | `thread.rs` | the thread that does it, beside the main loop |

mod check;
mod history;
mod passes;
mod thread;

pub(crate) use check::compare;
pub use thread::Revalidator;

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

/// What is done about idle megaflows by the main loop: the log hears of them all; in dummy mode they go.
pub fn expire(backer: &mut Backer, now: Millis) {
    crate::flow_log::dumped(&backer.name(), &backer.datapath, now);
    backer.flows_max = backer.flows_max.max(backer.datapath.flow_count() as u64);
    backer.revalidator.expire(now);
}
