//! One connection of a guest: executes its messages one by one, while no worker accesses the rings.

use super::Device;
use super::requests::{Answer, ConnectionState, allows_workers};
use crate::blocked_writes;
use crate::log::Level;
use crate::lost_memory;
use crate::message::{Inbox, Message, Outbox, ReadResult, WriteResult};
use crate::rules::Refusal;
use crate::server::{self, SPIN, STUCK_LIMIT, stuck_workers};
use rustix::event::{PollFd, PollFlags};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

/// Maximum length of a payload in bytes. The longest valid one has 264 bytes: a table of eight regions.
const PAYLOAD_MAX: usize = 512;

/// Maximum number of steps of one session before the thread serves the other guests, because a guest may send messages without pause. A
/// message needs at most three steps.
const STEPS_MAX: usize = 100;

#[derive(Debug)]
enum Step {
    /// No message is in progress.
    Idle,
    /// A message waits, since this time, until no worker accesses the rings.
    WaitingForWorkers(Message, Instant),
    /// Rings get the translations that a message has changed.
    Installing(Installation),
    /// A reply waits for space in the guest's socket.
    Answering(Outbox),
    /// The connection ended at this time. Its memory is freed when no worker accesses the rings.
    WaitingToFree(Instant),
    /// All memory of the connection was freed.
    Freed,
}

/// The rest of a message that has changed the IOTLB.
#[derive(Debug)]
struct Installation {
    message: Message,
    since: Instant,
    /// Rings whose own memory the change affects. They must be changed while no worker accesses the rings.
    affected: Vec<usize>,
    /// The number of the next ring that gets the new translations.
    next: usize,
    /// See [`Device::install`].
    ahead: bool,
}

/// The device is paused if for this long a worker holds the lock of a ring whenever the session tries to take it.
const PAUSE_AFTER: Duration = Duration::from_millis(10);

/// One connection.
#[derive(Debug)]
pub(super) struct Session {
    device: Arc<Device>,
    /// The socket; `None`: it is closed.
    guest: Option<OwnedFd>,
    step: Step,
    inbox: Inbox,
    requests: ConnectionState,
    /// Number of messages whose file descriptors are still being closed: see [`server::Backend::start`].
    closing: Arc<AtomicUsize>,
    /// The accesses of workers (ring number, value of `access_count`, thread) that were in progress at this
    /// time and have not ended since.
    watched: (Vec<(usize, u64, i32)>, Instant),
}

impl Session {
    pub fn new(device: &Arc<Device>, guest: OwnedFd, closing: &Arc<AtomicUsize>) -> Session {
        Session {
            device: Arc::clone(device),
            guest: Some(guest),
            step: Step::Idle,
            inbox: Inbox::new(closing, PAYLOAD_MAX),
            requests: ConnectionState::new(device),
            closing: Arc::clone(closing),
            watched: (Vec::new(), Instant::now()),
        }
    }

    /// Executes one step. Returns false if the session has to wait.
    fn step(&mut self) -> bool {
        match std::mem::replace(&mut self.step, Step::Freed) {
            Step::Idle => self.read(),
            Step::WaitingForWorkers(message, since) => self.wait_for_workers(message, since),
            Step::Installing(installation) => self.install(installation),
            Step::Answering(outbox) => self.write(outbox),
            Step::WaitingToFree(since) => self.wait_to_free(since),
            Step::Freed => false,
        }
    }

    /// Sets the next step. Returns `progress`, as the result of the present step.
    fn set_step(&mut self, step: Step, progress: bool) -> bool {
        self.step = step;
        progress
    }

    fn abort(&mut self) -> bool {
        self.step = Step::Idle;
        server::Session::close(self);
        true
    }

    /// Logs why the connection ends, and ends it.
    fn fail(&mut self, why: &str) -> bool {
        self.device.port.say(Level::Error, &format!("vhost '{}': {why}", self.device.port.path));
        self.abort()
    }

    /// Reads a message and executes it, or pauses the device first if workers must not access the rings meanwhile.
    fn read(&mut self) -> bool {
        let invalid = *self.device.invalid();
        if let Some((ring, invalid)) = invalid {
            return self.fail(&format!("ring {ring} is invalid: {invalid}"));
        }
        let Some(guest) = &self.guest else { return self.abort() };
        match self.inbox.read(guest) {
            ReadResult::Message(message) if !message.fds.never_block_on_close() => {
                self.finish(&message, Err(Refusal::FileDescriptor))
            }
            ReadResult::Message(message) if allows_workers(message.request()) => {
                let done = self.requests.handle(&message);
                let Some(affected) = self.requests.take_affected_rings() else {
                    return self.finish(&message, done);
                };
                if !affected.is_empty() {
                    self.device.pause();
                }
                let ahead = !affected.is_empty() || self.requests.has_removed();
                self.install(Installation { message, since: Instant::now(), affected, next: 0, ahead })
            }
            ReadResult::Message(message) => {
                self.device.pause();
                self.set_step(Step::WaitingForWorkers(message, Instant::now()), true)
            }
            ReadResult::Ended => self.abort(),
            ReadResult::Broken(why) => self.fail(&format!("a message is refused: {why}")),
            ReadResult::Incomplete => self.set_step(Step::Idle, false),
        }
    }

    /// Executes the message when no worker accesses the rings any more.
    fn wait_for_workers(&mut self, message: Message, since: Instant) -> bool {
        while !self.device.is_idle() {
            if since.elapsed() >= SPIN {
                return self.set_step(Step::WaitingForWorkers(message, since), false);
            }
            std::hint::spin_loop();
        }
        let done = self.requests.handle(&message);
        if self.requests.take_affected_rings().is_some() {
            // Workers that see the pause release the locks at once.
            let mut next = 0;
            while !self.device.install(self.requests.iotlb(), true, &mut next) {
                std::hint::spin_loop();
            }
        }
        self.device.resume();
        self.finish(&message, done)
    }

    /// Gives new translations to the rings, and replies when no worker can use the old ones.
    fn install(&mut self, mut installation: Installation) -> bool {
        let Installation { since, affected, next, ahead, .. } = &mut installation;
        let began = Instant::now();
        loop {
            if !affected.is_empty() && self.device.is_idle() {
                self.requests.apply_rings(affected);
                affected.clear();
            }
            if affected.is_empty() && self.device.install(self.requests.iotlb(), *ahead, next) {
                break;
            }
            if began.elapsed() >= SPIN {
                if since.elapsed() >= PAUSE_AFTER {
                    self.device.pause();
                }
                return self.set_step(Step::Installing(installation), false);
            }
            std::hint::spin_loop();
        }
        self.device.resume();
        self.requests.installed();
        self.finish(&installation.message, Ok(None))
    }

    /// Replies to a message, if it needs a reply.
    fn finish(&mut self, message: &Message, done: Result<Option<Answer>, Refusal>) -> bool {
        let request = message.request();
        let reply = match done {
            Ok(Some(Answer { payload, file })) => {
                let mut reply = Message::reply(request, &payload, &self.closing);
                file.into_iter().for_each(|file| reply.fds.push(file));
                reply
            }
            Ok(None) if !message.needs_reply() => return self.set_step(Step::Idle, true),
            Ok(None) => Message::ack(request, true, &self.closing),
            Err(refusal) => {
                let path = &self.device.port.path;
                self.device
                    .port
                    .say(Level::Error, &format!("vhost '{path}': request {request} is refused: {refusal}"));
                if !message.needs_reply() {
                    return self.abort();
                }
                Message::ack(request, false, &self.closing)
            }
        };
        self.write(Outbox::new(reply))
    }

    fn write(&mut self, mut outbox: Outbox) -> bool {
        let Some(guest) = &self.guest else { return self.abort() };
        match outbox.write(guest) {
            WriteResult::All => self.set_step(Step::Idle, true),
            WriteResult::Part => self.set_step(Step::Answering(outbox), false),
            WriteResult::Ended => self.abort(),
        }
    }

    /// Frees the connection's memory when no worker accesses the rings any more.
    fn wait_to_free(&mut self, since: Instant) -> bool {
        while !self.device.is_idle() {
            if since.elapsed() >= SPIN {
                return self.set_step(Step::WaitingToFree(since), false);
            }
            std::hint::spin_loop();
        }
        self.requests.end();
        self.device.resume();
        lost_memory::log_replaced();
        self.set_step(Step::Freed, false)
    }
}

impl server::Session for Session {
    fn run(&mut self) {
        let mut steps = 0;
        while steps < STEPS_MAX && self.step() {
            steps += 1;
        }
        self.requests.channel().request(&self.device, &self.closing);
    }

    fn close(&mut self) {
        self.guest = None;
        if !matches!(self.step, Step::WaitingToFree(_) | Step::Freed) {
            self.device.pause();
            self.step = Step::WaitingToFree(Instant::now());
        }
    }

    fn check_stuck_workers(&mut self, now: Instant) -> bool {
        let accesses: Vec<_> = self.device.accesses_in_progress().collect();
        self.watched.0.retain(|access| accesses.contains(access));
        if self.watched.0.is_empty() {
            self.watched = (accesses, now);
            return false;
        }
        // All of these accesses were already in progress at the previous check, so none has just begun.
        let threads = self.watched.0.iter().map(|(_, _, thread)| *thread);
        let stuck = stuck_workers::check_workers(&self.device.port, threads, self.watched.1, now);
        if stuck.close {
            self.close();
        }
        stuck.blocked.iter().for_each(|thread| blocked_writes::interrupt(*thread));
        !stuck.blocked.is_empty()
    }

    fn needs_worker_check(&self) -> bool {
        !matches!(self.step, Step::Freed)
    }

    fn is_over(&self) -> bool {
        matches!(self.step, Step::Freed)
    }

    fn has_hung_up(&self) -> bool {
        self.guest.as_ref().is_none_or(server::has_hung_up)
    }

    fn next_check_in(&self, now: Instant) -> Option<Duration> {
        match self.step {
            Step::WaitingForWorkers(_, since)
            | Step::WaitingToFree(since)
            | Step::Installing(Installation { since, .. }) => {
                Some(if now - since < STUCK_LIMIT { Duration::from_millis(1) } else { STUCK_LIMIT / 10 })
            }
            _ => None,
        }
    }

    fn poll_fds<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        self.requests.poll_channel(fds);
        let flags = match &self.step {
            Step::Idle => PollFlags::IN,
            Step::Answering(_) => PollFlags::OUT,
            Step::WaitingForWorkers(..) | Step::Installing(_) | Step::WaitingToFree(_) | Step::Freed => {
                return;
            }
        };
        fds.extend(self.guest.as_ref().map(|guest| PollFd::new(guest, flags)));
    }
}
