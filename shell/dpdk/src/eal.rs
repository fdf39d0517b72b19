//! DPDK's environment abstraction layer (EAL), "the environment": memory, buses, DPDK's own threads.
//!
//! The environment is started once per process, on a thread of its own, because it pins the starting thread to its main lcore.
//! That thread then sleeps for ever, so the affinity of no other thread changes. A failed start cannot be repeated, and
//! some errors would end the process, so a child process tries the start first: see `trial_start`.

use crate::args::{self, Arguments, Machine};
use crate::bring_up::bring_up;
use crate::log::{self, Level, Note, Origin, Sink};
use crate::memory_headroom;
use crate::settings::{self, Settings};
use crate::trial_start;
use dpdk_sys as sys;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Time limit of a start. Clearing many gigabytes of huge pages takes long.
const LIMIT: Duration = Duration::from_secs(60);

static INITIALIZED: AtomicBool = AtomicBool::new(false);
static STARTED: AtomicBool = AtomicBool::new(false);

/// Whether the environment is initialized. If so, it stays initialized until the process ends.
pub fn initialized() -> bool {
    INITIALIZED.load(Ordering::Acquire)
}

/// DPDK's version, for example `DPDK 22.11.11`.
pub fn version() -> String {
    format!("DPDK {}", sys::library::VERSION)
}

/// Options of the environment's start.
#[derive(Clone, Debug)]
pub struct EalOptions {
    /// The program's name in log messages.
    pub program: String,
    /// `Open_vSwitch.other_config`.
    pub config: BTreeMap<String, String>,
    /// The run directory, for sockets.
    pub rundir: PathBuf,
    /// The function that receives DPDK's log messages and the switch's messages about DPDK.
    pub sink: Sink,
}

/// Why the environment could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EalError(String);

impl fmt::Display for EalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EalError {}

/// Starts the environment. Blocks until it is initialized or the start has failed. A second call in a process fails.
pub fn init(options: &EalOptions) -> Result<(), EalError> {
    if STARTED.swap(true, Ordering::AcqRel) {
        return Err(EalError("DPDK was started before in this process".to_owned()));
    }
    sys::library::load().map_err(EalError)?;
    let log_notes = |origin: Origin, notes: Vec<Note>| {
        notes.iter().for_each(|n| (options.sink)(origin, n.level, &n.text));
    };
    let Arguments { words, notes } = Arguments::new(&options.program, &options.config, &Machine::read());
    log_notes(Origin::Environment, notes);
    (options.sink)(Origin::Environment, Level::Info, &format!("EAL ARGS: {}", words.join(" ")));
    if args::is_secondary(&words) {
        return Err(EalError("a secondary process of DPDK cannot run the switch".to_owned()));
    }
    run_trial(&words, options.sink).map_err(EalError)?;
    let (settings, notes) = Settings::read(&options.config, &options.rundir);
    memory_headroom::record_arguments(&words);
    start(words, options.sink).map_err(EalError)?;
    log_notes(Origin::Ports, notes);
    settings::set_settings(settings);
    INITIALIZED.store(true, Ordering::Release);
    Ok(())
}

fn run_trial(words: &[String], sink: Sink) -> Result<(), String> {
    let outcome = trial_start::run_trial(words, LIMIT);
    // If the trial succeeds, its lines are not logged, because the real start logs the same lines.
    if outcome.failure.is_some() {
        outcome.lines.iter().for_each(|(level, line)| sink(Origin::Environment, *level, line));
    }
    outcome.failure.map_or(Ok(()), Err)
}

/// Starts the environment on a new thread, and waits up to [`LIMIT`] for the result.
fn start(words: Vec<String>, sink: Sink) -> Result<(), String> {
    log::set_sink(sink);
    let (result_tx, result_rx) = mpsc::channel();
    let main_lcore = move || {
        let result = bring_up(&words);
        let up = result.is_ok();
        let _ = result_tx.send(result);
        // The thread must exist as long as the environment is initialized.
        if up {
            loop {
                std::thread::park();
            }
        }
    };
    let thread = std::thread::Builder::new().name("dpdk-main".to_owned()).spawn(main_lcore);
    thread.map_err(|e| format!("cannot start a thread ({e})"))?;
    let late = || format!("the environment was not initialized after {} seconds", LIMIT.as_secs());
    result_rx.recv_timeout(LIMIT).map_err(|_| late()).flatten()
}
