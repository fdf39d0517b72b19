//! The serving thread, `vhost-proxy`: it owns the sockets of all guests.
//!
//! For each port the thread has an [`endpoint`], which accepts one guest at a time, and the [`Session`] of that guest, which the port's
//! [`Backend`] created. One back-end serves the rings itself; the other passes messages on to DPDK's library.
//!
//! The thread never blocks for one port: it does what is possible and checks the port again later. If a worker does not end its access to
//! a guest's rings, that port is out of service until the access ends; then the memory is freed, and the guest may connect again. While a guest is
//! connected, the thread checks ten times a second for accesses that last too long, and interrupts a worker that blocks while it notifies
//! the guest ([`crate::blocked_writes`]).

mod backend;
mod endpoint;
pub mod stuck_workers;
mod waker;

pub use backend::{Backend, SPIN, STUCK_LIMIT, Session, has_hung_up};
pub use endpoint::connected_to;
pub use waker::wake;

use crate::path::Role;
use crate::port_state::PortState;
use endpoint::Endpoint;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

enum Command {
    Serve(Box<Endpoint>),
    Retire(Arc<PortState>, SyncSender<()>),
}

/// The serving thread's queue of commands from other threads.
struct Server {
    commands: Mutex<Vec<Command>>,
    waker: &'static OwnedFd,
}

static SERVER: OnceLock<&'static Server> = OnceLock::new();

/// The server. Its thread is started at the first call.
fn server() -> io::Result<&'static Server> {
    static STARTING: Mutex<()> = Mutex::new(());
    let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = SERVER.get() {
        return Ok(server);
    }
    let waker = waker::waker()?;
    // The server lives until the process ends.
    let server: &'static Server = Box::leak(Box::new(Server { commands: Mutex::default(), waker }));
    std::thread::Builder::new().name("vhost-proxy".to_owned()).spawn(|| serve(server))?;
    Ok(SERVER.get_or_init(|| server))
}

impl Server {
    fn command(&self, command: Command) {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).push(command);
        wake();
    }
}

/// Starts to serve a port.
pub fn open(port: &Arc<PortState>, role: Role, backend: Box<dyn Backend>) -> io::Result<()> {
    let server = server()?;
    server.command(Command::Serve(Box::new(Endpoint::open(port, role, backend)?)));
    Ok(())
}

/// Stops serving a port. Returns false if a worker still accesses its rings after [`STUCK_LIMIT`]: then the port is removed and its memory freed
/// when the worker's access ends.
pub fn retire(port: &Arc<PortState>) -> bool {
    port.retire();
    let (done, ended) = sync_channel(1);
    let Some(server) = SERVER.get() else { return true };
    server.command(Command::Retire(Arc::clone(port), done));
    ended.recv_timeout(STUCK_LIMIT).is_ok()
}

/// The loop of the serving thread.
fn serve(server: &Server) {
    let mut endpoints: Vec<Endpoint> = Vec::new();
    let mut had_event = false;
    loop {
        for command in std::mem::take(&mut *server.commands.lock().unwrap_or_else(PoisonError::into_inner)) {
            match command {
                Command::Serve(endpoint) => endpoints.push(*endpoint),
                Command::Retire(port, done) => {
                    let endpoint = endpoints.iter_mut().find(|e| e.is_of(&port));
                    endpoint.into_iter().for_each(|e| e.retire(done.clone()));
                }
            }
        }
        let now = Instant::now();
        endpoints.retain_mut(|endpoint| endpoint.run(now, had_event));
        had_event = sleep(server, &endpoints);
    }
}

/// Waits for an event or for the next check. Returns whether there was an event.
fn sleep(server: &Server, endpoints: &[Endpoint]) -> bool {
    let now = Instant::now();
    let mut fds = vec![PollFd::new(server.waker, PollFlags::IN)];
    let limits = endpoints.iter().filter_map(|endpoint| endpoint.poll_fds(now, &mut fds));
    let limit = limits
        .min()
        .map(|limit| Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) });
    let ready = poll(&mut fds, limit.as_ref()) != Ok(0);
    // The read clears the wake-up, so the wake-up counts as an event even if the poll ended by its timeout.
    let woken = rustix::io::read(server.waker, &mut [0u8; 8]).is_ok();
    ready || woken
}
