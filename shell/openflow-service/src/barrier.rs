//! Barriers (OpenFlow 1.3.5 §7.3.8): the reply means that all earlier requests are complete.
//!
//! A change of flows is complete when no packet can use a megaflow that was made before the change. The revalidator thread
//! ensures that, so the reply waits until the revalidator has finished the version in which the changes were published. Requests
//! after the barrier wait, too.
//!
//! **Bounds**: one barrier per connection. The reply is sent at `Barrier::deadline` at the latest, even if a change that affects
//! hundreds of thousands of megaflows is not complete then.

use crate::bridge::Bridge;
use crate::request_context::{RequestContext, RequestResult};
use crate::switch_access::SwitchAccess;
use crate::unfinished::{Barrier, Unfinished};
use openflow::{Body, Message};

impl RequestContext<'_> {
    /// Returns no reply while megaflows are being revalidated; the reply is sent later.
    pub(crate) fn barrier(&mut self, request: &Message) -> RequestResult {
        let version = self.outside.next_version();
        if self.outside.is_revalidated(version) {
            return Ok(Some(Body::BarrierReply));
        }
        let barrier = Barrier { request: request.clone(), version, since: self.now };
        self.bridge.unfinished.barriers.insert(self.conn, barrier);
        Ok(None)
    }
}

/// Sends the replies of barriers that are complete or have reached their deadline.
pub(crate) fn run(bridge: &mut Bridge, outside: &dyn SwitchAccess) {
    let now = outside.now();
    let Bridge { conns, unfinished: Unfinished { barriers, .. }, .. } = bridge;
    barriers.retain(|conn, barrier| {
        let Some(session) = conns.session(*conn) else { return false };
        let waits = now < barrier.deadline() && !outside.is_revalidated(barrier.version);
        if !waits {
            session.send(barrier.request.reply(Body::BarrierReply));
        }
        waits
    });
}
