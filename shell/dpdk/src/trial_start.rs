//! Tries to start DPDK's environment (EAL) in a child process first.
//!
//! On some errors DPDK ends the process: an argument that it interprets as a request for help, memory that it cannot map,
//! a driver that fails. So the program first starts itself (`/proc/self/exe`) with a hidden first argument and the
//! environment's arguments. This child starts the environment without probing PCI devices (which must be probed
//! only once), reports success on its standard output, and exits. Only then the program itself starts the environment.
//! The child logs to its standard error, each line preceded by its level.

use crate::bring_up::bring_up;
use crate::log::{self, Level};
use dpdk_sys as sys;
use rustix::fs::MemfdFlags;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The hidden argument.
const TRIAL_ARGUMENT: &str = "--dpdk-role=trial";
/// The line that the child writes when its environment is initialized.
const UP: &str = "dpdk is up\n";
/// Maximum number of bytes that are read from the end of the child's output.
const OUTPUT_MAX: u64 = 64 * 1024;
/// Interval at which the parent checks whether the child has exited.
const PAUSE: Duration = Duration::from_millis(5);

/// Must be called first in `main`. If this process is a child of `run_trial`, runs the trial and returns the exit code.
pub fn run_if_child(argv: &[String]) -> Option<ExitCode> {
    let (role, words) = argv.get(1..)?.split_first()?;
    (role == TRIAL_ARGUMENT).then(|| run_trial_child(argv.first(), words))
}

/// The child's part of a trial: starts the environment and reports the result.
fn run_trial_child(program: Option<&String>, words: &[String]) -> ExitCode {
    // The child must not outlive its parent. If it crashes, its memory must not be written to a core file.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
    if let Err(text) = sys::library::load() {
        eprintln!("<{}>{text}", Level::Error as u8);
        return ExitCode::FAILURE;
    }
    log::set_sink(|_, level, line| eprintln!("<{}>{line}", level as u8));
    let words: Vec<String> = program.into_iter().chain(words).cloned().collect();
    if let Err(text) = bring_up(&words) {
        // If there are severe messages, they are logged already and explain more.
        if log::severe().is_empty() {
            eprintln!("<{}>{text}", Level::Error as u8);
        }
        return ExitCode::FAILURE;
    }
    let mut out = std::io::stdout();
    let _ = out.write_all(UP.as_bytes()).and_then(|()| out.flush());
    // SAFETY: the environment is initialized, and no other thread uses it. This call also removes its files.
    unsafe { sys::rte_eal_cleanup() };
    ExitCode::SUCCESS
}

/// The result of a trial start.
pub(crate) struct Outcome {
    /// The child's log: level and text of each line.
    pub lines: Vec<(Level, String)>,
    /// Why the start failed; `None` if it succeeded.
    pub failure: Option<String>,
}

/// Starts the environment in a child process. The child is killed after `limit`.
pub(crate) fn run_trial(words: &[String], limit: Duration) -> Outcome {
    let failed = |text: String| Outcome { lines: Vec::new(), failure: Some(text) };
    let file = |name| rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC).map(File::from);
    let (Ok(mut out), Ok(mut err)) = (file("dpdk-output"), file("dpdk-log")) else {
        return failed("cannot create memory files for the output of the trial process".to_owned());
    };
    let child = match launch(words, &out, &err) {
        Ok(child) => child,
        Err(e) => return failed(format!("cannot start this program again ({e})")),
    };
    let ended = wait(child, limit);
    let lines = log_lines(&end_of(&mut err));
    let failure = match ended {
        // The environment was initialized. A failure of the child afterwards does not matter.
        Some(_) if end_of(&mut out).ends_with(UP) => None,
        Some(status) => Some(failure_reason(&lines, &status_text(status))),
        None => Some(failure_reason(
            &lines,
            &format!("the environment was not initialized after {} seconds", limit.as_secs()),
        )),
    };
    Outcome { lines, failure }
}

fn launch(words: &[String], out: &File, err: &File) -> std::io::Result<Child> {
    let (program, words) = words.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0(program).arg(TRIAL_ARGUMENT).args(words);
    if !words.iter().any(|w| w == "--no-pci") {
        command.arg("--no-pci");
    }
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(err.try_clone()?).spawn()
}

/// Waits until the child exits; `None`: it was killed, after `limit` or because waiting failed.
fn wait(mut child: Child, limit: Duration) -> Option<ExitStatus> {
    let started = Instant::now();
    while started.elapsed() < limit {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) => std::thread::sleep(PAUSE),
            Err(_) => break,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

fn end_of(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let size = file.metadata().map_or(0, |m| m.len());
    let at = SeekFrom::Start(size.saturating_sub(OUTPUT_MAX));
    let _ = file.seek(at).and_then(|_| file.take(OUTPUT_MAX).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Parses log lines with their levels. A line without a level was printed by a library, so it counts as an error.
fn log_lines(text: &str) -> Vec<(Level, String)> {
    let line = |line: &str| {
        let marked = line.strip_prefix('<').and_then(|l| l.split_once('>'));
        match marked.and_then(|(n, rest)| Some((n.parse::<u32>().ok()?, rest))) {
            Some((n, rest)) => (Level::from_number(n), rest.to_owned()),
            None => (Level::Error, line.to_owned()),
        }
    };
    text.lines().filter(|l| !l.trim().is_empty()).map(line).collect()
}

/// The last severe messages; if there are none, `end`, which describes how the child ended.
fn failure_reason(lines: &[(Level, String)], end: &str) -> String {
    let mut kept = Vec::new();
    lines
        .iter()
        .filter(|(level, _)| *level <= Level::Error)
        .for_each(|(_, line)| log::store_severe(&mut kept, line));
    if kept.is_empty() { end.to_owned() } else { kept.join("; ") }
}

fn status_text(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(0), _) => "DPDK ends the process instead of starting, as for --help".to_owned(),
        (Some(code), _) => format!("DPDK ends the process with status {code}"),
        (None, Some(signal)) => format!("DPDK ends the process by signal {signal}"),
        _ => "DPDK ends the process".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_made_of_grave_lines() {
        let lines =
            log_lines("<7>EAL: hello\nsluiced: unrecognized option '--x'\n\n<4>EAL: Invalid\n<x>odd\n");
        assert_eq!(lines[0], (Level::Info, "EAL: hello".to_owned()));
        assert_eq!(lines[2], (Level::Error, "EAL: Invalid".to_owned()));
        assert_eq!(failure_reason(&lines, "end"), "sluiced: unrecognized option '--x'; EAL: Invalid; <x>odd");
        assert_eq!(failure_reason(&lines[..1], "end"), "end");
    }

    #[test]
    fn a_child_that_does_not_come_up_is_a_failure() {
        // The program that is started again is this test binary, which does not know the argument.
        let outcome = run_trial(&["test".to_owned(), "-m".to_owned()], Duration::from_secs(20));
        assert!(outcome.failure.is_some());
        assert!(outcome.lines.iter().all(|(level, _)| *level == Level::Error));
    }

    #[test]
    fn only_the_hidden_argument_makes_a_child() {
        assert!(run_if_child(&["sluiced".to_owned(), "--version".to_owned()]).is_none());
        assert!(run_if_child(&[]).is_none());
    }
}
