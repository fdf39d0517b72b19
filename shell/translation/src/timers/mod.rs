//! Timers of protocols whose messages must not be delayed (BFD, CFM, LLDP, LACP, spanning trees). Each datapath that has a port
//! with such a protocol has one timer thread. In dummy mode, where scheduling must not be visible, there is no timer thread:
//! the main thread checks the timers in each turn.
//!
//! The timer thread sleeps until the next timer is due, or until it is woken because a timer is due sooner.

pub mod send;
pub mod wakeup;

use crate::timers::send::send_due;
use crate::upcall::translator::UpcallTranslator;
use datapath::Datapath;
use runtime::{Clock, Module};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use units::Millis;

static LOG: Module = Module::new("ofproto_dpif_monitor");

/// The nice value of the timer thread: it runs before normal threads, but not before kernel threads of nice -20.
const NICE: i32 = -15;

/// The timers of one datapath.
pub struct Timers {
    datapath: Arc<Datapath>,
    translator: Arc<UpcallTranslator>,
    /// The timer thread's clock; `None`: the main thread checks the timers.
    clock: Option<Clock>,
    cores: BTreeSet<u32>,
    thread: Option<JoinHandle<()>>,
}

impl Timers {
    /// The timers of a datapath; with a clock, a timer thread checks them.
    pub fn new(
        datapath: &Arc<Datapath>,
        translator: &Arc<UpcallTranslator>,
        clock: Option<&Clock>,
    ) -> Timers {
        Timers {
            datapath: Arc::clone(datapath),
            translator: Arc::clone(translator),
            clock: clock.cloned(),
            cores: BTreeSet::new(),
            thread: None,
        }
    }

    /// Called by the main thread. With a clock, starts the timer thread when it is needed and ends it when it is not. Without
    /// a clock, checks the timers and returns whether a message was sent.
    pub fn run(&mut self, now: Millis) -> bool {
        let UpcallTranslator { bfd, cfm, lldp, lacp, trees, .. } = &*self.translator;
        let has_sessions = !bfd.ports.is_empty() || !cfm.ports.is_empty() || !lldp.ports.is_empty();
        let needed = has_sessions || !lacp.is_empty() || !trees.is_empty();
        match (&self.clock, &self.thread) {
            (None, _) => return needed && send_due_now(&self.translator, &self.datapath, now),
            (Some(clock), None) if needed => self.start(clock.clone()),
            (Some(_), Some(_)) if !needed => self.stop(),
            _ => {}
        }
        false
    }

    /// When the main thread has to check the timers next, if there is no timer thread.
    pub fn deadline(&self) -> Option<Millis> {
        deadline(&self.translator).filter(|_| self.clock.is_none())
    }

    /// Pins the thread to these cores.
    pub fn pin_to_cores(&mut self, cores: &BTreeSet<u32>) {
        if self.cores != *cores {
            self.cores = cores.clone();
            self.translator.wakeup.requests().cores = Some(cores.clone());
            self.translator.wakeup.condvar.notify_one();
        }
    }

    fn start(&mut self, clock: Clock) {
        let (translator, datapath) = (Arc::clone(&self.translator), Arc::clone(&self.datapath));
        let thread = std::thread::Builder::new().name("timers".to_owned()).spawn(move || {
            runtime::log::set_thread_name("timers");
            runtime::log::never_wait();
            runtime::info!(LOG, "monitor thread created");
            raise_priority();
            serve(&translator, &datapath, &clock);
            runtime::info!(LOG, "monitor thread terminated");
        });
        match thread {
            Ok(thread) => self.thread = Some(thread),
            Err(e) => runtime::err!(LOG, "timers thread: {}", runtime::error_text(&e)),
        }
    }

    fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        let wakeup = &self.translator.wakeup;
        wakeup.requests().close = true;
        wakeup.condvar.notify_one();
        let _ = thread.join();
        wakeup.requests().close = false;
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Raises the priority of the calling thread, which needs little CPU time, but must run promptly. Without the right to do so,
/// the thread keeps its priority.
fn raise_priority() {
    // For the kernel, process 0 is the calling thread.
    let _ = rustix::process::setpriority_process(None, NICE);
}

/// The loop of the timer thread.
fn serve(translator: &UpcallTranslator, datapath: &Datapath, clock: &Clock) {
    loop {
        runtime::ordered_panic::panic_if_ordered();
        let now = clock.now();
        while send_due_now(translator, datapath, now) {}
        let time = deadline(translator).map(|at| Duration::from_millis(at.since(clock.now()).0));
        if !translator.wakeup.sleep(time) {
            return;
        }
    }
}

/// When the next timer is due.
fn deadline(translator: &UpcallTranslator) -> Option<Millis> {
    let UpcallTranslator { bfd, cfm, lldp, lacp, trees, .. } = translator;
    let sessions = [bfd.ports.deadline(), cfm.ports.deadline(), lldp.ports.deadline()];
    sessions.into_iter().chain([lacp.deadline(), trees.deadline()]).flatten().min()
}

/// Sends the messages that are due. Returns whether there were any.
fn send_due_now(translator: &UpcallTranslator, datapath: &Datapath, now: Millis) -> bool {
    send_due(translator, datapath, now)
}
