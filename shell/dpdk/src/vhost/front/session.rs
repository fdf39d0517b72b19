//! One connection of a guest: messages go to the library one by one, and answers back.
//!
//! The library acknowledges every message (`NEED_REPLY` is set on all that have no answer of their own), also where the guest
//! did not ask; so at most one is under way, and what became of it is known. An acknowledgement that the guest did not
//! ask for is kept from it; if the message failed, the connection ends, as the library would have ended it.
//!
//! Before the library gets a message, workers that are inside at that moment have left ([`Hold`]). One that did not leave
//! may hold the lock of a ring, for which the thread that serves all guests would wait. So a worker that does not come
//! back stops its own guest's messages and nothing else.

use super::message::{Inbox, Message, Outbox, Read, Written};
use crate::log::{Level, say};
use crate::vhost::gate::Stays;
use crate::vhost::link::Link;
use crate::vhost::rules::{Objection, request};
use crate::vhost::{callbacks, guard, memory_table};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

/// A burst takes microseconds; so much later the worker did not come back, and the port is out of service.
pub(in crate::vhost) const LIMIT: Duration = Duration::from_secs(2);
/// How long workers are spun for before the thread sleeps and looks again.
const SPIN: Duration = Duration::from_micros(100);

/// What a message waits for before the library gets it.
#[derive(Debug)]
enum Hold {
    /// Each call that was under way when it came has ended.
    Stays(Stays),
    /// Nobody is inside; the door is barred until the library has answered.
    Empty,
}

/// What is done with the library's next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// It answers the guest.
    Answer,
    /// It acknowledges; the guest hears of it if it wanted to.
    Ack { wanted: bool },
    /// It acknowledges a table of memory, or (post-copy) asks the guest to confirm one.
    Table { wanted: bool },
    /// It answers a question of ours: a table that the guest confirmed is in force.
    Confirmed,
}

#[derive(Debug)]
enum Step {
    /// The library has not told of the connection yet.
    Joining,
    /// Nothing is under way.
    Idle,
    /// A message waits for workers.
    Held(Message, Hold, Instant),
    /// The library has a message.
    Asked { request: u32, barred: bool, then: Then },
    /// An answer waits for room in the guest's socket.
    Answering(Outbox),
    /// The guest is to confirm a table of memory (post-copy).
    Confirming,
    /// It is over; the library hears of it when no worker is inside.
    Leaving(Instant),
    /// The library was told, and has not taken the guest away yet.
    Left,
}

/// See the module.
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
    /// Calls that were under way at that time, and those of them that still are.
    watched: (Stays, Instant),
}

impl Session {
    /// `library` is connected, and the library will tell of it.
    pub fn new(guest: OwnedFd, library: OwnedFd, closing: &Arc<AtomicUsize>) -> Session {
        Session {
            guest: Some(guest),
            library: Some(library),
            step: Step::Joining,
            from_guest: Inbox::new(closing),
            from_library: Inbox::new(closing),
            closing: Arc::clone(closing),
            watched: (Stays::default(), Instant::now()),
        }
    }

    /// The library has nothing of it any more.
    pub fn is_over(&self, link: &Link) -> bool {
        matches!(self.step, Step::Left) && !link.is_joined()
    }

    /// The guest closed, whether what it sent before was read or not.
    pub fn has_hung_up(&self) -> bool {
        let Some(guest) = &self.guest else { return true };
        let mut fds = [PollFd::new(guest, PollFlags::RDHUP)];
        let polled = poll(&mut fds, Some(&Timespec::default()));
        polled.is_ok_and(|n| n > 0)
    }

    /// What it waits for.
    pub fn poll_fds<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        let mut add =
            |fd: &'a Option<OwnedFd>, flags| fds.extend(fd.as_ref().map(|fd| PollFd::new(fd, flags)));
        match &self.step {
            Step::Idle | Step::Confirming => {
                add(&self.guest, PollFlags::IN);
                add(&self.library, PollFlags::IN);
            }
            Step::Joining | Step::Asked { .. } => add(&self.library, PollFlags::IN),
            Step::Answering(_) => add(&self.guest, PollFlags::OUT),
            Step::Held(..) | Step::Leaving(_) | Step::Left => {}
        }
    }

    /// When it is to be looked at again by itself.
    pub fn look_again(&self, now: Instant) -> Option<Duration> {
        match self.step {
            Step::Held(_, _, since) | Step::Leaving(since) => {
                Some(if now - since < LIMIT { Duration::from_millis(1) } else { LIMIT / 10 })
            }
            _ => None,
        }
    }

    /// Goes on as far as it can.
    pub fn run(&mut self, link: &Link) {
        while self.step(link) {}
    }

    /// Ends it. The guest's socket is closed at once.
    pub fn leave(&mut self, link: &Link) {
        if matches!(self.step, Step::Leaving(_) | Step::Left) {
            return;
        }
        self.guest = None;
        link.door.bar();
        // A library that does not know of it yet would tell of it later.
        if !matches!(self.step, Step::Joining) {
            self.step = Step::Leaving(Instant::now());
        }
    }

    /// Looks now and then whether a worker stays inside. True: its guest made it wait.
    pub fn watch(&mut self, link: &Link, now: Instant) -> bool {
        if self.watched.0.are_over() {
            self.watched = (link.door.stays(), now);
            return false;
        }
        let path = &link.path;
        if now - self.watched.1 >= LIMIT && link.set_stuck(true) {
            let limit = LIMIT.as_secs();
            let what = "a worker has not come back from its rings";
            say(Level::Error, &format!("vhost '{path}': {what} for {limit} s: out of service"));
            self.leave(link);
        }
        // None of them was among those that had just begun when they were looked at last.
        let waiting: Vec<_> = self.watched.0.threads().filter(|thread| guard::is_writing(*thread)).collect();
        if waiting.is_empty() {
            return false;
        }
        say(
            Level::Error,
            &format!("vhost '{path}': a worker had to wait for the guest to take a notification"),
        );
        self.leave(link);
        waiting.into_iter().for_each(guard::interrupt);
        true
    }

    /// One step; false: it has to wait.
    fn step(&mut self, link: &Link) -> bool {
        match std::mem::replace(&mut self.step, Step::Left) {
            Step::Joining => self.join(link),
            Step::Idle => self.listen(link, false),
            Step::Confirming => self.listen(link, true),
            Step::Held(message, hold, since) => self.held(link, message, hold, since),
            Step::Asked { request, barred, then } => self.hear(link, request, barred, then),
            Step::Answering(outbox) => self.answering(link, outbox),
            Step::Leaving(since) => self.leaving(link, since),
            Step::Left => false,
        }
    }

    fn go(&mut self, step: Step, progress: bool) -> bool {
        self.step = step;
        progress
    }

    fn end(&mut self, link: &Link) -> bool {
        self.step = Step::Idle;
        self.leave(link);
        true
    }

    fn join(&mut self, link: &Link) -> bool {
        if !link.is_joined() {
            let refused =
                self.library.as_ref().is_none_or(|fd| matches!(self.from_library.read(fd), Read::Ended));
            return if refused { self.end(link) } else { self.go(Step::Joining, false) };
        }
        if self.guest.is_none() {
            return self.end(link);
        }
        let _ = link.door.unbar();
        self.go(Step::Idle, true)
    }

    fn listen(&mut self, link: &Link, confirming: bool) -> bool {
        let idle = if confirming { Step::Confirming } else { Step::Idle };
        let (Some(guest), Some(library)) = (&self.guest, &self.library) else { return self.end(link) };
        match self.from_guest.read(guest) {
            Read::Message(message) if confirming => self.confirm(link, message),
            Read::Message(message) => self.take(link, message),
            Read::Ended => self.end(link),
            Read::Broken(why) => {
                say(Level::Error, &format!("vhost '{}': a message is refused: {why}", link.path));
                self.end(link)
            }
            // The library says nothing by itself: it ended the connection.
            Read::Nothing if !matches!(self.from_library.read(library), Read::Nothing) => self.end(link),
            Read::Nothing => self.go(idle, false),
        }
    }

    /// A message came: it is judged, and has to wait for workers.
    fn take(&mut self, link: &Link, message: Message) -> bool {
        let since = Instant::now();
        if let Err(objection) = judge(link, &message) {
            let request = message.request();
            say(Level::Error, &format!("vhost '{}': request {request} is refused: {objection}", link.path));
            return match message.needs_reply() {
                true => self.answer(link, Message::ack(request, false, &self.closing)),
                false => self.end(link),
            };
        }
        let hold = if keeps_the_guest(message.request()) {
            Hold::Stays(link.door.stays())
        } else {
            link.door.bar();
            Hold::Empty
        };
        self.go(Step::Held(message, hold, since), true)
    }

    fn held(&mut self, link: &Link, message: Message, mut hold: Hold, since: Instant) -> bool {
        let mut may_go = || match &mut hold {
            Hold::Stays(stays) => stays.are_over(),
            Hold::Empty => link.door.is_empty(),
        };
        while !may_go() {
            if since.elapsed() >= SPIN {
                return self.go(Step::Held(message, hold, since), false);
            }
            std::hint::spin_loop();
        }
        let (request, wanted) = (message.request(), message.needs_reply());
        let then = match request {
            request::SET_MEM_TABLE => Then::Table { wanted },
            _ if answers(request) => Then::Answer,
            _ => Then::Ack { wanted },
        };
        let barred = matches!(hold, Hold::Empty);
        self.ask(link, message, Step::Asked { request, barred, then })
    }

    /// Gives the library a message, all of it: it has taken what came before.
    fn ask(&mut self, link: &Link, mut message: Message, then: Step) -> bool {
        if !answers(message.request()) {
            message.set_needs_reply();
        }
        let Some(library) = &self.library else { return self.end(link) };
        match Outbox::new(message).write(library) {
            Written::All => self.go(then, true),
            Written::Part | Written::Ended => self.end(link),
        }
    }

    fn hear(&mut self, link: &Link, request: u32, barred: bool, then: Then) -> bool {
        let Some(library) = &self.library else { return self.end(link) };
        let message = match self.from_library.read(library) {
            Read::Message(message) => message,
            Read::Nothing => return self.go(Step::Asked { request, barred, then }, false),
            Read::Ended | Read::Broken(_) => return self.end(link),
        };
        let ack = message.payload().len() == 8;
        let (done, forward) = match then {
            Then::Answer => (true, true),
            Then::Confirmed => (true, false),
            // What has an answer without a payload.
            Then::Ack { wanted } => (!ack || message.says_done(), wanted || !ack),
            Then::Table { wanted } if ack => (message.says_done(), wanted),
            Then::Table { .. } => {
                self.step = Step::Confirming;
                return self.send(link, message, Step::Confirming);
            }
        };
        // A table that the library took and could not map leaves rings that lead nowhere: nobody enters any more.
        if !done && then != (Then::Ack { wanted: true }) {
            if forward {
                self.send(link, message, Step::Idle);
            }
            return self.end(link);
        }
        if barred {
            // The library takes the guest away at our request only: the number is valid.
            link.door.unbar().into_iter().for_each(callbacks::quiet);
        }
        if forward { self.send(link, message, Step::Idle) } else { self.go(Step::Idle, true) }
    }

    /// The guest confirmed a table (post-copy). The library does not say whether it took that; a question does.
    fn confirm(&mut self, link: &Link, message: Message) -> bool {
        let refused = !message.fds.are_harmless() || message.request() != request::SET_MEM_TABLE;
        let Some(library) = self.library.as_ref().filter(|_| !refused) else { return self.end(link) };
        if Outbox::new(message).write(library) != Written::All {
            return self.end(link);
        }
        let question = Message::new(request::GET_FEATURES, &[], &self.closing);
        let then = Step::Asked { request: request::GET_FEATURES, barred: true, then: Then::Confirmed };
        self.ask(link, question, then)
    }

    fn answer(&mut self, link: &Link, message: Message) -> bool {
        self.send(link, message, Step::Idle)
    }

    fn send(&mut self, link: &Link, message: Message, then: Step) -> bool {
        let mut outbox = Outbox::new(message);
        let Some(guest) = &self.guest else { return self.end(link) };
        match outbox.write(guest) {
            Written::All => self.go(then, true),
            Written::Part => self.go(Step::Answering(outbox), false),
            Written::Ended => self.end(link),
        }
    }

    fn answering(&mut self, link: &Link, mut outbox: Outbox) -> bool {
        let Some(guest) = &self.guest else { return self.end(link) };
        match outbox.write(guest) {
            Written::All => self.go(Step::Idle, true),
            Written::Part => self.go(Step::Answering(outbox), false),
            Written::Ended => self.end(link),
        }
    }

    fn leaving(&mut self, link: &Link, since: Instant) -> bool {
        while !link.door.is_empty() {
            if since.elapsed() >= SPIN {
                return self.go(Step::Leaving(since), false);
            }
            std::hint::spin_loop();
        }
        self.library = None;
        self.go(Step::Left, false)
    }
}

/// May the library see this? Whatever else is to be known of a message, the library is asked under the locks of its rings
/// ([`crate::vhost::vet`]).
fn judge(link: &Link, message: &Message) -> Result<(), Objection> {
    use request::*;
    let (fds, counters) = (&message.fds, [SET_VRING_KICK, SET_VRING_CALL, SET_VRING_ERR]);
    match message.request() {
        _ if !fds.are_harmless() => Err(Objection::Descriptor),
        SET_MEM_TABLE => memory_table::try_out(message.payload(), fds, memory_table::longest()),
        SET_LOG_BASE => memory_table::try_log(message.payload(), fds, memory_table::longest()),
        n if counters.contains(&n) && !fds.iter().all(is_event) => Err(Objection::Descriptor),
        POSTCOPY_ADVISE | POSTCOPY_LISTEN | POSTCOPY_END if !link.postcopy => Err(Objection::NotOffered),
        _ => Ok(()),
    }
}

fn is_event(fd: &OwnedFd) -> bool {
    crate::vhost::descriptors::kind(fd.as_fd()) == crate::vhost::descriptors::Kind::Event
}

/// Requests that the library answers with more than an acknowledgement.
fn answers(request: u32) -> bool {
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

/// Requests at which the library neither takes the guest away nor moves its memory or what it keeps of a ring: workers may
/// come and go meanwhile. A guest sends these also while its rings run.
fn keeps_the_guest(request: u32) -> bool {
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
