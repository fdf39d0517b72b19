//! The state of a protocol for the ports of a datapath (BFD, CFM, LACP, spanning trees): several threads change this state,
//! and the main thread takes reports of the changes.

use crate::shared_state::SharedState;
use crate::timers::wakeup::Wakeup;
use bridge::Level;
use runtime::log;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use units::OfPort;
use xlate::BridgeId;

/// A port of a bridge.
pub type PortKey = (BridgeId, OfPort);

/// The log level for an event of a protocol.
pub(crate) fn log_level(level: Level) -> log::Level {
    match level {
        Level::Warn => log::Level::Warn,
        Level::Info => log::Level::Info,
        Level::Debug => log::Level::Dbg,
    }
}

/// A protocol's `State` behind a lock, and the handles that wake the threads that must see changes of this state.
pub(crate) struct ProtocolState<State> {
    state: Mutex<State>,
    /// Number of sessions, LACP ports or spanning trees; read without the lock.
    len: AtomicUsize,
    /// There are reports that the main thread has not taken.
    any_changed_reports: AtomicBool,
    shared: Arc<SharedState>,
    timers: Arc<Wakeup>,
}

impl<State> ProtocolState<State> {
    /// No ports.
    pub(crate) fn new(state: State, shared: &Arc<SharedState>, timers: &Arc<Wakeup>) -> Self {
        ProtocolState {
            state: Mutex::new(state),
            len: AtomicUsize::new(0),
            any_changed_reports: AtomicBool::new(false),
            shared: Arc::clone(shared),
            timers: Arc::clone(timers),
        }
    }

    /// Whether there are no ports; takes no lock.
    pub(crate) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Acquire) == 0
    }

    /// To be called with the lock held, when ports were added or removed.
    pub(crate) fn set_len(&self, len: usize) {
        self.len.store(len, Ordering::Release);
    }

    /// Calls `work` with the lock held. The state stays usable after a panic of another thread.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Wakes the timer thread, because a timer may be due sooner than before.
    pub(crate) fn wake_timers(&self) {
        self.timers.wake();
    }

    /// Wakes the main thread, which takes the changed reports.
    pub(crate) fn announce_reports(&self) {
        if !self.any_changed_reports.swap(true, Ordering::AcqRel) {
            self.shared.wake();
        }
    }

    /// Whether reports were announced since the last call.
    pub(crate) fn take_announced(&self) -> bool {
        self.any_changed_reports.swap(false, Ordering::AcqRel)
    }
}
