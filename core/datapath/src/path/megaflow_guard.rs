//! The type of the guard under which the megaflows of a batch are read, and of the programs that are found.

use crate::batch::BATCH;
use crate::program::Program;
use classifier::megaflow::Megaflow;
use sync::Guard;

/// The guard under which a worker reads megaflows while it processes a batch.
pub type MegaflowGuard<'g> = Guard<'g, Megaflow<Program>>;

/// The programs of the packets of a batch. They live as long as the guard, even if their megaflows are removed
/// meanwhile.
pub(super) type Programs<'g> = [Option<&'g Program>; BATCH];
