//! Waits for the end of a predecessor that was killed.
//!
//! The kernel first frees the memory of a killed process, which takes about a second for several gigabytes of huge pages;
//! then it releases record locks, and at last sockets and devices. Until then the sockets of the process still accept
//! connections, which nothing serves. So a successor must wait until the process has ended. It does not wait for a
//! process that is alive.

use super::log::LOG;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::time::{Duration, Instant};

/// Longest wait: enough for 200 GB of memory, because the kernel frees more than 10 GB per second.
const LIMIT: Duration = Duration::from_secs(20);
/// The flag of an exiting process in `/proc/PID/stat` (`PF_EXITING`).
const EXITING: u64 = 0x4;
/// The bit of SIGKILL in the masks of pending signals.
const KILL: u64 = 1 << 8;

/// Waits until `pid` has ended, if it was killed or is exiting; returns false if it is alive, or does not end
/// within `LIMIT`.
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

/// Returns whether the process is exiting or killed; a process that does not exist has ended.
fn is_ending(pid: u32) -> bool {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}"));
    let (Ok(stat), Ok(status)) = (read("stat"), read("status")) else { return true };
    stat_says_ending(&stat) || status_says_ending(&status)
}

fn stat_says_ending(stat: &str) -> bool {
    // The name in parentheses may contain any character.
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
