//! Guests' sockets are ours: the library is given their messages, one by one, by a socket of its own for each port.
//!
//! ```text
//! guest ── its socket ── Endpoint, Session (here) ── socket below the run directory ── librte_vhost
//! ```
//!
//! The library serves all guests with one thread, handles a message as soon as it reads it, and holds the locks of the
//! guest's rings meanwhile. By itself it would let a peer stop that thread (by half a message, by a reply that is not read,
//! by a file that never answers), mix what two connections to one path say, and keep addresses of memory that it
//! could not map while workers wait for the lock. In front of it stand, for each port:
//!
//! * [`endpoint`]: one guest at a time;
//! * [`session`]: whole messages only; a message that takes the guest away, or moves its memory, is handled while no
//!   worker is inside ([`super::gate`]), and if a table of memory was not mapped none enters again;
//! * [`place`]: where the library listens.
//!
//! All run on one thread, `vhost-front`, which never waits for one port: whatever is not there yet is looked at
//! again. A worker that does not come back from a guest's rings puts that port out of service, until it does come back:
//! then the library is told, the memory freed, and the guest met again. The thread looks ten times a second while there is
//! a guest; a worker that waits for its guest to take a notification it interrupts ([`super::guard`]).

mod endpoint;
mod message;
mod place;
mod session;

pub(super) use place::new_path;
pub(super) use session::LIMIT;

use super::link::Link;
use super::socket::Role;
use endpoint::Endpoint;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How often workers are looked at.
const LOOK: Duration = Duration::from_millis(100);

enum Order {
    Serve(Box<Endpoint>),
    Retire(Arc<Link>, SyncSender<()>),
}

/// How others reach the thread.
struct Front {
    orders: Mutex<Vec<Order>>,
    waker: OwnedFd,
}

static FRONT: OnceLock<&'static Front> = OnceLock::new();

/// The front, with its thread running.
fn front() -> io::Result<&'static Front> {
    static STARTING: Mutex<()> = Mutex::new(());
    let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(front) = FRONT.get() {
        return Ok(front);
    }
    let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    // It lives as long as the process.
    let front: &'static Front = Box::leak(Box::new(Front { orders: Mutex::default(), waker }));
    std::thread::Builder::new().name("vhost-front".to_owned()).spawn(|| serve(front))?;
    Ok(FRONT.get_or_init(|| front))
}

impl Front {
    fn order(&self, order: Order) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).push(order);
        self.wake();
    }

    fn wake(&self) {
        // It fails where it has been woken so often that the counter is full.
        let _ = rustix::io::write(&self.waker, &1u64.to_ne_bytes());
    }
}

/// Something changed that a session may wait for. Waits for nobody.
pub(super) fn wake() {
    FRONT.get().into_iter().for_each(|front| front.wake());
}

/// Serves a port that the library knows.
pub(super) fn open(link: &Arc<Link>, role: Role) -> io::Result<()> {
    let front = front()?;
    front.order(Order::Serve(Box::new(Endpoint::open(link, role)?)));
    Ok(())
}

/// Ends a port, and has the library forget it. False: a worker has not come back from its rings yet; the port ends when
/// it does, and its memory stays until then.
pub(super) fn retire(link: &Arc<Link>) -> bool {
    let (done, ended) = sync_channel(1);
    let Some(front) = FRONT.get() else { return true };
    front.order(Order::Retire(Arc::clone(link), done));
    ended.recv_timeout(LIMIT).is_ok()
}

fn serve(front: &Front) {
    let mut endpoints: Vec<Endpoint> = Vec::new();
    let mut happened = false;
    loop {
        for order in std::mem::take(&mut *front.orders.lock().unwrap_or_else(PoisonError::into_inner)) {
            match order {
                Order::Serve(endpoint) => endpoints.push(*endpoint),
                Order::Retire(link, done) => {
                    let endpoint = endpoints.iter_mut().find(|e| e.is_of(&link));
                    endpoint.into_iter().for_each(|e| e.retire(done.clone()));
                }
            }
        }
        let now = Instant::now();
        endpoints.retain_mut(|endpoint| endpoint.run(now, happened));
        happened = sleep(front, &endpoints);
    }
}

/// Until something happens, or it is time to look; whether something happened.
fn sleep(front: &Front, endpoints: &[Endpoint]) -> bool {
    let now = Instant::now();
    let mut fds = vec![PollFd::new(&front.waker, PollFlags::IN)];
    let limits = endpoints.iter().filter_map(|endpoint| endpoint.poll_fds(now, &mut fds));
    let limit = limits
        .min()
        .map(|limit| Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) });
    let ready = poll(&mut fds, limit.as_ref()) != Ok(0);
    // It may be woken when the time is over already; what is taken back here must not be forgotten.
    let woken = rustix::io::read(&front.waker, &mut [0u8; 8]).is_ok();
    ready || woken
}
