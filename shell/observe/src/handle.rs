//! The main thread's part: it makes views and traces when the server asks for them.

use crate::build_view::ViewBuilder;
use crate::http::server;
use crate::shared::{Listen, Shared, Trace};
use runtime::{Clock, Dirs, PollLoop, WaitSet, Waker, cpu_time};
use settings::root::{METRICS_HOSTS, METRICS_LISTEN};
use std::sync::Arc;
use std::thread::JoinHandle;
use switch::Switch;

/// The server of metrics, as the main thread has it. Dropping it ends the server's thread.
pub struct Observe {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    builder: ViewBuilder,
    serial: u64,
    cost: u64,
    listen: Listen,
}

impl Observe {
    /// Starts the server. Its Unix socket is `PROGRAM.metrics.sock` in the run directory. If the socket cannot be made, the log says
    /// why, and the switch works without it. `main` wakes the main loop.
    pub fn start(dirs: &Dirs, main: Waker) -> std::io::Result<Observe> {
        // The server has a clock of its own, because a test may stop the switch's clock.
        let poll = PollLoop::new(Clock::new())?;
        let shared = Arc::new(Shared::new(main, poll.waker()));
        let (theirs, path) = (Arc::clone(&shared), dirs.in_run(&format!("{}.metrics.sock", dirs.progname)));
        let thread = std::thread::Builder::new().name("observe".to_owned()).spawn(move || {
            runtime::log::set_thread_name("observe");
            server::run(&theirs, &poll, &path);
        })?;
        Ok(Observe {
            shared,
            thread: Some(thread),
            builder: ViewBuilder::default(),
            serial: 0,
            cost: 0,
            listen: Listen::default(),
        })
    }

    /// Applies `metrics-listen`, and makes a slice of a view if the server wants one. Called once in each turn of the main loop.
    pub fn run(&mut self, switch: &mut Switch) {
        let set = &switch.applied.other_config;
        let listen = Listen::new(METRICS_LISTEN.get(set), METRICS_HOSTS.get(set));
        if listen != self.listen {
            self.listen = listen;
            self.shared.set_listen(self.listen.clone());
        }
        if !self.shared.is_wanted() && !self.builder.is_running() {
            return;
        }
        let start = cpu_time::thread_time();
        let done = self.builder.run(switch);
        self.cost += cpu_time::thread_time().saturating_sub(start);
        if let Some(mut view) = done {
            self.serial += 1;
            (view.serial, view.cost) = (self.serial, self.cost);
            self.shared.publish(view);
        }
    }

    /// The next trace that a client asks for.
    pub fn next_trace(&self) -> Option<Trace> {
        self.shared.next_trace()
    }

    /// Adds what ends the next sleep of the main loop.
    pub fn wait(&self, set: &mut WaitSet<'_>) {
        if self.builder.is_running() {
            set.wake_now();
        }
    }
}

impl Drop for Observe {
    fn drop(&mut self) {
        self.shared.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
