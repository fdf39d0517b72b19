//! State of one port that the library serves.
//!
//! The library's callbacks write the state. They use only atomics and locks that are held briefly, because some of
//! them run while the library holds the locks of the rings.

use super::device_access::DeviceAccess;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use vhost::rules::Rules;
use vhost::server::wake;

/// The state of one port, including the part that only ports of the library have.
#[derive(Debug)]
pub(super) struct PortState {
    /// The state that ports of both back-ends have.
    pub shared: Arc<vhost::PortState>,
    /// The path at which the library listens. It is the library's name for the port.
    pub library_path: String,
    /// Whether the guest may use post-copy migration (`vhost-postcopy-support`).
    pub postcopy: bool,
    pub access: DeviceAccess,
    /// The checks of the connection's messages. Only the library's thread locks them.
    pub rules: Mutex<Rules>,
    /// The proxy is about to connect to the library. Any other connection is refused.
    expected: AtomicBool,
    /// The library has a connection or is still removing one.
    library_connected: AtomicBool,
}

impl Deref for PortState {
    type Target = vhost::PortState;

    fn deref(&self) -> &vhost::PortState {
        &self.shared
    }
}

impl PortState {
    pub fn new(shared: &Arc<vhost::PortState>, library_path: &str, postcopy: bool) -> PortState {
        PortState {
            shared: Arc::clone(shared),
            library_path: library_path.to_owned(),
            postcopy,
            access: DeviceAccess::new(),
            rules: Mutex::default(),
            expected: AtomicBool::new(false),
            library_connected: AtomicBool::new(false),
        }
    }

    /// Announces the proxy's connection to the library.
    pub fn expect_connection(&self) {
        self.expected.store(true, Ordering::Release);
    }

    /// Returns whether a connection was announced, and clears the announcement.
    pub fn take_expected(&self) -> bool {
        self.expected.swap(false, Ordering::AcqRel)
    }

    /// Sets whether the library has a connection. A connection counts until the library has finished removing it.
    pub fn set_library_connected(&self, library_connected: bool) {
        self.library_connected.store(library_connected, Ordering::Release);
        wake();
    }

    /// Whether the library has a connection, or is still removing one.
    pub fn is_library_connected(&self) -> bool {
        self.library_connected.load(Ordering::Acquire)
    }
}
