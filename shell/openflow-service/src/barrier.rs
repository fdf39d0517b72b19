//! Barriers (OpenFlow 1.3.5 §7.3.8): when one is answered, what came before it is done.
//!
//! A change of flows is done when no packet meets a megaflow that was made before it. Another thread sees to that
//! (`revalidate`), so the answer waits until it has dealt with the version in which the changes were published. What is
//! asked behind the barrier waits, too.
//!
//! **Bounds**: one barrier a connection, and no answer waits longer than `Barrier::deadline`: a change that concerns hundreds of
//! thousands of megaflows may take that long.

use crate::bridge::Bridge;
use crate::host::Host;
use crate::service::{Answer, Service};
use crate::unfinished::{Barrier, Unfinished};
use openflow::{Body, Message};

impl Service<'_> {
    /// There is no answer yet while megaflows are looked at.
    pub(crate) fn barrier(&mut self, request: &Message) -> Answer {
        let version = self.host.next_version();
        if self.host.is_done(version) {
            return Ok(Some(Body::BarrierReply));
        }
        let barrier = Barrier { request: request.clone(), version, since: self.now };
        self.bridge.unfinished.barriers.insert(self.conn, barrier);
        Ok(None)
    }
}

/// Answers those that need not wait any longer.
pub(crate) fn run(bridge: &mut Bridge, host: &dyn Host) {
    let now = host.now();
    let Bridge { conns, unfinished: Unfinished { barriers, .. }, .. } = bridge;
    barriers.retain(|conn, barrier| {
        let Some(session) = conns.session(*conn) else { return false };
        let waits = now < barrier.deadline() && !host.is_done(barrier.version);
        if !waits {
            session.send(&barrier.request.reply(Body::BarrierReply));
        }
        waits
    });
}
