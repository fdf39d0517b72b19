//! Guests that truncate their memory: the handler of `SIGBUS`.
//!
//! A guest's memory is a file that its process shares with the switch. If that process truncates the file, or has announced more memory
//! than the file has, an access to the missing part raises `SIGBUS`. By default this ends the process, so one guest could end the switch.
//! Therefore the handler replaces the complete mapping by zeros. When the handler returns, the access is repeated and succeeds. From then
//! on the rings of that guest are empty; all other ports continue.
//!
//! Only shared mappings of files are replaced. Apart from guest memory, the only shared mappings of the switch are DPDK's huge pages, which
//! no other process can truncate. Any other `SIGBUS` ends the process as usual.
//!
//! The handler runs on the thread that accessed the memory, at any point of its code. So it must be async-signal-safe (signal-safety(7)):
//! it only makes system calls and uses its stack. `/proc/self/maps` is opened in advance, because no free file descriptor may be left when
//! the signal is raised.

use crate::log::{Level, say};
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Number of mappings that the handler replaced.
static REPLACED: AtomicU64 = AtomicU64::new(0);
/// The value of `REPLACED` that was logged last.
static LOGGED: AtomicU64 = AtomicU64::new(0);

/// File descriptor of `/proc/self/maps` for the handler; negative: not opened yet.
static MAPS: AtomicI32 = AtomicI32::new(-1);

/// Installs the handler. Further calls do nothing.
pub fn install_handler() -> std::io::Result<()> {
    static ONCE: Mutex<()> = Mutex::new(());
    let _one = ONCE.lock().unwrap_or_else(PoisonError::into_inner);
    if MAPS.load(Ordering::Relaxed) < 0 {
        // The file descriptor stays open until the process ends.
        MAPS.store(File::open("/proc/self/maps")?.into_raw_fd(), Ordering::Relaxed);
        // SAFETY: all zeros are valid for `sigaction`; the handler has the signature for SA_SIGINFO and is async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_sigbus as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
        }
    }
    Ok(())
}

/// Logs how many mappings were replaced since the last call. Called outside the handler, which must not log.
pub fn log_replaced() {
    let now = REPLACED.load(Ordering::Relaxed);
    let n = now - LOGGED.swap(now, Ordering::Relaxed).min(now);
    if n > 0 {
        say(
            Level::Error,
            &format!("vhost: a guest truncated its memory; {n} mappings were replaced by zeros"),
        );
    }
}

/// The signal handler.
unsafe extern "C" fn on_sigbus(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    /// "Nonexistent physical address" (sigaction(2)); the other codes are memory errors of the hardware.
    const BUS_ADRERR: c_int = 2;
    // SAFETY: the kernel passes a valid `siginfo_t`; errno is thread-local.
    let (address, code, errno) =
        unsafe { ((*info).si_addr() as usize, (*info).si_code, libc::__errno_location()) };
    // SAFETY: the pointer to errno is valid as long as this thread exists.
    let before = unsafe { *errno };
    let replaced =
        code == BUS_ADRERR && shared_mapping(address).is_some_and(|(start, end)| replace(start, end));
    if replaced {
        REPLACED.fetch_add(1, Ordering::Relaxed);
    } else {
        // SAFETY: `signal` is async-signal-safe. With the default action restored, the repeated access ends the process.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
    }
    // SAFETY: the pointer to errno is valid as long as this thread exists.
    unsafe { *errno = before };
}

/// Maps zeroed memory over `start..end`.
fn replace(start: usize, end: usize) -> bool {
    let (prot, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
    );
    // SAFETY: the range is a mapping of guest memory, and no Rust reference points into it except to atomic integers, for which all
    // values are valid. The range stays mapped at the same addresses.
    unsafe { libc::mmap(start as *mut c_void, end - start, prot, flags, -1, 0) != libc::MAP_FAILED }
}

/// Returns start and end of the mapping that contains `address` if it is a shared file mapping.
fn shared_mapping(address: usize) -> Option<(usize, usize)> {
    let mut text = [0u8; 1024];
    let fd = MAPS.load(Ordering::Relaxed);
    let (mut line, mut found, mut at) = (Line::default(), None, 0);
    loop {
        // SAFETY: the buffer has `text.len()` bytes. `pread` does not change the offset of the file, which all threads share.
        let n = unsafe { libc::pread(fd, text.as_mut_ptr().cast(), text.len(), at) };
        let Ok(n @ 1..) = usize::try_from(n) else { break };
        at += n as libc::off_t;
        for &byte in text.iter().take(n) {
            if byte != b'\n' {
                line.push(byte);
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

/// One line `start-end rwxs …` of the file (proc(5)). It is parsed byte by byte, because lines can be longer than any buffer.
#[derive(Default)]
struct Line {
    start: usize,
    end: usize,
    shared: bool,
    /// Number of the field that is being parsed.
    field: u8,
    /// Number of characters of this field that were parsed.
    at: u8,
}

impl Line {
    /// Parses the next byte of the line.
    fn push(&mut self, byte: u8) {
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
    fn truncated_memory_reads_as_zero() {
        install_handler().unwrap();
        let len = 64 << 10;
        // SAFETY: a memfd of this test, mapped, truncated, and read through a raw pointer.
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
        assert!(REPLACED.load(Ordering::Relaxed) >= 1);
        let local = 0;
        assert_eq!(shared_mapping(&raw const local as usize), None);
    }
}
