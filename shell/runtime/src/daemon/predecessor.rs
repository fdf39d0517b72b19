//! A process that was killed but has not ended yet.
//!
//! The kernel frees a killed process's memory before it closes its files, which takes a second for some gigabytes of huge
//! pages; then it drops record locks, and last it releases sockets and devices. Until then the process holds them, and its
//! sockets take connections that nothing will serve. A successor that is started at once waits for that end; a process that
//! is alive is not waited for.

use super::log::LOG;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::time::{Duration, Instant};

/// Longest wait: the kernel frees more than 10 GB a second.
const LIMIT: Duration = Duration::from_secs(20);
/// Bit of a process that is on its way out in the flags of `/proc/PID/stat` (`PF_EXITING`).
const EXITING: u64 = 0x4;
/// Bit of SIGKILL in the masks of pending signals.
const KILL: u64 = 1 << 8;

/// Waits until `pid` has ended if it was killed or is ending by itself; false if it is alive, or does not end.
pub fn await_end(pid: u32) -> bool {
    let Some(id) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    if !is_ending(pid) {
        return false;
    }
    let Ok(process) = pidfd_open(id, PidfdFlags::empty()) else { return true };
    crate::info!(LOG, "waiting for pid {pid}, which was killed, to end");
    let limit = Instant::now() + LIMIT;
    loop {
        let left = limit.saturating_duration_since(Instant::now());
        let time = Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos() as _ };
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&time)) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Whether the process can do nothing any more but end. One that is not there has ended.
fn is_ending(pid: u32) -> bool {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}"));
    let (Ok(stat), Ok(status)) = (read("stat"), read("status")) else { return true };
    stat_says_ending(&stat) || status_says_ending(&status)
}

fn stat_says_ending(stat: &str) -> bool {
    // The name in parentheses may hold anything.
    let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let state = fields.next().unwrap_or_default();
    let flags = fields.nth(5).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    matches!(state, "Z" | "X") || flags & EXITING != 0
}

fn status_says_ending(status: &str) -> bool {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let killed = |name| {
        field(name).and_then(|text| u64::from_str_radix(text, 16).ok()).is_some_and(|mask| mask & KILL != 0)
    };
    killed("SigPnd:") || killed("ShdPnd:") || field("CoreDumping:") == Some("1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn signs_of_the_end() {
        assert!(stat_says_ending("7 (a) b) Z 1 7 7 0 -1 4194624 0"));
        assert!(stat_says_ending("7 (sluiced) R 1 7 7 0 -1 4194628 0"));
        assert!(!stat_says_ending("7 (sluiced) S 1 7 7 0 -1 4194624 0"));
        assert!(status_says_ending("Name:\tx\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n"));
        assert!(status_says_ending("CoreDumping:\t1\n"));
        assert!(!status_says_ending("CoreDumping:\t0\nSigPnd:\t0000000000000200\n"));
    }

    #[test]
    fn only_the_dying_are_waited_for() {
        assert!(!await_end(std::process::id()));
        let mut child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
        assert!(!await_end(child.id()));
        child.kill().unwrap();
        assert!(await_end(child.id()));
        child.wait().unwrap();
    }
}
