//! The megaflows in which a batch is looked up.

use crate::batch::BATCH;
use crate::program::Program;
use classifier::megaflow::Megaflow;
use sync::Guard;

/// The guard under which a worker reads megaflows while it processes a batch.
pub type Megaflows<'g> = Guard<'g, Megaflow<Program>>;

/// The programs of a batch, by packet. They live as long as the guard, even if their megaflows are removed
/// meanwhile.
pub(super) type Programs<'g> = [Option<&'g Program>; BATCH];
