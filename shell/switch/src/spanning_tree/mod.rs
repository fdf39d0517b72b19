//! Spanning trees of bridges: they (`translation::spanning_tree`) follow rows and devices; ports follow the trees.
//!
//! | file | what |
//! |---|---|
//! | `settings.rs` | from rows to settings of bridges and ports |
//! | `follow.rs` | applies rows and devices to trees, and reports of trees to ports |
//! | `stopping.rs` | ports that have stopped, until no megaflow forwards their packets |
//! | `rows.rs` | columns of the database |

mod follow;
mod rows;
pub(crate) mod settings;
mod stopping;

pub(crate) use follow::forget;
pub(crate) use rows::{bridge_columns, port_row};
pub use stopping::Stopping;
