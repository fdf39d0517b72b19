//! Statistics that are credited to the owners of megaflows.

use dpif::{FlowOwner, FlowStats};
use std::sync::Arc;

/// Statistics to credit to owners.
pub(crate) type Credits = Vec<(Arc<dyn FlowOwner>, FlowStats)>;

/// Credits the owners. The caller must not hold the publisher's lock, because an owner may call the datapath.
pub(crate) fn credit(credits: Credits) {
    for (owner, delta) in credits {
        owner.credit(&delta);
    }
}
