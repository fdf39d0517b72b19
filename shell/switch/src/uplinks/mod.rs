//! Bonds and LACP follow rows and devices, and ports follow their results. **Thread**: the main loop; LACP messages
//! are sent by the timers thread (`translation::lacp`).
//!
//! | file | what |
//! |---|---|
//! | `configure.rs` | from rows to bonds and LACP |
//! | `follow.rs` | each turn: link states in, choices of links out |
//! | `in_datapath.rs` | bonds that the datapath shares without a second look-up |
//! | `announce.rs` | announces to other switches where stations are |
//! | `commands.rs` | `bond/*` and `lacp/*` commands |

mod announce;
mod commands;
mod configure;
mod follow;
mod in_datapath;

use bond::{Bond, View};
use std::collections::BTreeMap;
use std::sync::Arc;
use translation::lacp::groups::{Key, Report};
use units::{OfPort, PortNo};

/// A bond of a bridge.
pub struct PortBond {
    /// The bond's decisions.
    pub(crate) bond: Bond,
    /// The recirculation id for packets that return with their hash; 0: none.
    pub(crate) recirc: u32,
    /// As published last.
    pub(crate) view: Arc<View>,
    /// Its links in the datapath, where that knows the bond under the same id.
    pub(crate) links: Option<Vec<(OfPort, PortNo)>>,
}

/// A number of a bond in the datapath that megaflows may still name.
struct Retired {
    id: u32,
    /// Megaflows of this version do not.
    version: u64,
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
    /// Bonds that the datapath will forget.
    retired: Vec<Retired>,
}

impl Uplinks {
    /// There is nothing to follow.
    pub(crate) fn is_empty(&self) -> bool {
        self.links.is_empty() && self.retired.is_empty()
    }

    /// How a row's ports share traffic, if they do.
    pub(crate) fn view(&self, key: &Key) -> Option<Arc<View>> {
        self.bonds.get(key).map(|b| Arc::clone(&b.view))
    }
}
