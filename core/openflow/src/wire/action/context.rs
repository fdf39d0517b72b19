//! Parameters for decoding and encoding actions.

use crate::action::Action;
use crate::error::OfError;
use crate::version::Version;

/// Maximum nesting depth of actions in actions: `clone(clone(…))`.
pub(super) const MAX_DEPTH: u32 = 16;

/// Parameters on which the decoding of actions depends.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    pub version: Version,
    /// Whether `debug_slow` and `debug_recirc` are accepted.
    pub debug: bool,
    pub depth: u32,
}

impl Context {
    pub fn new(version: Version, debug: bool) -> Context {
        Context { version, debug, depth: 0 }
    }
}

/// Function that decodes actions within an action.
pub(super) type ReadNested = fn(&[u8], Context) -> Result<Vec<Action>, OfError>;
