//! The socket of a port, at which one guest at a time connects.
//!
//! A guest that connects while another guest is connected is disconnected. If the other guest has closed its socket already, the new
//! guest waits until all memory of the old connection has been freed, and then gets a session of its own. So the state of a connection
//! (its rules, rings and memory) never applies to another guest.

use super::backend::{Backend, Session};
use super::waker::wake;
use crate::log::Level;
use crate::path::Role;
use crate::port_state::PortState;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, fchmod};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

/// Interval at which workers' accesses to the rings are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Interval between attempts to connect.
const RETRY: Duration = Duration::from_secs(1);
/// A guest that blocked a worker for 100 to 200 ms cannot connect again for this time, because workers serve all guests.
const HOLD_OFF: Duration = Duration::from_secs(10);
/// Maximum number of threads that close file descriptors of this port's guests, one thread for each message. While this
/// number of threads runs, no guest can connect.
const CLOSING_MAX: usize = 4;
/// Maximum number of guests in the listen queue.
const BACKLOG: i32 = 16;

/// How the connection to the guest is made.
#[derive(Debug)]
enum SocketRole {
    /// The port listens on this socket.
    Listener(OwnedFd),
    /// The port connects to the guest's socket, not before this time.
    Connect(Instant),
}

/// The socket of one port.
pub(super) struct Endpoint {
    port: Arc<PortState>,
    backend: Box<dyn Backend>,
    socket_role: SocketRole,
    /// The connected guest; `None`: none, or not served yet.
    session: Option<Box<dyn Session>>,
    /// A guest that connected after the previous one closed its socket. It waits until the previous session is over.
    next: Option<OwnedFd>,
    /// Number of messages whose file descriptors are still being closed.
    closing: Arc<AtomicUsize>,
    /// The time of the last check of workers.
    last_check: Instant,
    /// No guest can connect before this time.
    no_guest_before: Instant,
    /// Set while the port is being removed: reports to `retire`'s caller that the back-end has removed the port.
    retiring: Option<SyncSender<()>>,
}

fn unix_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// Creates a stream socket that is connected to `path`.
pub fn connected_to(path: &str) -> io::Result<OwnedFd> {
    let fd = unix_socket()?;
    connect(&fd, &SocketAddrUnix::new(path)?)?;
    Ok(fd)
}

impl Endpoint {
    /// Creates the endpoint, and starts listening if the switch creates the socket. Only the socket's owner and group may connect.
    pub fn open(port: &Arc<PortState>, role: Role, backend: Box<dyn Backend>) -> io::Result<Endpoint> {
        let socket_role = match role {
            Role::Client => SocketRole::Connect(Instant::now()),
            Role::Server => {
                let fd = unix_socket()?;
                // The umask may remove further permissions.
                fchmod(&fd, Mode::from_raw_mode(0o770))?;
                bind(&fd, &SocketAddrUnix::new(port.path.as_str())?)?;
                listen(&fd, BACKLOG)?;
                SocketRole::Listener(fd)
            }
        };
        Ok(Endpoint {
            port: Arc::clone(port),
            backend,
            socket_role,
            session: None,
            next: None,
            closing: Arc::default(),
            last_check: Instant::now(),
            no_guest_before: Instant::now(),
            retiring: None,
        })
    }

    /// Whether this is the endpoint of `port`.
    pub fn is_of(&self, port: &Arc<PortState>) -> bool {
        Arc::ptr_eq(&self.port, port)
    }

    /// Begins to remove the port: ends the session. [`run`](Self::run) then removes the port from its back-end and notifies `done`.
    pub fn retire(&mut self, done: SyncSender<()>) {
        if let SocketRole::Listener(_) = &self.socket_role {
            let _ = std::fs::remove_file(&self.port.path);
        }
        self.socket_role = SocketRole::Connect(Instant::now());
        self.next = None;
        self.retiring = Some(done);
        if let Some(session) = &mut self.session {
            session.close();
        }
    }

    /// Does all work that is possible without blocking. `had_event`: a file descriptor was ready. Returns false when the port has been
    /// removed.
    pub fn run(&mut self, now: Instant, had_event: bool) -> bool {
        if let Some(session) = &mut self.session {
            if had_event || session.next_check_in(now).is_some() {
                session.run();
            }
            if now - self.last_check >= CHECK_INTERVAL {
                self.last_check = now;
                if session.check_stuck_workers(now) {
                    self.no_guest_before = now + HOLD_OFF;
                }
            }
            if session.is_over() {
                self.session = None;
                self.report_recovery();
            }
        }
        if self.session.is_none()
            && let Some(done) = self.retiring.take()
        {
            self.unregister();
            let _ = done.send(());
            return false;
        }
        self.connect_guest(now, had_event);
        true
    }

    fn report_recovery(&mut self) {
        if self.port.set_stuck(false) {
            self.port.say(Level::Info, &format!("vhost '{}': in service again", self.port.path));
        }
    }

    /// Accepts a guest, connects to a guest, or starts the session of a waiting guest.
    fn connect_guest(&mut self, now: Instant, had_event: bool) {
        let closing = self.closing.load(Ordering::Relaxed);
        let free = self.session.is_none() && closing < CLOSING_MAX && self.no_guest_before <= now;
        if self.retiring.is_some() {
            return;
        }
        if free && let Some(guest) = self.next.take() {
            return self.start_session(guest);
        }
        match &mut self.socket_role {
            SocketRole::Connect(at) if free && *at <= now => {
                *at = now + RETRY;
                if let Ok(guest) = connected_to(&self.port.path) {
                    // When this guest disconnects, the next attempt follows at once.
                    *at = now;
                    self.start_session(guest);
                }
            }
            SocketRole::Listener(listener) if had_event && self.next.is_none() => {
                let Ok(guest) = accept_with(&*listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) else {
                    return;
                };
                match &self.session {
                    None if free => self.start_session(guest),
                    Some(session) if !session.has_hung_up() => {
                        let path = &self.port.path;
                        self.port.say(
                            Level::Warning,
                            &format!("vhost '{path}': a second guest was refused: one is connected"),
                        );
                    }
                    _ => self.next = Some(guest),
                }
            }
            _ => {}
        }
    }

    fn start_session(&mut self, guest: OwnedFd) {
        match self.backend.start(guest, &self.closing) {
            Ok(mut session) => {
                session.run();
                self.session = Some(session);
            }
            Err(e) => {
                let path = &self.port.path;
                self.port.say(Level::Error, &format!("vhost '{path}': a guest cannot be served: {e}"));
                if let SocketRole::Connect(at) = &mut self.socket_role {
                    *at = Instant::now() + RETRY;
                }
            }
        }
    }

    fn unregister(&mut self) {
        self.backend.unregister();
        self.port.disable_all_rings();
        wake();
    }

    /// Adds the file descriptors for which the endpoint waits. Returns the longest time to wait.
    pub fn poll_fds<'a>(&'a self, now: Instant, fds: &mut Vec<PollFd<'a>>) -> Option<Duration> {
        match (&self.session, &self.socket_role) {
            (session, SocketRole::Listener(fd)) if self.next.is_none() => {
                fds.push(PollFd::new(fd, PollFlags::IN));
                session.as_ref().and_then(|s| self.poll_session(s.as_ref(), now, fds))
            }
            (Some(session), _) => self.poll_session(session.as_ref(), now, fds),
            (None, SocketRole::Connect(at)) if *at > now => Some(at.saturating_duration_since(now)),
            // The endpoint waits until `no_guest_before`, or for another thread to close file descriptors: check at each interval.
            (None, _) => Some(CHECK_INTERVAL),
        }
    }

    fn poll_session<'a>(
        &'a self,
        session: &'a dyn Session,
        now: Instant,
        fds: &mut Vec<PollFd<'a>>,
    ) -> Option<Duration> {
        session.poll_fds(fds);
        let watch = session.needs_worker_check().then_some(CHECK_INTERVAL);
        session.next_check_in(now).into_iter().chain(watch).min()
    }
}
