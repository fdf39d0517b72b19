//! Continues in a child process: fork(2) for a process that has one thread.
//!
//! A forked child has only the thread that called fork. A lock that another thread held then stays locked in the child, so
//! a process with other threads must not continue after a fork. [`fork`] refuses that.

use std::io;

/// What [`fork`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forked {
    /// This is the child.
    Child,
    /// This is the parent, and the process ID of its child.
    Parent(i32),
    /// Nothing: the process has other threads, or /proc does not tell.
    HasThreads,
}

/// Forks this process if it has no other thread.
pub fn fork() -> io::Result<Forked> {
    if !has_one_thread() {
        return Ok(Forked::HasThreads);
    }
    // SAFETY: this thread is the only one, and no other can appear, since only this thread could start it. So no lock is
    // held by a thread that the child lacks, and both processes may continue with whatever they own.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        pid => Ok(Forked::Parent(pid)),
    }
}

fn has_one_thread() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests run in a thread of their own, beside the main thread.
    #[test]
    fn a_process_with_threads_does_not_fork() {
        assert_eq!(fork().unwrap(), Forked::HasThreads);
    }
}
