//! Guests that take their memory away.
//!
//! A guest's memory is a file that its process shares with us. If that process makes the file shorter, or said that it is
//! longer than it is, touching what is not there raises `SIGBUS`, which ends a process that does not handle it: one
//! guest's process could end the switch. So the signal's handler puts zeros in the place of that whole mapping and the
//! access is done again. That guest's rings are empty from then on; every other port goes on.
//!
//! Only shared mappings of files are mended (nothing of the switch's own is one but DPDK's huge pages, which nobody can
//! make shorter); any other `SIGBUS` ends the process as it always does.
//!
//! The handler runs on whatever thread touched the memory, in the middle of whatever it does: it calls the kernel, uses
//! its stack, and nothing else. The list of mappings is opened beforehand: there may be no descriptor left by then.

use crate::log::{Level, say};
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

static MENDED: AtomicU64 = AtomicU64::new(0);
static TOLD: AtomicU64 = AtomicU64::new(0);

/// `/proc/self/maps`, open for the handler; negative: not yet.
static MAPS: AtomicI32 = AtomicI32::new(-1);

/// Installs the handler, once.
pub(super) fn mend() -> std::io::Result<()> {
    static ONCE: Mutex<()> = Mutex::new(());
    let _one = ONCE.lock().unwrap_or_else(PoisonError::into_inner);
    if MAPS.load(Ordering::Relaxed) < 0 {
        // Open as long as the process lives.
        MAPS.store(File::open("/proc/self/maps")?.into_raw_fd(), Ordering::Relaxed);
        // SAFETY: all zeros are valid for this structure; the handler has the type that SA_SIGINFO asks for and keeps to
        // what a handler may do.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_sigbus as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
        }
    }
    Ok(())
}

/// Says how often it happened since the last call. Not in the handler, which must not log.
pub(super) fn tell() {
    let now = MENDED.load(Ordering::Relaxed);
    let n = now - TOLD.swap(now, Ordering::Relaxed).min(now);
    if n > 0 {
        say(Level::Error, &format!("vhost: memory of a guest was taken away under us ({n} mappings)"));
    }
}

unsafe extern "C" fn on_sigbus(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    /// "Nonexistent physical address" (sigaction(2)); the others are failures of memory itself.
    const BUS_ADRERR: c_int = 2;
    // SAFETY: the kernel gives the information of this signal; the variable is this thread's.
    let (address, code, errno) =
        unsafe { ((*info).si_addr() as usize, (*info).si_code, libc::__errno_location()) };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let mended =
        code == BUS_ADRERR && shared_mapping(address).is_some_and(|(start, end)| replace(start, end));
    if mended {
        MENDED.fetch_add(1, Ordering::Relaxed);
    } else {
        // SAFETY: the access is done again when this returns, and then ends the process.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
    }
    // SAFETY: as above.
    unsafe { *errno = before };
}

/// Puts zeros where `start..end` is mapped.
fn replace(start: usize, end: usize) -> bool {
    let (rights, how) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
    );
    // SAFETY: a mapping of a guest's memory, which no reference of Rust leads into.
    unsafe { libc::mmap(start as *mut c_void, end - start, rights, how, -1, 0) != libc::MAP_FAILED }
}

/// Bounds of the mapping with this address, if it is a shared one of a file.
fn shared_mapping(address: usize) -> Option<(usize, usize)> {
    let mut text = [0u8; 1024];
    let fd = MAPS.load(Ordering::Relaxed);
    let (mut line, mut found, mut at) = (Line::default(), None, 0);
    loop {
        // SAFETY: the buffer is as long as said. At a position of this call's own: other threads may read, too.
        let n = unsafe { libc::pread(fd, text.as_mut_ptr().cast(), text.len(), at) };
        let Ok(n @ 1..) = usize::try_from(n) else { break };
        at += n as libc::off_t;
        for &byte in text.iter().take(n) {
            if byte != b'\n' {
                line.take(byte);
                continue;
            }
            if (line.start..line.end).contains(&address) {
                found = Some((line.start, line.end)).filter(|_| line.shared);
            }
            line = Line::default();
        }
    }
    found
}

/// What is wanted of a line `start-end rwxs …` (proc(5)), read byte by byte: lines may be longer than any buffer.
#[derive(Default)]
struct Line {
    start: usize,
    end: usize,
    shared: bool,
    field: u8,
    at: u8,
}

impl Line {
    fn take(&mut self, byte: u8) {
        let digit = (byte as char).to_digit(16).unwrap_or(0) as usize;
        match (self.field, byte) {
            (0, b'-') | (1, b' ') | (2, b' ') => {
                self.field += 1;
                self.at = 0;
                return;
            }
            (0, _) => self.start = self.start << 4 | digit,
            (1, _) => self.end = self.end << 4 | digit,
            (2, b's') if self.at == 3 => self.shared = true,
            _ => {}
        }
        self.at = self.at.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_taken_away_reads_as_zero() {
        mend().unwrap();
        let len = 64 << 10;
        // SAFETY: a file in memory of our own, mapped, made shorter, and read through a raw pointer.
        unsafe {
            let fd = libc::memfd_create(c"guest".as_ptr(), 0);
            assert_eq!(libc::ftruncate(fd, len), 0);
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let at =
                libc::mmap(std::ptr::null_mut(), len as usize, rights, libc::MAP_SHARED, fd, 0).cast::<u8>();
            at.add(5000).write_volatile(7);
            assert_eq!(shared_mapping(at as usize + 9), Some((at as usize, at as usize + len as usize)));
            assert_eq!(libc::ftruncate(fd, 0), 0);
            assert_eq!(at.add(5000).read_volatile(), 0);
            at.add(len as usize - 1).write_volatile(1);
            libc::munmap(at.cast(), len as usize);
            libc::close(fd);
        }
        assert!(MENDED.load(Ordering::Relaxed) >= 1);
        let local = 0;
        assert_eq!(shared_mapping(&raw const local as usize), None);
    }
}
