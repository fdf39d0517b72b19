//! Parameters for reading and writing actions.

use crate::action::Action;
use crate::error::OfError;
use crate::version::Version;

/// How deep actions may lie in actions: `clone(clone(…))`.
pub(super) const MAX_DEPTH: u32 = 16;

/// What reading of actions depends on.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    pub version: Version,
    /// `debug_slow` and `debug_recirc` are known.
    pub debug: bool,
    pub depth: u32,
}

impl Context {
    pub fn new(version: Version, debug: bool) -> Context {
        Context { version, debug, depth: 0 }
    }
}

/// Reads actions within an action.
pub(super) type ReadNested = fn(&[u8], Context) -> Result<Vec<Action>, OfError>;
