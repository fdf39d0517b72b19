//! Proxy between guests and the library: passes messages to the library one by one, through a second socket for each port.
//!
//! ```text
//! guest ── its socket ── Session (here) ── socket below the run directory ── librte_vhost
//! ```
//!
//! The library serves all guests with one thread, executes a message as soon as it has read it, and holds the locks of
//! the guest's rings meanwhile. Without the proxy, a peer could block that thread (by an incomplete message, by not reading a
//! reply, or by a file on which calls block); two connections to one path could interfere; and rings could keep addresses
//! of memory that could not be mapped, while workers wait for the lock. The thread that serves all guests
//! ([`vhost::server`]) owns the guests' sockets. For a port of the library it uses:
//!
//! - [`session`]: passes on only complete messages. A message that removes the guest or moves its memory is passed on while no
//!   worker accesses the rings ([`super::device_access`]); if a memory table could not be mapped, no worker accesses them again;
//! - [`library_sockets`]: the path at which the library listens.

mod library_sockets;
mod session;

pub(super) use library_sockets::new_path;

use super::port_state::PortState;
use super::ports;
use dpdk_sys as sys;
use rustix::event::PollFd;
use session::Session;
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};
use vhost::server;

/// The back-end of a port that the library serves.
#[derive(Debug)]
pub(super) struct LibraryBackend(pub Arc<PortState>);

impl server::Backend for LibraryBackend {
    fn port(&self) -> &vhost::PortState {
        &self.0.shared
    }

    /// Connects to the library on behalf of a guest, and starts the session between both.
    fn start(&mut self, guest: OwnedFd, closing: &Arc<AtomicUsize>) -> io::Result<Box<dyn server::Session>> {
        let port = Arc::clone(&self.0);
        port.expect_connection();
        let library = server::connected_to(&port.library_path)?;
        Ok(Box::new(Connection { session: Session::new(guest, library, closing), port }))
    }

    fn unregister(&mut self) {
        if let Ok(path) = CString::new(self.0.library_path.as_str()) {
            // SAFETY: `path` is a C string. No connection exists, so this frees only the state of the path.
            unsafe { sys::rte_vhost_driver_unregister(path.as_ptr()) };
        }
        ports::remove(&self.0.library_path);
    }
}

/// A session with its port.
struct Connection {
    session: Session,
    port: Arc<PortState>,
}

impl server::Session for Connection {
    fn run(&mut self) {
        self.session.run(&self.port);
    }
    fn close(&mut self) {
        self.session.close(&self.port);
    }
    fn check_stuck_workers(&mut self, now: Instant) -> bool {
        self.session.check_stuck_workers(&self.port, now)
    }
    fn needs_worker_check(&self) -> bool {
        self.port.access.vid().is_some()
    }
    fn is_over(&self) -> bool {
        self.session.is_over(&self.port)
    }
    fn has_hung_up(&self) -> bool {
        self.session.has_hung_up()
    }
    fn next_check_in(&self, now: Instant) -> Option<Duration> {
        self.session.next_check_in(now)
    }
    fn poll_fds<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        self.session.poll_fds(fds);
    }
}
