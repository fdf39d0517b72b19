//! One connection of a guest: messages go to the library one by one, and replies back.
//!
//! The library acknowledges every message: the session sets `NEED_REPLY` on all that have no reply of their own, even
//! if the guest did not. So at most one message is in progress, and its outcome is known. An acknowledgement that the
//! guest did not request is not forwarded; if such a message failed, the connection ends, as the library would have
//! ended it.
//!
//! Before the library gets a message, all workers that were inside at that moment have left ([`Hold`]): one that is
//! inside may hold the lock of a ring, and the library's thread, which serves all guests, would wait for it. So a
//! worker that does not leave delays only its own guest's messages.

use crate::vhost::callbacks;
use crate::vhost::device_access::Accesses;
use crate::vhost::port_state::PortState;
use dpdk_sys as sys;
use rustix::event::{PollFd, PollFlags};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};
use vhost::log::Level;
use vhost::message::{Inbox, Message, Outbox, Read, Written};
use vhost::rules::{Refusal, request};
use vhost::server::{LIMIT, SPIN, has_hung_up, workers};
use vhost::{blocked_writes, memory_table};

/// What a message waits for before the library gets it.
#[derive(Debug)]
enum Hold {
    /// Each access that was in progress when the message arrived has ended.
    Accesses(Accesses),
    /// No worker is inside; access stays blocked until the library has replied.
    NoWorker,
}

/// How the library's next message is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplyKind {
    /// A reply to the guest: forwarded.
    Forward,
    /// An acknowledgement: forwarded if the guest requested it.
    Ack { wanted: bool },
    /// An acknowledgement of a memory table, or (post-copy) a request to the guest to confirm one.
    Table { wanted: bool },
    /// The reply to a query of the session, sent after the guest confirmed a table: shows that the table is in force.
    Confirmed,
}

#[derive(Debug)]
enum Step {
    /// The library has not reported the connection yet.
    Joining,
    /// No message is in progress.
    Idle,
    /// A message waits for workers to leave.
    Held(Message, Hold, Instant),
    /// The library is handling a message.
    Asked { request: u32, blocked: bool, then: ReplyKind },
    /// A message waits for space in the guest's socket; the guest has to confirm it if `confirming`.
    Answering { outbox: Outbox, confirming: bool },
    /// The guest has to confirm a memory table (post-copy).
    Confirming,
    /// The connection is over; the library's end is closed when no worker is inside.
    Leaving(Instant),
    /// The library's end is closed; the library has not removed the guest yet.
    Left,
}

impl Step {
    /// The guest's next message is read.
    fn reading(confirming: bool) -> Step {
        if confirming { Step::Confirming } else { Step::Idle }
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct Session {
    /// `None`: closed.
    guest: Option<OwnedFd>,
    /// `None`: closed.
    library: Option<OwnedFd>,
    step: Step,
    from_guest: Inbox,
    from_library: Inbox,
    closing: Arc<AtomicUsize>,
    /// Accesses that were in progress at that time, less those that have ended.
    watched: (Accesses, Instant),
}

impl Session {
    /// `library` is connected; the library will report the connection by its callback.
    pub fn new(guest: OwnedFd, library: OwnedFd, closing: &Arc<AtomicUsize>) -> Session {
        Session {
            guest: Some(guest),
            library: Some(library),
            step: Step::Joining,
            from_guest: Inbox::new(closing, sys::VHOST_USER_PAYLOAD),
            from_library: Inbox::new(closing, sys::VHOST_USER_PAYLOAD),
            closing: Arc::clone(closing),
            watched: (Accesses::default(), Instant::now()),
        }
    }

    /// Whether the library has finished removing the connection.
    pub fn is_over(&self, port: &PortState) -> bool {
        matches!(self.step, Step::Left) && !port.is_library_connected()
    }

    /// Whether the guest closed its end, even if unread messages are left.
    pub fn has_hung_up(&self) -> bool {
        self.guest.as_ref().is_none_or(has_hung_up)
    }

    /// Adds the descriptors that the session waits for.
    pub fn poll_fds<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        let mut add =
            |fd: &'a Option<OwnedFd>, flags| fds.extend(fd.as_ref().map(|fd| PollFd::new(fd, flags)));
        match &self.step {
            Step::Idle | Step::Confirming => {
                add(&self.guest, PollFlags::IN);
                add(&self.library, PollFlags::IN);
            }
            Step::Joining | Step::Asked { .. } => add(&self.library, PollFlags::IN),
            Step::Answering { .. } => add(&self.guest, PollFlags::OUT),
            Step::Held(..) | Step::Leaving(_) | Step::Left => {}
        }
    }

    /// Time until the next check if there is no event.
    pub fn next_check_in(&self, now: Instant) -> Option<Duration> {
        match self.step {
            Step::Held(_, _, since) | Step::Leaving(since) => {
                Some(if now - since < LIMIT { Duration::from_millis(1) } else { LIMIT / 10 })
            }
            _ => None,
        }
    }

    /// Makes all progress that is possible without blocking.
    pub fn run(&mut self, port: &PortState) {
        while self.step(port) {}
    }

    /// Ends the connection. The guest's socket is closed at once.
    pub fn close(&mut self, port: &PortState) {
        if matches!(self.step, Step::Leaving(_) | Step::Left) {
            return;
        }
        self.guest = None;
        port.access.block();
        // The library may not know of the connection yet; if so, wait until it has reported it.
        if !matches!(self.step, Step::Joining) {
            self.step = Step::Leaving(Instant::now());
        }
    }

    /// Checks whether a worker has stayed inside. Returns true if its guest blocked it.
    pub fn watch(&mut self, port: &PortState, now: Instant) -> bool {
        if self.watched.0.have_ended() {
            self.watched = (port.access.in_progress(), now);
            return false;
        }
        // All of these were already in progress at the previous check, so none has just begun.
        let stuck = workers::check_workers(port, self.watched.0.threads(), self.watched.1, now);
        if stuck.close {
            self.close(port);
        }
        stuck.blocked.iter().for_each(|thread| blocked_writes::interrupt(*thread));
        !stuck.blocked.is_empty()
    }

    /// One step. Returns false if the session has to wait.
    fn step(&mut self, port: &PortState) -> bool {
        match std::mem::replace(&mut self.step, Step::Left) {
            Step::Joining => self.wait_for_library(port),
            Step::Idle => self.read_guest(port, false),
            Step::Confirming => self.read_guest(port, true),
            Step::Held(message, hold, since) => self.wait_for_workers(port, message, hold, since),
            Step::Asked { request, blocked, then } => self.read_library_reply(port, request, blocked, then),
            Step::Answering { outbox, confirming } => self.write(port, outbox, confirming),
            Step::Leaving(since) => self.wait_to_leave(port, since),
            Step::Left => false,
        }
    }

    fn set_step(&mut self, step: Step, progress: bool) -> bool {
        self.step = step;
        progress
    }

    fn abort(&mut self, port: &PortState) -> bool {
        self.step = Step::Idle;
        self.close(port);
        true
    }

    fn wait_for_library(&mut self, port: &PortState) -> bool {
        if !port.is_library_connected() {
            let refused =
                self.library.as_ref().is_none_or(|fd| matches!(self.from_library.read(fd), Read::Ended));
            return if refused { self.abort(port) } else { self.set_step(Step::Joining, false) };
        }
        if self.guest.is_none() {
            return self.abort(port);
        }
        let _ = port.access.unblock();
        self.set_step(Step::Idle, true)
    }

    fn read_guest(&mut self, port: &PortState, confirming: bool) -> bool {
        let (Some(guest), Some(library)) = (&self.guest, &self.library) else { return self.abort(port) };
        match self.from_guest.read(guest) {
            Read::Message(message) if confirming => self.confirm(port, message),
            Read::Message(message) => self.handle_request(port, message),
            Read::Ended => self.abort(port),
            Read::Broken(why) => {
                port.say(Level::Error, &format!("vhost '{}': a message is refused: {why}", port.path));
                self.abort(port)
            }
            // The library sends nothing unprompted: it has ended the connection.
            Read::Nothing if !matches!(self.from_library.read(library), Read::Nothing) => self.abort(port),
            Read::Nothing => self.set_step(Step::reading(confirming), false),
        }
    }

    /// Checks a message; if it passes, it waits for workers to leave.
    fn handle_request(&mut self, port: &PortState, message: Message) -> bool {
        let since = Instant::now();
        if let Err(refusal) = check(port, &message) {
            let request = message.request();
            port.say(
                Level::Error,
                &format!("vhost '{}': request {request} is refused: {refusal}", port.path),
            );
            return match message.needs_reply() {
                true => self.answer(port, Message::ack(request, false, &self.closing)),
                false => self.abort(port),
            };
        }
        let hold = if allows_workers(message.request()) {
            Hold::Accesses(port.access.in_progress())
        } else {
            port.access.block();
            Hold::NoWorker
        };
        self.set_step(Step::Held(message, hold, since), true)
    }

    fn wait_for_workers(
        &mut self,
        port: &PortState,
        message: Message,
        mut hold: Hold,
        since: Instant,
    ) -> bool {
        let mut may_go = || match &mut hold {
            Hold::Accesses(accesses) => accesses.have_ended(),
            Hold::NoWorker => port.access.is_idle(),
        };
        while !may_go() {
            if since.elapsed() >= SPIN {
                return self.set_step(Step::Held(message, hold, since), false);
            }
            std::hint::spin_loop();
        }
        let (request, wanted) = (message.request(), message.needs_reply());
        let then = match request {
            request::SET_MEM_TABLE => ReplyKind::Table { wanted },
            _ if has_own_reply(request) => ReplyKind::Forward,
            _ => ReplyKind::Ack { wanted },
        };
        let blocked = matches!(hold, Hold::NoWorker);
        self.send_to_library(port, message, Step::Asked { request, blocked, then })
    }

    /// Sends the library a whole message. It has read the previous ones, so there is space.
    fn send_to_library(&mut self, port: &PortState, mut message: Message, then: Step) -> bool {
        if !has_own_reply(message.request()) {
            message.set_needs_reply();
        }
        let Some(library) = &self.library else { return self.abort(port) };
        match Outbox::new(message).write(library) {
            Written::All => self.set_step(then, true),
            Written::Part | Written::Ended => self.abort(port),
        }
    }

    fn read_library_reply(&mut self, port: &PortState, request: u32, blocked: bool, then: ReplyKind) -> bool {
        let Some(library) = &self.library else { return self.abort(port) };
        let message = match self.from_library.read(library) {
            Read::Message(message) => message,
            Read::Nothing => return self.set_step(Step::Asked { request, blocked, then }, false),
            Read::Ended | Read::Broken(_) => return self.abort(port),
        };
        let ack = message.payload().len() == 8;
        let (done, forward) = match then {
            ReplyKind::Forward => (true, true),
            ReplyKind::Confirmed => (true, false),
            // A request whose reply has another payload than an acknowledgement's 8 bytes.
            ReplyKind::Ack { wanted } => (!ack || message.says_done(), wanted || !ack),
            ReplyKind::Table { wanted } if ack => (message.says_done(), wanted),
            ReplyKind::Table { .. } => return self.write(port, Outbox::new(message), true),
        };
        // A memory table that the library could not map leaves rings with dangling addresses: no worker enters any
        // more.
        if !done && then != (ReplyKind::Ack { wanted: true }) {
            if forward {
                self.answer(port, message);
            }
            return self.abort(port);
        }
        if blocked {
            // The number is valid: the library removes the guest only at our request.
            port.access.unblock().into_iter().for_each(callbacks::disable_kicks);
        }
        if forward { self.answer(port, message) } else { self.set_step(Step::Idle, true) }
    }

    /// The guest confirmed a memory table (post-copy). The library does not say whether it accepted that; a query
    /// shows it.
    fn confirm(&mut self, port: &PortState, message: Message) -> bool {
        let refused = !message.fds.never_block_on_close() || message.request() != request::SET_MEM_TABLE;
        let Some(library) = self.library.as_ref().filter(|_| !refused) else { return self.abort(port) };
        if Outbox::new(message).write(library) != Written::All {
            return self.abort(port);
        }
        let question = Message::new(request::GET_FEATURES, &[], &self.closing);
        let then = Step::Asked { request: request::GET_FEATURES, blocked: true, then: ReplyKind::Confirmed };
        self.send_to_library(port, question, then)
    }

    fn answer(&mut self, port: &PortState, message: Message) -> bool {
        self.write(port, Outbox::new(message), false)
    }

    fn write(&mut self, port: &PortState, mut outbox: Outbox, confirming: bool) -> bool {
        let Some(guest) = &self.guest else { return self.abort(port) };
        match outbox.write(guest) {
            Written::All => self.set_step(Step::reading(confirming), true),
            Written::Part => self.set_step(Step::Answering { outbox, confirming }, false),
            Written::Ended => self.abort(port),
        }
    }

    fn wait_to_leave(&mut self, port: &PortState, since: Instant) -> bool {
        while !port.access.is_idle() {
            if since.elapsed() >= SPIN {
                return self.set_step(Step::Leaving(since), false);
            }
            std::hint::spin_loop();
        }
        self.library = None;
        self.set_step(Step::Left, false)
    }
}

/// Checks whether the library may get this message. Checks that depend on the state of rings run under the locks of
/// the rings ([`crate::vhost::message_checks`]).
fn check(port: &PortState, message: &Message) -> Result<(), Refusal> {
    use request::*;
    let (fds, counters) = (&message.fds, [SET_VRING_KICK, SET_VRING_CALL, SET_VRING_ERR]);
    match message.request() {
        _ if !fds.never_block_on_close() => Err(Refusal::Descriptor),
        SET_MEM_TABLE => memory_table::check_table(message.payload(), fds, memory_table::bytes_max()),
        SET_LOG_BASE => memory_table::check_log(message.payload(), fds, memory_table::bytes_max()),
        n if counters.contains(&n) && !fds.iter().all(is_event) => Err(Refusal::Descriptor),
        POSTCOPY_ADVISE | POSTCOPY_LISTEN | POSTCOPY_END if !port.postcopy => Err(Refusal::NotOffered),
        _ => Ok(()),
    }
}

fn is_event(fd: &OwnedFd) -> bool {
    vhost::descriptors::kind(fd.as_fd()) == vhost::descriptors::Kind::Event
}

/// Requests to which the library replies with more than an acknowledgement.
fn has_own_reply(request: u32) -> bool {
    use request::*;
    matches!(
        request,
        GET_FEATURES
            | GET_VRING_BASE
            | GET_PROTOCOL_FEATURES
            | GET_QUEUE_NUM
            | GET_CONFIG
            | POSTCOPY_ADVISE
            | POSTCOPY_END
            | GET_INFLIGHT_FD
            | GET_STATUS
    )
}

/// Requests for which the library neither removes the guest nor changes its memory or the state of a ring: workers may
/// enter meanwhile. A guest also sends these while its rings run.
fn allows_workers(request: u32) -> bool {
    use request::*;
    matches!(
        request,
        GET_FEATURES
            | SET_OWNER
            | SET_LOG_BASE
            | SET_LOG_FD
            | SET_VRING_CALL
            | SET_VRING_ERR
            | GET_PROTOCOL_FEATURES
            | SET_PROTOCOL_FEATURES
            | GET_QUEUE_NUM
            | SET_VRING_ENABLE
            | SEND_RARP
            | NET_SET_MTU
            | SET_SLAVE_REQ_FD
            | IOTLB_MSG
            | SET_STATUS
            | GET_STATUS
    )
}
