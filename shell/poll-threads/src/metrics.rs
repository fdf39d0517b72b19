//! Recording of every iteration of the PMD threads (`pmd-perf-metrics`), as the main thread controls it.
//!
//! While the setting is on, each PMD thread owns a recorder, so recording needs no lock. A command orders a copy of the
//! recorder and waits until the thread sends the copy between two iterations.

use crate::handle::{KERNEL_WORKER, Runner, WorkerHandle};
use crate::mailbox::Order;
use crate::recording::Metrics;
use crate::workers::Workers;
use pmd::metrics::{Recorder, Watch};
use std::sync::mpsc::sync_channel;
use units::{Millis, WorkerId};

impl Metrics {
    /// Switches the recording of a PMD thread on or off, if it differs from the setting.
    pub(crate) fn apply(self, handle: &mut WorkerHandle, now: Millis) {
        if handle.info.id == KERNEL_WORKER || self.on == handle.recorded {
            return;
        }
        handle.recorded = self.on;
        handle.mailbox.post(Order::Record(self.on.then(|| Box::new(Recorder::new(now, self.watch)))));
    }
}

impl Workers {
    /// Switches the recording of iterations on or off.
    pub(crate) fn set_recording(&mut self, on: bool) {
        self.metrics.on = on;
        for handle in self.workers.values_mut() {
            self.metrics.apply(handle, self.now);
        }
        self.deliver();
    }

    /// Sets which iterations are logged as suspicious.
    pub fn set_watch(&mut self, watch: Watch) {
        self.metrics.watch = watch;
        self.workers.values().filter(|s| s.recorded).for_each(|s| s.mailbox.post(Order::Watch(watch)));
        self.deliver();
    }

    /// A copy of a worker's recorder; `None`: the worker does not record, or does not answer in time.
    pub fn copy_of_recorder(&self, worker: WorkerId) -> Option<Recorder> {
        let handle = self.workers.get(&worker).filter(|s| s.recorded)?;
        if let Runner::Inline(state) = &handle.runner {
            return state.copy_of_recorder();
        }
        let (copy, answer) = sync_channel(1);
        handle.mailbox.post(Order::CopyRecorder(copy));
        self.wait_for_value(handle, &answer)
    }

    /// Clears a worker's recorder.
    pub fn clear_record(&mut self, worker: WorkerId, now: Millis) {
        if let Some(handle) = self.workers.get(&worker).filter(|s| s.recorded) {
            let empty = Recorder::new(now, self.metrics.watch);
            handle.mailbox.post(Order::Record(Some(Box::new(empty))));
        }
        self.deliver();
    }
}
