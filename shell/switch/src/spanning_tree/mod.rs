//! Connects spanning trees (`translation::spanning_tree`) with rows, devices and ports.
//!
//! | file | what |
//! |---|---|
//! | `settings.rs` | settings of bridges and ports, from rows |
//! | `run.rs` | passes rows and states of devices to trees, and applies reports of trees to ports |
//! | `stopping.rs` | ports that have stopped forwarding, until no megaflow forwards their packets |
//! | `rows.rs` | columns of the database |

mod rows;
mod run;
pub(crate) mod settings;
mod stopping;

pub(crate) use rows::{bridge_columns, port_row};
pub(crate) use run::forget;
pub use stopping::Stopping;
