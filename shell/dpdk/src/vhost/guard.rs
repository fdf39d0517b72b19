//! Workers that write to what a peer gave.
//!
//! A worker notifies a guest by an event counter, and asks for translations by a socket. [`never_block`] makes the
//! counter non-blocking; a peer that keeps its own copy of the descriptor can undo that, and fill it. A worker that waits
//! there is seen by the front ([`is_writing`]) and interrupted ([`interrupt`]); its guest's connection ends.

use dpdk_sys as sys;
use std::ffi::c_int;
use std::sync::Once;

/// For the event counter by which ring `ring` notifies the guest. To be called from a callback with this number.
pub(super) fn never_block(vid: c_int, ring: u16) {
    // SAFETY: all zeros are valid for this structure of numbers and pointers.
    let mut vring: sys::rte_vhost_vring = unsafe { std::mem::zeroed() };
    // SAFETY: the number is valid in a callback; the facts are copied to `vring`.
    if unsafe { sys::rte_vhost_get_vhost_vring(vid, ring, &mut vring) } != 0 || vring.callfd < 0 {
        return;
    }
    // SAFETY: flags of a descriptor that the library holds open while it calls us.
    unsafe {
        let flags = libc::fcntl(vring.callfd, libc::F_GETFL);
        if flags >= 0 && flags & libc::O_NONBLOCK == 0 {
            libc::fcntl(vring.callfd, libc::F_SETFL, flags | libc::O_NONBLOCK);
        }
    }
}

/// Whether this thread of ours waits in a call that writes.
pub(super) fn is_writing(thread: c_int) -> bool {
    // "running", or the number of the call and its arguments (proc_pid_syscall(5)).
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).unwrap_or_default();
    let call = text.split(' ').next().and_then(|number| number.parse().ok());
    call.is_some_and(|call: libc::c_long| [libc::SYS_write, libc::SYS_sendmsg].contains(&call))
}

/// Ends the call of the kernel that this thread of ours waits in, if that can be ended: it fails.
pub(super) fn interrupt(thread: c_int) {
    extern "C" fn nothing(_: c_int) {}
    static HANDLER: Once = Once::new();
    HANDLER.call_once(|| {
        // SAFETY: all zeros are valid for this structure; a handler that does nothing may run anywhere. Calls are not begun
        // anew after it (no SA_RESTART).
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as *const () as usize;
            libc::sigaction(libc::SIGRTMIN(), &action, std::ptr::null_mut());
        }
    });
    // SAFETY: sends a signal that has a handler. If the thread has ended, there is none of that number in this process.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGRTMIN()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    #[test]
    fn who_waits_to_write_is_found_and_interrupted() {
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
