//! The program `ovsdb-server`: command line, control commands, configuration file, main loop.
//!
//! It replaces Open vSwitch's program of that name. Replication, relays and clusters are not implemented, and are refused
//! with an error message.

mod config;
mod control;
mod options;

use crate::server::{Readable, Server};
use config::Configuration;
use control::Control;
use options::Options;
use runtime::daemon::Capabilities;
use runtime::memory::MemoryMonitor;
use runtime::program::{self, Program, Texts};
use runtime::{Dirs, Module, WaitSet, Waker};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use units::Millis;

static LOG: Module = Module::new("ovsdb_server");

/// While there is other work, the control socket is checked in this interval, in ms.
const CONTROL_INTERVAL_MS: u64 = 50;

/// Runs the program until it ends.
pub fn main(argv: &[String], dirs: &Dirs) -> ExitCode {
    program::end(dirs, run(argv, dirs))
}

fn run(argv: &[String], dirs: &Dirs) -> Result<ExitCode, String> {
    let texts = Texts { usage: options::usage, version: |dirs| runtime::version_text(&dirs.progname) };
    let started =
        program::start(argv, dirs, texts, |rest| Ok((Options::parse(rest, dirs)?, Capabilities::empty())))?;
    let Some(Program { args, options, clock, mut daemon, signals, poll }) = started else {
        return Ok(ExitCode::SUCCESS);
    };

    let mut server = Server::new(&dirs.run, options.limits);
    server.set_tls(options.tls.clone());
    let mut configuration = Configuration::at_start(&options, daemon.state(), args.detach && !args.no_chdir)?;
    if let Err(text) = configuration.apply(&mut server) {
        runtime::debug!(LOG, "{text}");
        return Err("server configuration failed".to_owned());
    }
    server.run(&Readable::default(), clock.now());
    let mut control = Control::open(&args, dirs, configuration)?;
    let child = options.run.as_deref().map(|command| start_child(command, poll.waker())).transpose()?;
    daemon.ready();
    if child.is_none() {
        runtime::info!(LOG, "{}", runtime::version_text(&dirs.progname));
    }

    let mut readable = Readable::default();
    let mut control_due = clock.now();
    let mut memory = MemoryMonitor::new(&clock);
    loop {
        let now = clock.now();
        if !server.is_busy() && memory.run(&clock) {
            let report = runtime::memory::report(&control::usage(&mut server));
            runtime::info!(LOG, "{report}");
        }
        runtime::coverage::run(now);
        // Checking for commands costs a system call per socket, so it is done only after an event or once per interval.
        // While a job has the core, commands wait: executing one would block until the job ends.
        if control_due <= now && !server.is_busy() {
            control_due = Millis(now.0 + CONTROL_INTERVAL_MS);
            if control.run(&mut server) {
                return Ok(ExitCode::SUCCESS);
            }
        }
        server.run(&readable, now);
        if !server.is_busy() {
            control.answer_compactions(&mut server);
        }
        if let Some(status) = child.as_ref().and_then(|ended| ended.try_recv().ok()) {
            return end_of_child(options.run.as_deref().unwrap_or_default(), status);
        }
        if let Some(signal) = signals.received() {
            runtime::info!(LOG, "ending on signal {signal}");
            return Ok(ExitCode::SUCCESS);
        }
        let mut set = WaitSet::new();
        let waits = server.wait(&mut set, now);
        let of_control = set.next_token();
        control.wait(&mut set);
        let end_of_control = set.next_token();
        signals.wait(&mut set);
        set.deadline(memory.deadline());
        let ready = poll.block(set);
        if ready.contains_any(of_control, end_of_control) {
            control_due = now;
        }
        readable = waits.readable(&ready);
    }
}

/// Starts the command of `--run`; the returned channel receives its exit status.
fn start_child(command: &str, waker: Waker) -> Result<Receiver<ExitStatus>, String> {
    let failed =
        |e: std::io::Error| format!("{command}: process failed to start ({})", runtime::error_text(&e));
    let mut child = Command::new("/bin/sh").args(["-c", command]).spawn().map_err(failed)?;
    let (sender, ended) = channel();
    let wait = move || {
        if let Ok(status) = child.wait() {
            // Fails if the server is already ending.
            _ = sender.send(status);
        }
        waker.wake();
    };
    std::thread::Builder::new().name("run".into()).spawn(wait).map_err(failed)?;
    Ok(ended)
}

fn end_of_child(command: &str, status: ExitStatus) -> Result<ExitCode, String> {
    match status.success() {
        true => Ok(ExitCode::SUCCESS),
        false => Err(format!("{command}: child exited, {status}")),
    }
}
