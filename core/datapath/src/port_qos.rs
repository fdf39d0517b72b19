//! Policers and shapers of ports: the interface for the control half.

use crate::datapath::Datapath;
use crate::egress_qos::{Egress, EgressClock, EgressSpec};
use crate::policer::{Policer, PolicerSpec};
use crate::port::Frame;
use dpif::DropReason;
use std::sync::Arc;
use units::{Micros, Millis, PortNo};

impl Datapath {
    /// Sets the ingress policer of a port; a rate of 0 does not limit. Returns whether this is a change. If nothing
    /// changes, the policer keeps the tokens in its buckets.
    pub fn set_policer(&self, no: PortNo, spec: PolicerSpec, now: Millis) -> bool {
        let new = Policer::new(spec, Micros(now.0.saturating_mul(1000)));
        let old = self.shared.ports.load().get(no.0).and_then(|p| p.policer.as_ref().map(|p| p.spec));
        let is_new = old != new.as_ref().map(|policer| policer.spec);
        is_new && self.replace_port(no, |port| Some(port.policed(new))).is_ok()
    }

    /// Sets or removes the egress policer or shaper of a port. Held packets that have no queue any more are dropped
    /// and counted. If the specification is in force already, the policer or shaper keeps its counters and packets.
    /// Fails if the rates are invalid.
    pub fn set_egress(
        &self,
        no: PortNo,
        spec: Option<EgressSpec>,
        clock: &EgressClock,
    ) -> Result<(), qos::InvalidRates> {
        let old = self.egress(no);
        match (&old, spec) {
            (Some(egress), Some(spec)) => {
                self.drop_held(no, egress.set(spec)?);
                return Ok(());
            }
            (None, None) => return Ok(()),
            (_, spec) => {
                let new = spec.map(|spec| Egress::new(spec, Arc::clone(clock))).transpose()?.map(Arc::new);
                // If the port was removed meanwhile, there is nothing to set.
                let _ = self.replace_port(no, |port| Some(port.with_egress(new)));
            }
        }
        old.iter().for_each(|egress| self.drop_held(no, egress.close()));
        Ok(())
    }

    /// The egress policer or shaper of a port.
    pub fn egress(&self, no: PortNo) -> Option<Arc<Egress>> {
        self.shared.ports.load().get(no.0)?.egress.clone()
    }

    /// Sets whether the device gets each packet with the number of the QoS queue that the packet has selected.
    pub fn set_device_queues(&self, no: PortNo, has_queues: bool) {
        let _ = self.replace_port(no, |port| Some(port.with_device_queues(has_queues)));
    }

    /// Drops packets that were in a shaper and have no queue any more.
    pub(crate) fn drop_held(&self, no: PortNo, frames: Vec<Frame>) {
        if !frames.is_empty() {
            self.with_control_worker(|worker| worker.drop_all(no, frames, DropReason::TxQos));
        }
    }
}
