//! Proxy between guests and the library: the switch owns the guests' sockets and passes messages to the library one by
//! one, through a second socket per port.
//!
//! ```text
//! guest ── its socket ── Endpoint, Session (here) ── socket below the run directory ── librte_vhost
//! ```
//!
//! The library serves all guests with one thread, handles a message as soon as it has read it, and holds the locks of
//! the guest's rings meanwhile. Without the proxy, a peer could block that thread (by half a message, by not reading a
//! reply, by a file on which calls block), two connections to one path could interfere, and rings could keep addresses
//! of memory that could not be mapped while workers wait for the lock. The proxy has, for each port:
//!
//! - [`endpoint`]: accepts one guest at a time;
//! - [`session`]: passes only whole messages. A message that removes the guest or moves its memory is handled while no
//!   worker is inside ([`super::device_access`]); if a memory table could not be mapped, no worker enters again;
//! - [`library_sockets`]: the path at which the library listens.
//!
//! All run on one thread, `vhost-proxy`, which never blocks on one port: what is not ready yet is checked again. If a
//! worker does not leave a guest's rings, that port is out of service until the worker leaves; then the library is
//! told, the memory is freed, and the guest may connect again. While there is a guest, the thread checks ten times a
//! second, and interrupts a worker that blocks on a notification of its guest ([`super::blocked_writes`]).

mod endpoint;
mod library_sockets;
mod message;
mod session;
pub(super) mod waker;

pub(super) use library_sockets::new_path;
pub(super) use session::LIMIT;

use super::path::Role;
use super::port_state::PortState;
use endpoint::Endpoint;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

enum Order {
    Serve(Box<Endpoint>),
    Retire(Arc<PortState>, SyncSender<()>),
}

/// How other threads reach the proxy thread.
struct Proxy {
    orders: Mutex<Vec<Order>>,
    waker: &'static OwnedFd,
}

static PROXY: OnceLock<&'static Proxy> = OnceLock::new();

/// The proxy; its thread is started at the first call.
fn proxy() -> io::Result<&'static Proxy> {
    static STARTING: Mutex<()> = Mutex::new(());
    let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(proxy) = PROXY.get() {
        return Ok(proxy);
    }
    let waker = waker::waker()?;
    // Lives until the process ends.
    let proxy: &'static Proxy = Box::leak(Box::new(Proxy { orders: Mutex::default(), waker }));
    std::thread::Builder::new().name("vhost-proxy".to_owned()).spawn(|| serve(proxy))?;
    Ok(PROXY.get_or_init(|| proxy))
}

impl Proxy {
    fn order(&self, order: Order) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).push(order);
        waker::wake();
    }
}

/// Starts to serve a port that was registered with the library.
pub(super) fn open(port: &Arc<PortState>, role: Role) -> io::Result<()> {
    let proxy = proxy()?;
    proxy.order(Order::Serve(Box::new(Endpoint::open(port, role)?)));
    Ok(())
}

/// Stops serving a port and unregisters it from the library. Returns false if a worker is still inside its rings after
/// 2 s: then the port is removed, and its memory freed, when the worker leaves.
pub(super) fn retire(port: &Arc<PortState>) -> bool {
    let (done, ended) = sync_channel(1);
    let Some(proxy) = PROXY.get() else { return true };
    proxy.order(Order::Retire(Arc::clone(port), done));
    ended.recv_timeout(LIMIT).is_ok()
}

fn serve(proxy: &Proxy) {
    let mut endpoints: Vec<Endpoint> = Vec::new();
    let mut had_event = false;
    loop {
        for order in std::mem::take(&mut *proxy.orders.lock().unwrap_or_else(PoisonError::into_inner)) {
            match order {
                Order::Serve(endpoint) => endpoints.push(*endpoint),
                Order::Retire(port, done) => {
                    let endpoint = endpoints.iter_mut().find(|e| e.is_of(&port));
                    endpoint.into_iter().for_each(|e| e.retire(done.clone()));
                }
            }
        }
        let now = Instant::now();
        endpoints.retain_mut(|endpoint| endpoint.run(now, had_event));
        had_event = sleep(proxy, &endpoints);
    }
}

/// Waits for an event or the next check. Returns whether there was an event.
fn sleep(proxy: &Proxy, endpoints: &[Endpoint]) -> bool {
    let now = Instant::now();
    let mut fds = vec![PollFd::new(proxy.waker, PollFlags::IN)];
    let limits = endpoints.iter().filter_map(|endpoint| endpoint.poll_fds(now, &mut fds));
    let limit = limits
        .min()
        .map(|limit| Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) });
    let ready = poll(&mut fds, limit.as_ref()) != Ok(0);
    // The wake-up may arrive when the timeout has already expired: having read it from the counter, we must report it.
    let woken = rustix::io::read(proxy.waker, &mut [0u8; 8]).is_ok();
    ready || woken
}
