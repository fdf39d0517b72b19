//! The program `ovsdb-server`: command line, control commands, configuration file, the loop.
//!
//! It takes the place of Open vSwitch's program of the name. Replication, relays and clusters are not part of it and are
//! refused with a sentence.

mod config;
mod control;
mod options;

use crate::server::{Heard, Server};
use config::Wanted;
use control::Control;
use options::Options;
use runtime::daemon::{self, DaemonArgs};
use runtime::memory::MemoryMonitor;
use runtime::signals::Signals;
use runtime::{Clock, Dirs, Module, PollLoop, WaitSet, Waker};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::mpsc::{Receiver, channel};

static LOG: Module = Module::new("ovsdb_server");

/// Runs the program to its end.
pub fn main(argv: &[String], dirs: &Dirs) -> ExitCode {
    match run(argv, dirs) {
        Ok(code) => code,
        Err(text) => {
            eprintln!("{}: {text}", dirs.progname);
            ExitCode::FAILURE
        }
    }
}

fn run(argv: &[String], dirs: &Dirs) -> Result<ExitCode, String> {
    let daemon_args = DaemonArgs::parse(argv.get(1..).unwrap_or_default(), dirs)?;
    if daemon_args.help {
        print!("{}", options::usage(dirs));
        return Ok(ExitCode::SUCCESS);
    }
    if daemon_args.version {
        println!("{}", runtime::version_text(&dirs.progname));
        return Ok(ExitCode::SUCCESS);
    }
    let options = Options::parse(&daemon_args.rest, dirs)?;
    let clock = Clock::new();
    runtime::log::init(&dirs.progname, &clock);
    daemon_args.apply_log()?;
    let mut daemon = daemon::start(&daemon_args)?;
    let signals = Signals::install().map_err(|e| runtime::error_text(&e))?;
    let poll = PollLoop::new(clock.clone()).map_err(|e| runtime::error_text(&e))?;

    let mut server = Server::new(&dirs.run);
    server.set_tls(options.tls.clone());
    let mut wanted = Wanted::first(&options, daemon.state(), daemon_args.detach && !daemon_args.no_chdir)?;
    if let Err(text) = wanted.apply(&mut server) {
        runtime::debug!(LOG, "{text}");
        return Err("server configuration failed".to_owned());
    }
    server.run(&Heard::default(), clock.now());
    let mut control = Control::open(&daemon_args, dirs, wanted)?;
    let child = options.run.as_deref().map(|command| start_child(command, poll.waker())).transpose()?;
    daemon.ready();
    if child.is_none() {
        runtime::info!(LOG, "{}", runtime::version_text(&dirs.progname));
    }

    let mut heard = Heard::default();
    let mut memory = MemoryMonitor::new(&clock);
    loop {
        let now = clock.now();
        if memory.run(&clock) {
            let report = runtime::memory::report(&control::usage(&server));
            runtime::info!(LOG, "{report}");
        }
        runtime::coverage::run(now);
        if control.run(&mut server) {
            return Ok(ExitCode::SUCCESS);
        }
        server.run(&heard, now);
        if let Some(status) = child.as_ref().and_then(|ended| ended.try_recv().ok()) {
            return end_of_child(options.run.as_deref().unwrap_or_default(), status);
        }
        if let Some(signal) = signals.received() {
            runtime::info!(LOG, "ending on signal {signal}");
            return Ok(ExitCode::SUCCESS);
        }
        let mut set = WaitSet::new();
        let waits = server.wait(&mut set, now);
        control.wait(&mut set);
        signals.wait(&mut set);
        set.deadline(memory.deadline());
        heard = waits.heard(&poll.block(set));
    }
}

/// `--run`: starts the command; its end is told in the channel.
fn start_child(command: &str, waker: Waker) -> Result<Receiver<ExitStatus>, String> {
    let failed =
        |e: std::io::Error| format!("{command}: process failed to start ({})", runtime::error_text(&e));
    let mut child = Command::new("/bin/sh").args(["-c", command]).spawn().map_err(failed)?;
    let (tell, ended) = channel();
    let wait = move || {
        if let Ok(status) = child.wait() {
            // A server that is ending itself does not listen.
            _ = tell.send(status);
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
