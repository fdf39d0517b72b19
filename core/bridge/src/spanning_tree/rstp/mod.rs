//! Rapid spanning tree (IEEE 802.1D-2004 clause 17). Names of state machines, procedures and variables are those of §17.17 to §17.31. As in IEEE
//! 802.1Q-2014, a designated port stops forwarding if it receives worse information from a designated port that learns (the variable "disputed").
//!
//! Timers count seconds: [`Bridge::run`] decrements them once per second.
//!
//! | file | content |
//! |---|---|
//! | `settings.rs` | settings of a bridge and its ports; costs |
//! | `vector.rs` | priority vectors and times (§17.5, §17.6) |
//! | `port.rs` | variables of a port (§17.19) and its timers (§17.17) |
//! | `bridge.rs` | variables of a bridge (§17.18), configuration, and the order in which state machines run |
//! | `receive.rs` | port receive, port protocol migration and bridge detection machines (§17.23 to §17.25) |
//! | `transmit.rs` | port transmit machine (§17.26) |
//! | `information.rs` | port information machine (§17.27) |
//! | `selection.rs` | port role selection machine (§17.28) |
//! | `transitions.rs` | port role transitions machine (§17.29) |
//! | `forwarding.rs` | port state transition machine (§17.30) |
//! | `topology.rs` | topology change machine (§17.31) |
//! | `show.rs` | `rstp/show` and columns of the database |

mod bridge;
mod forwarding;
mod information;
mod port;
mod receive;
mod selection;
mod settings;
mod show;
mod topology;
mod transitions;
mod transmit;
mod vector;

pub use super::port_setup::{PointToPoint, PortSettings};
pub use bridge::Bridge;
pub use settings::{DEFAULT_PRIORITY, PORTS_MAX, Settings, path_cost};
