//! Workers that block on a file descriptor that a peer sent.
//!
//! A worker notifies a guest through an eventfd. With DPDK's library it also requests address translations through a socket.
//! [`make_call_fd_nonblocking`] makes the eventfd non-blocking, but a peer that keeps its own copy of the file descriptor can undo that and fill the
//! counter. The serving thread detects a worker that blocks in such a write ([`is_writing`]), interrupts it ([`interrupt`]), and ends
//! the connection of its guest.

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::sync::Once;

/// Makes the eventfd by which a guest is notified non-blocking.
pub fn make_call_fd_nonblocking(call: BorrowedFd<'_>) {
    if let Ok(flags) = fcntl_getfl(call)
        && !flags.contains(OFlags::NONBLOCK)
    {
        let _ = fcntl_setfl(call, flags | OFlags::NONBLOCK);
    }
}

/// Whether this thread of the process is in a system call that writes (`write` or `sendmsg`).
pub fn is_writing(thread: c_int) -> bool {
    // The file contains "running", or the number and the arguments of the system call (proc_pid_syscall(5)).
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).unwrap_or_default();
    let call = text.split(' ').next().and_then(|number| number.parse().ok());
    call.is_some_and(|call: libc::c_long| [libc::SYS_write, libc::SYS_sendmsg].contains(&call))
}

/// Interrupts the present system call of this thread of the process: the call fails with `EINTR` if it can be interrupted.
pub fn interrupt(thread: c_int) {
    extern "C" fn nothing(_: c_int) {}
    static HANDLER: Once = Once::new();
    HANDLER.call_once(|| {
        // SAFETY: all zeros are valid for `sigaction`; a handler that does nothing is async-signal-safe. Without SA_RESTART, interrupted
        // calls fail and are not restarted.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as *const () as usize;
            libc::sigaction(libc::SIGRTMIN(), &action, std::ptr::null_mut());
        }
    });
    // SAFETY: the signal has a handler, so it does not end the process. If the thread has ended, `tgkill` finds no thread with this
    // number in this process.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGRTMIN()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    #[test]
    fn a_thread_blocked_in_a_write_is_found_and_interrupted() {
        let counter = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
        rustix::io::write(&*counter, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let writer = Arc::clone(&counter);
        let writer = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            rustix::io::write(&*writer, &1u64.to_ne_bytes())
        });
        let (thread, start) = (told.recv().unwrap(), Instant::now());
        while !is_writing(thread) {
            assert!(start.elapsed() < Duration::from_secs(20));
            std::thread::yield_now();
        }
        assert!(!is_writing(rustix::thread::gettid().as_raw_nonzero().get()));
        interrupt(thread);
        assert_eq!(writer.join().unwrap(), Err(rustix::io::Errno::INTR));
    }
}
