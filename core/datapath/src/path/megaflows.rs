//! The megaflows in which a batch is looked up.

use crate::program::Program;
use classifier::megaflow::Megaflow;
use sync::Guard;

/// The guard under which a worker reads megaflows while it processes a batch.
pub type Megaflows<'g> = Guard<'g, Megaflow<Program>>;
