//! Recording of every iteration of the PMD threads (`pmd-perf-metrics`): switching it on, reading it, and logging
//! suspicious iterations.
//!
//! Each poll thread owns a recorder while the setting is on, so it takes no lock. A command orders a copy, which the thread sends
//! between two turns, and waits for it.

use crate::handle::{MAIN, Runner, WorkerHandle};
use crate::mailbox::Order;
use crate::recording::Metrics;
use crate::workers::Workers;
use pmd::metrics::{Recorder, Watch};
use std::sync::mpsc::sync_channel;
use units::{Millis, WorkerId};

impl Metrics {
    /// Sends the settings to a worker.
    pub(crate) fn apply(self, handle: &mut WorkerHandle, now: Millis) {
        if handle.place.id == MAIN || self.on == handle.recorded {
            return;
        }
        handle.recorded = self.on;
        handle.mailbox.post(Order::Record(self.on.then(|| Box::new(Recorder::new(now, self.watch)))));
    }
}

impl Workers {
    /// Switches the recording of iterations on or off.
    pub(crate) fn record(&mut self, on: bool) {
        self.metrics.on = on;
        for handle in self.handles.values_mut() {
            self.metrics.apply(handle, self.now);
        }
        self.deliver();
    }

    /// Sets which iterations are logged as suspicious.
    pub fn watch(&mut self, watch: Watch) {
        self.metrics.watch = watch;
        self.handles.values().filter(|s| s.recorded).for_each(|s| s.mailbox.post(Order::Watch(watch)));
        self.deliver();
    }

    /// A copy of what a worker recorded.
    pub fn recorded(&self, worker: WorkerId) -> Option<Recorder> {
        let handle = self.handles.get(&worker).filter(|s| s.recorded)?;
        if let Runner::Inline(state) = &handle.runner {
            return state.recorded();
        }
        let (copy, answer) = sync_channel(1);
        handle.mailbox.post(Order::Recorded(copy));
        self.hear(handle, &answer)
    }

    /// Clears what a worker recorded.
    pub fn clear_record(&mut self, worker: WorkerId, now: Millis) {
        if let Some(handle) = self.handles.get(&worker).filter(|s| s.recorded) {
            let fresh = Recorder::new(now, self.metrics.watch);
            handle.mailbox.post(Order::Record(Some(Box::new(fresh))));
        }
        self.deliver();
    }
}
