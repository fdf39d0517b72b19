//! Bonds and LACP: their configuration from rows, and their effects on ports. **Thread**: the main loop; the timer
//! thread sends LACP messages (`translation::lacp`).
//!
//! | file | what |
//! |---|---|
//! | `configure.rs` | configures bonds and LACP from rows |
//! | `run.rs` | in each turn: passes link states to bonds and LACP, and applies their choices of links |
//! | `in_datapath.rs` | bonds whose links the datapath selects without a second look-up |
//! | `announce.rs` | announces the new link of stations to other switches |
//! | `commands.rs` | `bond/*` and `lacp/*` commands |

mod announce;
mod commands;
mod configure;
mod in_datapath;
mod run;

use bond::{Bond, View};
use std::collections::BTreeMap;
use std::sync::Arc;
use translation::lacp::port_rows::{PortRowKey, Report};
use units::{OfPort, PortNo};

/// A bond of a bridge.
pub struct PortBond {
    /// The state of the bond, which decides which link a packet uses.
    pub(crate) bond: Bond,
    /// The recirculation id of packets whose hash selects the link; 0: none.
    pub(crate) recirc: u32,
    /// The bond as it was published last.
    pub(crate) view: Arc<View>,
    /// The links that were passed to the datapath; `None`: the datapath does not have the bond.
    pub(crate) links: Option<Vec<(OfPort, PortNo)>>,
}

/// A bond that will be removed from the datapath as soon as no megaflow refers to it.
struct Retired {
    id: u32,
    /// Megaflows of this version do not refer to the bond.
    version: u64,
}

/// The bonds of a datapath, and its ports with LACP.
#[derive(Default)]
pub struct LinkAggregation {
    /// Bonds, by row of table Port.
    pub(crate) bonds: BTreeMap<PortRowKey, PortBond>,
    /// Reports of LACP, by row.
    pub(crate) lacp: BTreeMap<PortRowKey, Report>,
    /// Links of bonds and of LACP ports, by row.
    pub(crate) links: BTreeMap<PortRowKey, Vec<OfPort>>,
    /// Bonds that will be removed from the datapath.
    retired: Vec<Retired>,
}

impl LinkAggregation {
    /// Whether there are neither links nor retired bonds.
    pub(crate) fn is_empty(&self) -> bool {
        self.links.is_empty() && self.retired.is_empty()
    }

    /// How the ports of a row share traffic; `None` if the row is not a bond.
    pub(crate) fn view(&self, key: &PortRowKey) -> Option<Arc<View>> {
        self.bonds.get(key).map(|b| Arc::clone(&b.view))
    }
}
