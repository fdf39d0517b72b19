//! A port's socket: where its guest is met, one at a time.
//!
//! A guest that comes while another one is there is sent away; if that one has closed its end already, it waits until the
//! library has taken the old one away, and has a connection of its own. So what is kept for a connection (its rules, its
//! rings, its memory) is never another's.

use super::session::Session;
use super::wake;
use crate::log::{Level, say};
use crate::vhost::callbacks;
use crate::vhost::link::Link;
use crate::vhost::socket::Role;
use dpdk_sys as sys;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, fchmod};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
};
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

/// How long after an attempt to connect the next one follows.
const RETRY: Duration = Duration::from_secs(1);
/// A guest that made a worker wait for a tenth of a second or two is not met again before: workers are there for all guests.
const HELD_OFF: Duration = Duration::from_secs(10);
/// Messages whose descriptors are still being closed, for each of which a thread waits.
const CLOSING_MAX: usize = 4;
/// Guests that wait to be accepted, or to be sent away.
const BACKLOG: i32 = 16;

/// How a guest is met.
#[derive(Debug)]
enum Meeting {
    /// It connects here.
    Listener(OwnedFd),
    /// We connect to it, not before then.
    Connect(Instant),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Endpoint {
    link: Arc<Link>,
    meeting: Meeting,
    session: Option<Session>,
    /// It came when another one had closed.
    next: Option<OwnedFd>,
    /// Messages whose descriptors are still being closed, for which a guest may make us wait.
    closing: Arc<AtomicUsize>,
    looked: Instant,
    /// No guest is met before then.
    held_off: Instant,
    /// To be told when the library has forgotten the port.
    retiring: Option<SyncSender<()>>,
}

fn unix_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

fn connected_to(path: &str) -> io::Result<OwnedFd> {
    let fd = unix_socket()?;
    connect(&fd, &SocketAddrUnix::new(path)?)?;
    Ok(fd)
}

impl Endpoint {
    /// Listens, where that is ours to do. Only the owner and the group may connect.
    pub fn open(link: &Arc<Link>, role: Role) -> io::Result<Endpoint> {
        let meeting = match role {
            Role::Client => Meeting::Connect(Instant::now()),
            Role::Server => {
                let fd = unix_socket()?;
                // Less what the umask takes.
                fchmod(&fd, Mode::from_raw_mode(0o770))?;
                bind(&fd, &SocketAddrUnix::new(link.path.as_str())?)?;
                listen(&fd, BACKLOG)?;
                Meeting::Listener(fd)
            }
        };
        Ok(Endpoint {
            link: Arc::clone(link),
            meeting,
            session: None,
            next: None,
            closing: Arc::default(),
            looked: Instant::now(),
            held_off: Instant::now(),
            retiring: None,
        })
    }

    /// Whose it is.
    pub fn is_of(&self, link: &Arc<Link>) -> bool {
        Arc::ptr_eq(&self.link, link)
    }

    /// Ends the session, and then has the library forget the port; `done` is told.
    pub fn retire(&mut self, done: SyncSender<()>) {
        if let Meeting::Listener(_) = &self.meeting {
            let _ = std::fs::remove_file(&self.link.path);
        }
        self.meeting = Meeting::Connect(Instant::now());
        self.next = None;
        self.retiring = Some(done);
        if let Some(session) = &mut self.session {
            session.leave(&self.link);
        }
    }

    /// Goes on as far as it can, where something has happened or a time has come; false: it is no more.
    pub fn run(&mut self, now: Instant, happened: bool) -> bool {
        if let Some(session) = &mut self.session {
            if happened || session.look_again(now).is_some() {
                session.run(&self.link);
            }
            if now - self.looked >= super::LOOK {
                self.looked = now;
                if session.watch(&self.link, now) {
                    self.held_off = now + HELD_OFF;
                }
            }
            if session.is_over(&self.link) {
                self.session = None;
                self.parted();
            }
        }
        if self.session.is_none()
            && let Some(done) = self.retiring.take()
        {
            forget(&self.link);
            let _ = done.send(());
            return false;
        }
        self.meet(now, happened);
        true
    }

    fn parted(&mut self) {
        if self.link.set_stuck(false) {
            say(Level::Notice, &format!("vhost '{}': in service again", self.link.path));
        }
    }

    /// A guest that comes, or has come.
    fn meet(&mut self, now: Instant, happened: bool) {
        let closing = self.closing.load(Ordering::Relaxed);
        let free = self.session.is_none() && closing < CLOSING_MAX && self.held_off <= now;
        if self.retiring.is_some() {
            return;
        }
        if free && let Some(guest) = self.next.take() {
            return self.begin(guest);
        }
        match &mut self.meeting {
            Meeting::Connect(at) if free && *at <= now => {
                *at = now + RETRY;
                if let Ok(guest) = connected_to(&self.link.path) {
                    // The next one, too, is connected to as soon as this one has gone.
                    *at = now;
                    self.begin(guest);
                }
            }
            Meeting::Listener(listener) if happened && self.next.is_none() => {
                let Ok(guest) = accept_with(&*listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) else {
                    return;
                };
                match &self.session {
                    None if free => self.begin(guest),
                    Some(session) if !session.has_hung_up() => {
                        let path = &self.link.path;
                        say(Level::Warning, &format!("vhost '{path}': a second guest was sent away"));
                    }
                    _ => self.next = Some(guest),
                }
            }
            _ => {}
        }
    }

    /// Brings a guest and the library together.
    fn begin(&mut self, guest: OwnedFd) {
        self.link.expect_connection();
        match connected_to(&self.link.inner) {
            Ok(library) => {
                let mut session = Session::new(guest, library, &self.closing);
                session.run(&self.link);
                self.session = Some(session);
            }
            Err(e) => {
                let path = &self.link.path;
                say(Level::Error, &format!("vhost '{path}': the library takes no connection: {e}"));
                if let Meeting::Connect(at) = &mut self.meeting {
                    *at = Instant::now() + RETRY;
                }
            }
        }
    }

    /// What it waits for, and for how long at most.
    pub fn poll_fds<'a>(&'a self, now: Instant, fds: &mut Vec<PollFd<'a>>) -> Option<Duration> {
        match (&self.session, &self.meeting) {
            (session, Meeting::Listener(fd)) if self.next.is_none() => {
                fds.push(PollFd::new(fd, PollFlags::IN));
                session.as_ref().and_then(|s| self.poll_session(s, now, fds))
            }
            (Some(session), _) => self.poll_session(session, now, fds),
            (None, Meeting::Connect(at)) if *at > now => Some(at.saturating_duration_since(now)),
            // Something else is waited for.
            (None, _) => Some(super::LOOK),
        }
    }

    fn poll_session<'a>(
        &'a self,
        session: &'a Session,
        now: Instant,
        fds: &mut Vec<PollFd<'a>>,
    ) -> Option<Duration> {
        session.poll_fds(fds);
        let watch = self.link.door.vid().map(|_| super::LOOK);
        session.look_again(now).into_iter().chain(watch).min()
    }
}

/// Has the library forget a port without a connection.
fn forget(link: &Link) {
    if let Ok(path) = CString::new(link.inner.as_str()) {
        // SAFETY: a string of C. Nobody is connected, so it frees what belongs to the path alone.
        unsafe { sys::rte_vhost_driver_unregister(path.as_ptr()) };
    }
    link.all_off();
    callbacks::remove(&link.inner);
    wake();
}
