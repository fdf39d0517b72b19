//! Workers that block on a descriptor that a peer provided.
//!
//! A worker notifies a guest through an eventfd, and requests address translations through a socket. [`never_block`]
//! makes the eventfd non-blocking, but a peer that keeps its own copy of the descriptor can undo that and fill the
//! counter. The serving thread detects a worker that blocks there ([`is_writing`]), interrupts it ([`interrupt`]), and ends the
//! connection of its guest.

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::sync::Once;

/// Makes an eventfd by which a guest is notified non-blocking.
pub fn never_block(call: BorrowedFd<'_>) {
    if let Ok(flags) = fcntl_getfl(call)
        && !flags.contains(OFlags::NONBLOCK)
    {
        let _ = fcntl_setfl(call, flags | OFlags::NONBLOCK);
    }
}

/// Whether this thread of the process is in a system call that writes.
pub fn is_writing(thread: c_int) -> bool {
    // The file has "running", or the number of the system call and its arguments (proc_pid_syscall(5)).
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).unwrap_or_default();
    let call = text.split(' ').next().and_then(|number| number.parse().ok());
    call.is_some_and(|call: libc::c_long| [libc::SYS_write, libc::SYS_sendmsg].contains(&call))
}

/// Interrupts the system call that this thread of the process is in: it fails with `EINTR`, if it can be interrupted.
pub fn interrupt(thread: c_int) {
    extern "C" fn nothing(_: c_int) {}
    static HANDLER: Once = Once::new();
    HANDLER.call_once(|| {
        // SAFETY: all zeros are valid for this structure; a handler that does nothing may run anywhere. Without
        // SA_RESTART, interrupted calls fail instead of starting again.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as *const () as usize;
            libc::sigaction(libc::SIGRTMIN(), &action, std::ptr::null_mut());
        }
    });
    // SAFETY: sends a signal that has a handler. If the thread has ended, this process has no thread of that number.
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
