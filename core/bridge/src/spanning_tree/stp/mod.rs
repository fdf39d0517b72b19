//! Spanning tree (IEEE 802.1D-1998 clause 8). Names of procedures and variables are those of §8.5 and §8.6.
//!
//! | file | content |
//! |---|---|
//! | `settings.rs` | settings of a bridge; costs |
//! | `timer.rs` | timers, and times on the wire |
//! | `bridge.rs` | state of a bridge and its ports; configuration |
//! | `selection.rs` | selection of the root, of designated ports and of port states |
//! | `receive.rs` | processing of received BPDUs |
//! | `transmit.rs` | sends BPDUs |
//! | `expiry.rs` | handles expired timers |
//! | `show.rs` | `stp/show` and columns of the database |

mod bridge;
mod expiry;
mod receive;
mod selection;
mod settings;
mod show;
mod timer;
mod transmit;

pub use bridge::Bridge;
pub use settings::{DEFAULT_PRIORITY, PORTS_MAX, Settings, path_cost};
