//! Statistics that are credited to the owners of megaflows.

use dpif::{FlowOwner, FlowStats};
use std::sync::Arc;

/// Statistics to credit to owners.
pub(crate) type Credits = Vec<(Arc<dyn FlowOwner>, FlowStats)>;

/// Credits the owners. Call it without the lock.
pub(crate) fn credit(credits: Credits) {
    for (owner, delta) in credits {
        owner.credit(&delta);
    }
}
