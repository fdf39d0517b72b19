//! Starting and ending captures: the interface for the control half.

use super::running::{CAPTURES_MAX, Capture};
use super::set::Captures;
use crate::datapath::{Datapath, PutError};
use crate::ports::Ports;
use std::sync::Arc;

impl Datapath {
    /// Starts a capture. Workers use it from their next iteration on.
    pub fn start_capture(&self, capture: &Arc<Capture>) -> Result<(), PutError> {
        let _one_at_a_time = self.shared.flows();
        let captures = self.shared.captures.load_full();
        if captures.len() >= CAPTURES_MAX {
            return Err(PutError::LimitReached);
        }
        self.set_captures(captures.with(capture));
        Ok(())
    }

    /// Ends a capture. The reader may still take the copies that wait. Workers add none after their next iteration
    /// has begun.
    pub fn stop_capture(&self, capture: &Arc<Capture>) {
        let _one_at_a_time = self.shared.flows();
        self.set_captures(self.shared.captures.load_full().without(capture));
    }

    /// The captures that are running.
    pub fn captures(&self) -> Vec<Arc<Capture>> {
        self.shared.captures.load().iter().cloned().collect()
    }

    /// Publishes the captures. Only ports whose captures change get new tx queues.
    fn set_captures(&self, captures: Captures) {
        let captures = Arc::new(captures);
        let mut ports = Ports::clone(&self.shared.ports.load());
        let changed: Vec<_> = ports.iter().filter_map(|port| port.captured(&captures)).collect();
        for port in changed {
            ports.all.insert(port.no, port);
        }
        self.shared.ports.store(Arc::new(ports));
        self.shared.captures.store(captures);
        self.shared.changed();
    }
}
