//! What the owners of megaflows are to be told.

use dpif::{FlowOwner, FlowStats};
use std::sync::Arc;

/// What owners are to be told.
pub(crate) type Credits = Vec<(Arc<dyn FlowOwner>, FlowStats)>;

/// Tells them. Call it without the lock.
pub(crate) fn credit(credits: Credits) {
    for (owner, delta) in credits {
        owner.credit(&delta);
    }
}
