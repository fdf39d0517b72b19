//! Bonds and LACP follow rows and devices, and ports follow their results. **Thread**: the main loop; LACP messages
//! are sent by the timers thread (`translation::lacp`).
//!
//! | file | what |
//! |---|---|
//! | `configure.rs` | from rows to bonds and LACP |
//! | `follow.rs` | each iteration: link states in, choices of links out |
//! | `announce.rs` | informs other switches of stations |
//! | `orders.rs` | commands |

mod announce;
mod configure;
mod follow;
mod orders;

use bond::{Bond, View};
use std::collections::BTreeMap;
use std::sync::Arc;
use translation::lacp::groups::{Key, Report};
use units::OfPort;

/// A bond of a bridge.
pub struct PortBond {
    /// The bond's decisions.
    pub(crate) bond: Bond,
    /// The recirculation id for packets that return with their hash; 0: none.
    pub(crate) recirc: u32,
    /// As published last.
    pub(crate) view: Arc<View>,
}

/// The bonds of a datapath, and its ports with LACP.
#[derive(Default)]
pub struct Uplinks {
    /// By row of table Port.
    pub(crate) bonds: BTreeMap<Key, PortBond>,
    /// Reports of LACP, by row.
    pub(crate) lacp: BTreeMap<Key, Report>,
    /// Links of bonds and of LACP ports, by row.
    pub(crate) links: BTreeMap<Key, Vec<OfPort>>,
}

impl Uplinks {
    /// How the links of a row share traffic; `None` if the row is no bond.
    pub(crate) fn view(&self, key: &Key) -> Option<Arc<View>> {
        self.bonds.get(key).map(|b| Arc::clone(&b.view))
    }
}
