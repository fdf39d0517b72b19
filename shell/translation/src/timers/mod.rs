//! The clocks of protocols that must not wait for anybody: a thread of its own for each datapath that has such a protocol on
//! a port. In dummy mode, where scheduling must not show, there is none: the main loop looks at the clocks in each turn.
//!
//! The thread sleeps until the next clock is due, or until it is woken because one is due sooner.

pub mod send;
pub mod wakeup;

use crate::timers::send::send_due;
use crate::upcall::handler::Handler;
use datapath::Datapath;
use runtime::{Clock, Module};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use units::Millis;

static LOG: Module = Module::new("ofproto_dpif_monitor");

/// Far before others, and behind what the kernel itself has to do.
const NICE: i32 = -15;

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
        let needed = !self.handler.bfd.is_empty() || !self.handler.lacp.is_empty();
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
        deadline(&self.handler).filter(|_| self.clock.is_none())
    }

    /// The thread stays on these cores.
    pub fn stay_on(&mut self, cores: &BTreeSet<u32>) {
        if self.cores != *cores {
            self.cores = cores.clone();
            self.handler.wakeup.orders().cores = Some(cores.clone());
            self.handler.wakeup.condvar.notify_one();
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
        let wakeup = &self.handler.wakeup;
        wakeup.orders().close = true;
        wakeup.condvar.notify_one();
        let _ = thread.join();
        wakeup.orders().close = false;
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
        let time = deadline(handler).map(|at| Duration::from_millis(at.since(clock.now()).0));
        if !handler.wakeup.sleep(time) {
            return;
        }
    }
}

/// When a clock is due next.
fn deadline(handler: &Handler) -> Option<Millis> {
    [handler.bfd.deadline(), handler.lacp.deadline()].into_iter().flatten().min()
}

/// Does what is due; true if a packet was sent.
fn look(handler: &Handler, datapath: &Datapath, now: Millis) -> bool {
    send_due(handler, datapath, now)
}
