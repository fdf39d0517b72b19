//! State of one socket of the library.
//!
//! The library's callbacks write it, with atomics only, since some run while the library holds the locks of the rings.

use super::device_access::DeviceAccess;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use vhost::rules::Rules;
use vhost::server::wake;

/// The state of one port, with what only the library needs.
#[derive(Debug)]
pub(super) struct PortState {
    /// What all ports of guests have.
    pub shared: Arc<vhost::PortState>,
    /// The path at which the library listens; the library's name for the port.
    pub inner: String,
    /// The guest may use post-copy migration (`vhost-postcopy-support`).
    pub postcopy: bool,
    pub access: DeviceAccess,
    /// What the connection has set so far. Only the library's thread locks it.
    pub rules: Mutex<Rules>,
    /// The proxy is about to connect to the library; any other connection is refused.
    expected: AtomicBool,
    /// The library has a connection.
    library_connected: AtomicBool,
}

impl Deref for PortState {
    type Target = vhost::PortState;

    fn deref(&self) -> &vhost::PortState {
        &self.shared
    }
}

impl PortState {
    pub fn new(shared: &Arc<vhost::PortState>, inner: &str, postcopy: bool) -> PortState {
        PortState {
            shared: Arc::clone(shared),
            inner: inner.to_owned(),
            postcopy,
            access: DeviceAccess::new(),
            rules: Mutex::default(),
            expected: AtomicBool::new(false),
            library_connected: AtomicBool::new(false),
        }
    }

    /// Announces that the next connection to the library is the proxy's.
    pub fn expect_connection(&self) {
        self.expected.store(true, Ordering::Release);
    }

    /// Whether a connection was announced; the announcement is consumed.
    pub fn take_expected(&self) -> bool {
        self.expected.swap(false, Ordering::AcqRel)
    }

    /// The library got a connection, or has finished removing it.
    pub fn set_library_connected(&self, library_connected: bool) {
        self.library_connected.store(library_connected, Ordering::Release);
        wake();
    }

    /// Whether the library has a connection, or is still removing one.
    pub fn is_library_connected(&self) -> bool {
        self.library_connected.load(Ordering::Acquire)
    }
}
