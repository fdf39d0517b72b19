//! The life cycle of a daemon, tested with the example program: detaching, pidfile, monitor, end.

use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use unixctl::Client;

const TIMEOUT: Duration = Duration::from_secs(20);

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let dir = std::env::temp_dir().join(format!("daemon-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Place(dir)
    }

    fn start(&self, args: &[&str]) -> Output {
        // Cargo puts test programs into `deps`, next to `examples`.
        let here = std::env::current_exe().unwrap();
        let program = here.parent().and_then(Path::parent).unwrap().join("examples/daemon");
        let mut command = Command::new(program);
        command.args(args).env("OVS_RUNDIR", &self.0).env("OVS_LOGDIR", &self.0);
        command.output().unwrap()
    }

    fn pidfile(&self) -> PathBuf {
        self.0.join("daemon.pid")
    }

    fn pid(&self) -> Option<u32> {
        runtime::daemon::read_pidfile(&self.pidfile()).ok()
    }

    fn kill(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid().unwrap() as i32).unwrap(), signal).unwrap();
    }

    fn call(&self, method: &str) -> Option<String> {
        self.call_with(method, &[])
    }

    fn call_with(&self, method: &str, args: &[String]) -> Option<String> {
        let path = self.0.join(format!("daemon.{}.ctl", self.pid()?));
        let mut client = Client::connect(&path, Some(TIMEOUT)).ok()?;
        client.call(method, args).ok()?.ok()?.as_str().map(str::to_string)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.0.join("daemon.log")).unwrap_or_default()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.call("exit");
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < TIMEOUT, "never came: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn one_daemon_per_pidfile_and_none_after_the_end() {
    let place = Place::new("single");
    assert!(place.start(&["--detach", "--pidfile"]).status.success());
    assert_eq!(place.call("version").as_deref().map(str::trim_end), Some("daemon (Open vSwitch) 3.7.1"));
    let second = place.start(&["--detach", "--pidfile"]);
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains(&format!("already running as pid {}, aborting", place.pid().unwrap())), "{said}");
    place.kill(Signal::TERM);
    eventually("the end", || !place.pidfile().exists());
    assert_eq!(std::fs::read_dir(&place.0).unwrap().count(), 0);
}

#[test]
fn a_start_that_fails_is_told_through_all_processes() {
    let place = Place::new("failing");
    for how in [&["--detach"][..], &["--detach", "--monitor"]] {
        let out = place.start(&[how, &["--pidfile=/nonexistent/x.pid"]].concat());
        assert_eq!(out.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&out.stderr).contains("create failed (No such file or directory)"));
    }
}

#[test]
fn a_crashed_daemon_is_started_again() {
    let place = Place::new("monitored");
    assert!(place.start(&["--detach", "--monitor", "--pidfile", "--log-file"]).status.success());
    let first = place.pid().unwrap();
    place.kill(Signal::SEGV);
    eventually("the restart", || place.pid().is_some_and(|p| p != first) && place.call("version").is_some());
    place.call("exit");
    eventually("the end", || !place.pidfile().exists());
    let log_says = |text: &str| std::fs::read_to_string(place.0.join("daemon.log")).unwrap().contains(text);
    eventually("the monitor's word", || log_says("died, exit status 0, exiting"));
    assert!(log_says(&format!("1 crashes: pid {first} died, killed (")));
}

/// Panics in the main thread and in the log's writer thread.
#[test]
fn a_panic_is_logged_and_the_daemon_started_again() {
    for thread in ["main", "log"] {
        let place = Place::new(&format!("panic-{thread}"));
        assert!(place.start(&["--detach", "--monitor", "--pidfile", "--log-file"]).status.success());
        let first = place.pid().unwrap();
        place.call_with("panic", &[thread.to_owned()]);
        // Logging something makes the writer call `panic_if_ordered`.
        place.call_with("vlog/set", &["dbg".to_owned()]);
        eventually("the restart", || {
            place.pid().is_some_and(|p| p != first) && place.call("version").is_some()
        });
        let log = place.log();
        let line = format!("|EMER|thread '{thread}' panicked at shell/runtime/src/ordered_panic.rs:");
        assert!(log.contains(&line) && log.contains("ordered a panic in"), "{log}");
        assert!(
            log.contains("|EMER|backtrace, program at 0x") && log.contains("ordered_panic::panic_if_named"),
            "{log}"
        );
        assert!(log.contains(&format!("1 crashes: pid {first} died, killed (signal 6 (SIGABRT))")), "{log}");
    }
}
