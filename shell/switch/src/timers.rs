//! The clocks of protocols that must not wait for anybody: a thread of its own for each datapath that has such a protocol on
//! a port. In dummy mode, where scheduling must not show, there is none: the main loop looks at the clocks in each turn.
//!
//! The thread sleeps until the next clock is due, or until the bell is rung because one is due sooner.

use crate::handler::Handler;
use crate::handlers::stay_on;
use datapath::Datapath;
use runtime::{Clock, Module};
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use units::Millis;

static LOG: Module = Module::new("ofproto_dpif_monitor");

/// Far before others, and behind what the kernel itself has to do.
const NICE: i32 = -15;

/// Ends the thread's sleep.
#[derive(Default)]
pub struct Bell {
    state: Mutex<Order>,
    rung: Condvar,
}

/// What the thread is to do.
#[derive(Default)]
struct Order {
    /// Look at the clocks.
    look: bool,
    /// End.
    close: bool,
    /// Stay on these cores.
    cores: Option<BTreeSet<u32>>,
}

impl Bell {
    /// A clock may be due sooner than it was.
    pub fn ring(&self) {
        self.order().look = true;
        self.rung.notify_one();
    }

    /// A panic elsewhere leaves the order usable: each change to it is complete in itself.
    fn order(&self) -> MutexGuard<'_, Order> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps for so long, or until it rings; `false`: the thread is to end.
    fn sleep(&self, time: Option<Duration>) -> bool {
        let mut order = self.order();
        if !order.look && !order.close && order.cores.is_none() {
            order = match time {
                Some(time) => self.rung.wait_timeout(order, time).unwrap_or_else(PoisonError::into_inner).0,
                None => self.rung.wait(order).unwrap_or_else(PoisonError::into_inner),
            };
        }
        order.look = false;
        if let Some(cores) = order.cores.take() {
            stay_on(&cores);
        }
        !order.close
    }
}

/// See the module.
pub struct Timers {
    datapath: Arc<Datapath>,
    handler: Arc<Handler>,
    /// For the thread; `None`: there is to be none.
    clock: Option<Clock>,
    cores: BTreeSet<u32>,
    thread: Option<JoinHandle<()>>,
}

impl Timers {
    /// Those of a datapath; with a clock they have a thread.
    pub fn new(datapath: &Arc<Datapath>, handler: &Arc<Handler>, clock: Option<&Clock>) -> Timers {
        Timers {
            datapath: Arc::clone(datapath),
            handler: Arc::clone(handler),
            clock: clock.cloned(),
            cores: BTreeSet::new(),
            thread: None,
        }
    }

    /// The main loop's part: without a thread it looks at the clocks, else it sees to it that there is one if there is
    /// anything for it to do. True if anything was done.
    pub fn run(&mut self, now: Millis) -> bool {
        let needed = !self.handler.bfd.is_empty();
        match (&self.clock, &self.thread) {
            (None, _) => return needed && look(&self.handler, &self.datapath, now),
            (Some(clock), None) if needed => self.start(clock.clone()),
            (Some(_), Some(_)) if !needed => self.stop(),
            _ => {}
        }
        false
    }

    /// When the main loop has to look again, if it is who looks.
    pub fn deadline(&self) -> Option<Millis> {
        self.handler.bfd.deadline().filter(|_| self.clock.is_none())
    }

    /// The thread stays on these cores.
    pub fn stay_on(&mut self, cores: &BTreeSet<u32>) {
        if self.cores != *cores {
            self.cores = cores.clone();
            self.handler.bfd.bell.order().cores = Some(cores.clone());
            self.handler.bfd.bell.rung.notify_one();
        }
    }

    fn start(&mut self, clock: Clock) {
        let (handler, datapath) = (Arc::clone(&self.handler), Arc::clone(&self.datapath));
        let thread = std::thread::Builder::new().name("timers".to_owned()).spawn(move || {
            runtime::log::set_thread_name("timers");
            runtime::log::never_wait();
            runtime::info!(LOG, "monitor thread created");
            come_first();
            serve(&handler, &datapath, &clock);
            runtime::info!(LOG, "monitor thread terminated");
        });
        match thread {
            Ok(thread) => self.thread = Some(thread),
            Err(e) => runtime::err!(LOG, "timers thread: {}", runtime::error_text(&e)),
        }
    }

    fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        let bell = &self.handler.bfd.bell;
        bell.order().close = true;
        bell.rung.notify_one();
        let _ = thread.join();
        bell.order().close = false;
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Among threads that want the same processor the calling one comes first: it wants little of it, and that soon. Who has no
/// right to say so takes his turn.
fn come_first() {
    // The 0th process is the calling thread to the kernel.
    let _ = rustix::process::setpriority_process(None, NICE);
}

/// The thread.
fn serve(handler: &Handler, datapath: &Datapath, clock: &Clock) {
    loop {
        runtime::ordered_panic::obey();
        let now = clock.now();
        while look(handler, datapath, now) {}
        let time = handler.bfd.deadline().map(|at| Duration::from_millis(at.since(clock.now()).0));
        if !handler.bfd.bell.sleep(time) {
            return;
        }
    }
}

/// Does what is due; true if a packet was sent.
fn look(handler: &Handler, datapath: &Datapath, now: Millis) -> bool {
    crate::bfd::send_due(handler, datapath, now)
}
