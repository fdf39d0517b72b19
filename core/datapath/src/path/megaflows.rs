//! The megaflows that a batch is looked up in.

use crate::program::Program;
use classifier::megaflow::Megaflow;
use sync::Guard;

/// What a worker's reader guards while a batch is on its way.
pub type Megaflows<'g> = Guard<'g, Megaflow<Program>>;
