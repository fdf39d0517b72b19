//! Bonds and LACP: they follow rows and devices, and ports follow what they say. **Thread**: the main loop; messages of LACP
//! have the timers thread (`translation::lacp`).
//!
//! | file | what |
//! |---|---|
//! | `configure.rs` | from rows to bonds and LACP |
//! | `follow.rs` | each turn: link states in, choices of links out |
//! | `announce.rs` | tells other switches where stations are |
//! | `orders.rs` | what commands ask and order |

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
    /// What it decides.
    pub(crate) bond: Bond,
    /// Under which id packets come back with their hash; 0: they do not.
    pub(crate) recirc: u32,
    /// As it was last published.
    pub(crate) view: Arc<View>,
}

/// The bonds of a datapath, and the ports that speak LACP.
#[derive(Default)]
pub struct Uplinks {
    /// By row.
    pub(crate) bonds: BTreeMap<Key, PortBond>,
    /// What LACP says, by row.
    pub(crate) lacp: BTreeMap<Key, Report>,
    /// Links of both, by row.
    pub(crate) links: BTreeMap<Key, Vec<OfPort>>,
}

impl Uplinks {
    /// How a row's ports share traffic, if they do.
    pub(crate) fn view(&self, key: &Key) -> Option<Arc<View>> {
        self.bonds.get(key).map(|b| Arc::clone(&b.view))
    }
}
