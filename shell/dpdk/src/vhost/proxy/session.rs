//! One connection of a guest: passes messages to the library one by one, and replies back to the guest.
//!
//! The library acknowledges every message: the session sets `NEED_REPLY` on all messages that have no reply of their own, even
//! if the guest did not. So at most one message is in progress, and its outcome is known. An acknowledgement that the
//! guest did not request is not forwarded. If a message without such a request failed, the session ends the connection, as
//! the library would have done.
//!
//! A message is passed to the library only when all accesses that were in progress when it was read have ended ([`WaitFor`]): a worker
//! may hold the lock of a ring during its access, and the library's thread, which serves all guests, would wait for the lock. So a
//! worker whose access does not end delays only the messages of its own guest.

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
use vhost::message::{Inbox, Message, Outbox, ReadResult, WriteResult};
use vhost::rules::{Refusal, request};
use vhost::server::{SPIN, STUCK_LIMIT, has_hung_up, stuck_workers};
use vhost::{blocked_writes, memory_table};

/// The event for which a message waits before it is passed to the library.
#[derive(Debug)]
enum WaitFor {
    /// All accesses that were in progress when the message arrived have ended.
    Accesses(Accesses),
    /// No worker accesses the rings; access stays blocked until the library has replied.
    NoWorker,
}

/// How the library's next message is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplyKind {
    /// It is a reply to the guest: forwarded.
    Forward,
    /// It is an acknowledgement: forwarded if the guest requested it.
    Ack { wanted: bool },
    /// It is an acknowledgement of a memory table, or (post-copy) a request to the guest to confirm the table.
    Table { wanted: bool },
    /// It is the reply to the session's own query after the guest confirmed a table. It shows that the library accepted the table.
    Confirmed,
}

#[derive(Debug)]
enum Step {
    /// The library has not reported the connection yet.
    Joining,
    /// No message is in progress.
    Idle,
    /// A message waits for the end of accesses, since this time.
    WaitingForWorkers(Message, WaitFor, Instant),
    /// The library is executing a message. `blocked`: access is blocked until it replies.
    WaitingForReply { request: u32, blocked: bool, then: ReplyKind },
    /// A message waits for space in the guest's socket. `confirming`: the guest has to confirm it.
    Answering { outbox: Outbox, confirming: bool },
    /// The guest has to confirm a memory table (post-copy).
    Confirming,
    /// The connection ended at this time. The library's socket is closed when no worker accesses the rings.
    WaitingToClose(Instant),
    /// The library's socket is closed; the library has not removed the guest yet.
    Closed,
}

impl Step {
    /// The step in which the guest's next message is read.
    fn read_next(confirming: bool) -> Step {
        if confirming { Step::Confirming } else { Step::Idle }
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct Session {
    /// The guest's socket; `None`: closed.
    guest: Option<OwnedFd>,
    /// The library's socket; `None`: closed.
    library: Option<OwnedFd>,
    step: Step,
    from_guest: Inbox,
    from_library: Inbox,
    /// Number of messages whose file descriptors are still being closed.
    closing: Arc<AtomicUsize>,
    /// Accesses that were in progress at this time and have not ended since.
    watched: (Accesses, Instant),
}

impl Session {
    /// Creates a session. `library` is connected, but the library reports the connection later by its callback.
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
        matches!(self.step, Step::Closed) && !port.is_library_connected()
    }

    /// Whether the guest has closed its socket, even if unread messages are left.
    pub fn has_hung_up(&self) -> bool {
        self.guest.as_ref().is_none_or(has_hung_up)
    }

    /// Adds the file descriptors for which the session waits.
    pub fn poll_fds<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        let mut add =
            |fd: &'a Option<OwnedFd>, flags| fds.extend(fd.as_ref().map(|fd| PollFd::new(fd, flags)));
        match &self.step {
            Step::Idle | Step::Confirming => {
                add(&self.guest, PollFlags::IN);
                add(&self.library, PollFlags::IN);
            }
            Step::Joining | Step::WaitingForReply { .. } => add(&self.library, PollFlags::IN),
            Step::Answering { .. } => add(&self.guest, PollFlags::OUT),
            Step::WaitingForWorkers(..) | Step::WaitingToClose(_) | Step::Closed => {}
        }
    }

    /// Time until the next check if there is no event; `None`: no check is needed.
    pub fn next_check_in(&self, now: Instant) -> Option<Duration> {
        match self.step {
            Step::WaitingForWorkers(_, _, since) | Step::WaitingToClose(since) => {
                Some(if now - since < STUCK_LIMIT { Duration::from_millis(1) } else { STUCK_LIMIT / 10 })
            }
            _ => None,
        }
    }

    /// Executes steps as long as that is possible without blocking.
    pub fn run(&mut self, port: &PortState) {
        while self.step(port) {}
    }

    /// Ends the connection. The guest's socket is closed at once.
    pub fn close(&mut self, port: &PortState) {
        if matches!(self.step, Step::WaitingToClose(_) | Step::Closed) {
            return;
        }
        self.guest = None;
        port.access.block();
        // If the library has not reported the connection yet, the session waits for that first.
        if !matches!(self.step, Step::Joining) {
            self.step = Step::WaitingToClose(Instant::now());
        }
    }

    /// Checks whether an access of a worker lasts too long. Returns true if the guest blocked the worker.
    pub fn check_stuck_workers(&mut self, port: &PortState, now: Instant) -> bool {
        if self.watched.0.have_ended() {
            self.watched = (port.access.in_progress(), now);
            return false;
        }
        // All of these accesses were already in progress at the previous check, so none has just begun.
        let stuck = stuck_workers::check_workers(port, self.watched.0.threads(), self.watched.1, now);
        if stuck.close {
            self.close(port);
        }
        stuck.blocked.iter().for_each(|thread| blocked_writes::interrupt(*thread));
        !stuck.blocked.is_empty()
    }

    /// Executes one step. Returns false if the session has to wait.
    fn step(&mut self, port: &PortState) -> bool {
        match std::mem::replace(&mut self.step, Step::Closed) {
            Step::Joining => self.wait_for_library(port),
            Step::Idle => self.read_guest(port, false),
            Step::Confirming => self.read_guest(port, true),
            Step::WaitingForWorkers(message, wait_for, since) => {
                self.wait_for_workers(port, message, wait_for, since)
            }
            Step::WaitingForReply { request, blocked, then } => {
                self.read_library_reply(port, request, blocked, then)
            }
            Step::Answering { outbox, confirming } => self.write(port, outbox, confirming),
            Step::WaitingToClose(since) => self.wait_to_close(port, since),
            Step::Closed => false,
        }
    }

    /// Sets the next step. Returns `progress`, as the result of the present step.
    fn set_step(&mut self, step: Step, progress: bool) -> bool {
        self.step = step;
        progress
    }

    fn abort(&mut self, port: &PortState) -> bool {
        self.step = Step::Idle;
        self.close(port);
        true
    }

    /// Waits until the library has reported the connection, or has closed its socket.
    fn wait_for_library(&mut self, port: &PortState) -> bool {
        if !port.is_library_connected() {
            let refused = self
                .library
                .as_ref()
                .is_none_or(|fd| matches!(self.from_library.read(fd), ReadResult::Ended));
            return if refused { self.abort(port) } else { self.set_step(Step::Joining, false) };
        }
        if self.guest.is_none() {
            return self.abort(port);
        }
        let _ = port.access.unblock();
        self.set_step(Step::Idle, true)
    }

    /// Reads the guest's next message. `confirming`: the message must confirm a memory table.
    fn read_guest(&mut self, port: &PortState, confirming: bool) -> bool {
        let (Some(guest), Some(library)) = (&self.guest, &self.library) else { return self.abort(port) };
        match self.from_guest.read(guest) {
            ReadResult::Message(message) if confirming => self.confirm(port, message),
            ReadResult::Message(message) => self.handle_request(port, message),
            ReadResult::Ended => self.abort(port),
            ReadResult::Broken(why) => {
                port.say(Level::Error, &format!("vhost '{}': a message is refused: {why}", port.path));
                self.abort(port)
            }
            // The library sends nothing without a request. So if anything can be read, the library has ended the connection.
            ReadResult::Incomplete if !matches!(self.from_library.read(library), ReadResult::Incomplete) => {
                self.abort(port)
            }
            ReadResult::Incomplete => self.set_step(Step::read_next(confirming), false),
        }
    }

    /// Checks a message. An accepted message waits for the end of accesses.
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
        let wait_for = if allows_workers(message.request()) {
            WaitFor::Accesses(port.access.in_progress())
        } else {
            port.access.block();
            WaitFor::NoWorker
        };
        self.set_step(Step::WaitingForWorkers(message, wait_for, since), true)
    }

    fn wait_for_workers(
        &mut self,
        port: &PortState,
        message: Message,
        mut wait_for: WaitFor,
        since: Instant,
    ) -> bool {
        let mut is_allowed = || match &mut wait_for {
            WaitFor::Accesses(accesses) => accesses.have_ended(),
            WaitFor::NoWorker => port.access.is_idle(),
        };
        while !is_allowed() {
            if since.elapsed() >= SPIN {
                return self.set_step(Step::WaitingForWorkers(message, wait_for, since), false);
            }
            std::hint::spin_loop();
        }
        let (request, wanted) = (message.request(), message.needs_reply());
        let then = match request {
            request::SET_MEM_TABLE => ReplyKind::Table { wanted },
            _ if has_own_reply(request) => ReplyKind::Forward,
            _ => ReplyKind::Ack { wanted },
        };
        let blocked = matches!(wait_for, WaitFor::NoWorker);
        self.send_to_library(port, message, Step::WaitingForReply { request, blocked, then })
    }

    /// Sends the library a complete message. The library has read all previous messages, so the socket has space.
    fn send_to_library(&mut self, port: &PortState, mut message: Message, then: Step) -> bool {
        if !has_own_reply(message.request()) {
            message.set_needs_reply();
        }
        let Some(library) = &self.library else { return self.abort(port) };
        match Outbox::new(message).write(library) {
            WriteResult::All => self.set_step(then, true),
            WriteResult::Part | WriteResult::Ended => self.abort(port),
        }
    }

    /// Reads the library's reply to `request`, forwards it if the guest needs it, and allows accesses again.
    fn read_library_reply(&mut self, port: &PortState, request: u32, blocked: bool, then: ReplyKind) -> bool {
        let Some(library) = &self.library else { return self.abort(port) };
        let message = match self.from_library.read(library) {
            ReadResult::Message(message) => message,
            ReadResult::Incomplete => {
                return self.set_step(Step::WaitingForReply { request, blocked, then }, false);
            }
            ReadResult::Ended | ReadResult::Broken(_) => return self.abort(port),
        };
        let ack = message.payload().len() == 8;
        let (done, forward) = match then {
            ReplyKind::Forward => (true, true),
            ReplyKind::Confirmed => (true, false),
            // If the payload does not have the 8 bytes of an acknowledgement, the message is another reply to this request.
            ReplyKind::Ack { wanted } => (!ack || message.reports_success(), wanted || !ack),
            ReplyKind::Table { wanted } if ack => (message.reports_success(), wanted),
            ReplyKind::Table { .. } => return self.write(port, Outbox::new(message), true),
        };
        // If the library could not map a memory table, rings have dangling addresses. So access stays blocked, and the connection
        // ends.
        if !done && then != (ReplyKind::Ack { wanted: true }) {
            if forward {
                self.answer(port, message);
            }
            return self.abort(port);
        }
        if blocked {
            // The vid is valid: the library removes the guest only at the session's request.
            port.access.unblock().into_iter().for_each(callbacks::disable_kicks);
        }
        if forward { self.answer(port, message) } else { self.set_step(Step::Idle, true) }
    }

    /// Passes on the guest's confirmation of a memory table (post-copy). The library does not reply to it, so the session sends a
    /// query, whose reply shows that the library accepted the confirmation.
    fn confirm(&mut self, port: &PortState, message: Message) -> bool {
        let refused = !message.fds.never_block_on_close() || message.request() != request::SET_MEM_TABLE;
        let Some(library) = self.library.as_ref().filter(|_| !refused) else { return self.abort(port) };
        if Outbox::new(message).write(library) != WriteResult::All {
            return self.abort(port);
        }
        let query = Message::new(request::GET_FEATURES, &[], &self.closing);
        let then = Step::WaitingForReply {
            request: request::GET_FEATURES,
            blocked: true,
            then: ReplyKind::Confirmed,
        };
        self.send_to_library(port, query, then)
    }

    fn answer(&mut self, port: &PortState, message: Message) -> bool {
        self.write(port, Outbox::new(message), false)
    }

    fn write(&mut self, port: &PortState, mut outbox: Outbox, confirming: bool) -> bool {
        let Some(guest) = &self.guest else { return self.abort(port) };
        match outbox.write(guest) {
            WriteResult::All => self.set_step(Step::read_next(confirming), true),
            WriteResult::Part => self.set_step(Step::Answering { outbox, confirming }, false),
            WriteResult::Ended => self.abort(port),
        }
    }

    /// Closes the library's socket when no worker accesses the rings any more.
    fn wait_to_close(&mut self, port: &PortState, since: Instant) -> bool {
        while !port.access.is_idle() {
            if since.elapsed() >= SPIN {
                return self.set_step(Step::WaitingToClose(since), false);
            }
            std::hint::spin_loop();
        }
        self.library = None;
        self.set_step(Step::Closed, false)
    }
}

/// Checks whether the message may be passed to the library. Checks that depend on the state of rings run later, under the locks of
/// the rings ([`crate::vhost::message_checks`]).
fn check(port: &PortState, message: &Message) -> Result<(), Refusal> {
    use request::*;
    let (fds, counters) = (&message.fds, [SET_VRING_KICK, SET_VRING_CALL, SET_VRING_ERR]);
    match message.request() {
        _ if !fds.never_block_on_close() => Err(Refusal::FileDescriptor),
        SET_MEM_TABLE => memory_table::check_table(message.payload(), fds, memory_table::bytes_max()),
        SET_LOG_BASE => memory_table::check_log(message.payload(), fds, memory_table::bytes_max()),
        n if counters.contains(&n) && !fds.iter().all(is_event) => Err(Refusal::FileDescriptor),
        POSTCOPY_ADVISE | POSTCOPY_LISTEN | POSTCOPY_END if !port.postcopy => Err(Refusal::NotOffered),
        _ => Ok(()),
    }
}

fn is_event(fd: &OwnedFd) -> bool {
    vhost::file_descriptors::kind(fd.as_fd()) == vhost::file_descriptors::Kind::Event
}

/// Whether the library's reply to this request is more than an acknowledgement.
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

/// Whether workers may access the rings while this request is executed: the library neither removes the guest nor changes its memory or
/// the state of a ring. Guests also send such requests while their rings run.
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
