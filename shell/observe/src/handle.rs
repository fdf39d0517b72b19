//! The main thread's handle of the metrics server: builds views when the server requests them.

use crate::build_view::ViewBuilder;
use crate::http::server;
use crate::shared::{ListenSettings, PendingQuestion, Shared};
use runtime::{Clock, Dirs, PollLoop, WaitSet, Waker, cpu_time};
use settings::root::{METRICS_HOSTS, METRICS_LISTEN};
use std::sync::Arc;
use std::thread::JoinHandle;
use switch::Switch;

/// The main thread's handle of the metrics server. Dropping it ends the server's thread.
pub struct MetricsServer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    builder: ViewBuilder,
    /// Number of the last view.
    serial: u64,
    /// CPU time of the main thread for all views, in ns.
    cost: u64,
    /// The settings that were last applied.
    listen: ListenSettings,
}

impl MetricsServer {
    /// Starts the server. Its Unix socket is `PROGRAM.metrics.sock` in the run directory. If the socket cannot be created, the
    /// server logs the reason, runs without the socket, and tries again every 10 s. `main`: wakes the main loop.
    pub fn start(dirs: &Dirs, main: Waker) -> std::io::Result<MetricsServer> {
        // The server has its own clock, because tests stop the switch's clock.
        let poll = PollLoop::new(Clock::new())?;
        let shared = Arc::new(Shared::new(main, poll.waker()));
        let (shared_with_server, path) =
            (Arc::clone(&shared), dirs.in_run(&format!("{}.metrics.sock", dirs.progname)));
        let thread = std::thread::Builder::new().name("observe".to_owned()).spawn(move || {
            runtime::log::set_thread_name("observe");
            server::run(&shared_with_server, &poll, &path);
        })?;
        Ok(MetricsServer {
            shared,
            thread: Some(thread),
            builder: ViewBuilder::default(),
            serial: 0,
            cost: 0,
            listen: ListenSettings::default(),
        })
    }

    /// Applies `metrics-listen`, and builds a slice of a view if the server has requested one. Called in each turn of the main
    /// loop.
    pub fn run(&mut self, switch: &mut Switch) {
        let set = &switch.applied.other_config;
        let listen = ListenSettings::new(METRICS_LISTEN.get(set), METRICS_HOSTS.get(set));
        if listen != self.listen {
            self.listen = listen;
            self.shared.set_listen(self.listen.clone());
        }
        if !self.shared.is_view_requested() && !self.builder.is_running() {
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

    /// The next question of a client to the main thread.
    pub fn next_question(&self) -> Option<PendingQuestion> {
        self.shared.next_question()
    }

    /// Makes the main loop continue without a sleep while a view is in progress.
    pub fn wait(&self, set: &mut WaitSet<'_>) {
        if self.builder.is_running() {
            set.wake_now();
        }
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.shared.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
