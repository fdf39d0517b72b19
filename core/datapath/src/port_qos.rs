//! Policers and shapers of ports, as the control half sets them.

use crate::datapath::Datapath;
use crate::egress::{Egress, EgressClock, EgressSpec};
use crate::policer::{Policer, PolicerSpec};
use crate::port::Frame;
use dpif::DropReason;
use std::sync::Arc;
use units::{Micros, Millis, PortNo};

impl Datapath {
    /// Limits from now on what a port brings; rates of 0 limit nothing. Whether that is new: a policer that stays keeps what it
    /// has in its buckets.
    pub fn set_policer(&self, no: PortNo, spec: PolicerSpec, now: Millis) -> bool {
        let new = Policer::new(spec, Micros(now.0.saturating_mul(1000)));
        let old = self.shared.ports.load().get(no.0).and_then(|p| p.policer.as_ref().map(|p| p.spec));
        let is_new = old != new.as_ref().map(|policer| policer.spec);
        is_new && self.replace_port(no, |port| Some(port.policed(new))).is_ok()
    }

    /// What a port sends goes through this from now on, or through nothing. Packets that were held and have no queue any more are
    /// dropped and counted. What is in force already keeps its counters and packets. Fails where the rates cannot be.
    pub fn set_egress(
        &self,
        no: PortNo,
        spec: Option<EgressSpec>,
        clock: &EgressClock,
    ) -> Result<(), qos::Invalid> {
        let old = self.egress(no);
        match (&old, spec) {
            (Some(egress), Some(spec)) => {
                self.drop_held(egress.set(spec)?);
                return Ok(());
            }
            (None, None) => return Ok(()),
            (_, spec) => {
                let new = spec.map(|spec| Egress::new(spec, Arc::clone(clock))).transpose()?.map(Arc::new);
                // A port that is gone needs none.
                let _ = self.replace_port(no, |port| Some(port.with_egress(new)));
            }
        }
        old.iter().for_each(|egress| self.drop_held(egress.close()));
        Ok(())
    }

    /// What a port's packets go through.
    pub fn egress(&self, no: PortNo) -> Option<Arc<Egress>> {
        self.shared.ports.load().get(no.0)?.egress.clone()
    }

    /// Packets that name a QoS queue go to the device with its number from now on, or without.
    pub fn set_device_queues(&self, no: PortNo, has_queues: bool) {
        let _ = self.replace_port(no, |port| Some(port.with_device_queues(has_queues)));
    }

    /// Drops what a shaper held that has no queue any more.
    pub(crate) fn drop_held(&self, frames: Vec<Frame>) {
        if !frames.is_empty() {
            self.outside(|worker| worker.drop_all(frames, DropReason::TxQos));
        }
    }
}
