//! Safe fork(2) for a process that has only one thread.
//!
//! A forked child has only the thread that called fork. If another thread held a lock at that time, the lock stays locked
//! in the child forever. So a child of a process with several threads cannot continue safely. [`fork`] refuses to fork
//! such a process.

use std::io;

/// The result of [`fork`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkResult {
    /// This process is the child.
    Child,
    /// This process is the parent; the value is the process ID of the child.
    Parent(i32),
    /// The process was not forked: it has other threads, or their number could not be read from /proc.
    HasThreads,
}

/// Forks this process if it has no other thread.
pub fn fork() -> io::Result<ForkResult> {
    if !has_one_thread() {
        return Ok(ForkResult::HasThreads);
    }
    // SAFETY: this is the only thread of the process, and only this thread could start another one. So no lock is held by a
    // thread that does not exist in the child, and both processes may continue with all that they own.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(ForkResult::Child),
        pid => Ok(ForkResult::Parent(pid)),
    }
}

fn has_one_thread() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test harness runs each test in a separate thread, so this process has at least two threads.
    #[test]
    fn a_process_with_threads_does_not_fork() {
        assert_eq!(fork().unwrap(), ForkResult::HasThreads);
    }
}
