//! File descriptors that a front-end sent.
//!
//! A file may belong to a file system that the peer serves itself (FUSE) or to a network file system. Any call on such a file may block
//! for ever, including `fstat` and `close`. So a file descriptor is classified first, by calls that the kernel answers by itself:
//! `F_GET_SEALS`, which only shmem and hugetlbfs support, and the name of an anonymous inode. Only memory, eventfds
//! and Unix sockets are used; a separate thread closes all other file descriptors.

use super::rules::Refusal;
use rustix::fs::{SealFlags, fcntl_add_seals, fcntl_get_seals, readlink};
use rustix::net::{AddressFamily, sockopt};
use std::fmt;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The kind of file that a file descriptor refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file of shmem or hugetlbfs.
    Memory,
    /// An eventfd.
    Event,
    /// A Unix socket.
    Socket,
    /// Anything else; calls on it may block.
    Other,
}

/// Classifies a file descriptor by calls that cannot block.
pub fn kind(fd: BorrowedFd<'_>) -> Kind {
    if fcntl_get_seals(fd).is_ok() {
        return Kind::Memory;
    }
    if sockopt::socket_domain(fd) == Ok(AddressFamily::UNIX) {
        return Kind::Socket;
    }
    match readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new()) {
        // No other file has this name: paths begin with a slash.
        Ok(name) if name.as_bytes() == b"anon_inode:[eventfd]" => Kind::Event,
        _ => Kind::Other,
    }
}

const READ_ONLY: SealFlags = SealFlags::WRITE.union(SealFlags::FUTURE_WRITE);

/// Checks that this file is memory, and seals it so that it can neither shrink nor become read-only. A file that is sealed against writing
/// is refused. A file whose seals were already final is accepted without a seal against shrinking: if the guest truncates it, an access
/// raises `SIGBUS` ([`crate::lost_memory`]).
pub fn seal(fd: BorrowedFd<'_>) -> Result<(), Refusal> {
    let seals = fcntl_get_seals(fd).map_err(|_| Refusal::Memory("a file is neither shmem nor hugetlbfs"))?;
    if !seals.contains(SealFlags::SEAL) {
        // Fails if the peer finalizes the seals first. The seals that the file has now decide.
        let _ = fcntl_add_seals(fd, SealFlags::SHRINK | SealFlags::SEAL);
    }
    let seals = fcntl_get_seals(fd).unwrap_or(READ_ONLY);
    if seals.intersects(READ_ONLY) {
        return Err(Refusal::Memory("a file is sealed against writing"));
    }
    if !seals.contains(SealFlags::SEAL) {
        return Err(Refusal::Memory("a file cannot be sealed"));
    }
    Ok(())
}

/// The file descriptors of one message. On drop, those whose `close` may block are closed by a separate thread.
pub struct PeerFds {
    fds: Vec<OwnedFd>,
    /// Number of the port's messages whose file descriptors are still being closed.
    closing: Arc<AtomicUsize>,
}

impl PeerFds {
    /// An empty list. `closing`: the counter of the port's messages whose file descriptors are still being closed.
    pub fn new(closing: &Arc<AtomicUsize>) -> PeerFds {
        PeerFds { fds: Vec::new(), closing: Arc::clone(closing) }
    }

    /// Appends a file descriptor.
    pub fn push(&mut self, fd: OwnedFd) {
        self.fds.push(fd);
    }

    /// The file descriptors as the kernel's `sendmsg` needs them.
    pub fn borrowed(&self) -> Vec<BorrowedFd<'_>> {
        self.fds.iter().map(AsFd::as_fd).collect()
    }

    /// Whether no `close` of these file descriptors can block. Only then they may be passed to the library, which may close them.
    pub fn never_block_on_close(&self) -> bool {
        self.fds.iter().all(|fd| kind(fd.as_fd()) != Kind::Other)
    }
}

impl Deref for PeerFds {
    type Target = [OwnedFd];

    fn deref(&self) -> &[OwnedFd] {
        &self.fds
    }
}

impl fmt::Debug for PeerFds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fds.fmt(f)
    }
}

impl Drop for PeerFds {
    fn drop(&mut self) {
        let all = std::mem::take(&mut self.fds);
        let (harmless, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|fd| kind(fd.as_fd()) != Kind::Other);
        drop(harmless);
        if others.is_empty() {
            return;
        }
        let closing = Arc::clone(&self.closing);
        closing.fetch_add(1, Ordering::Relaxed);
        // If the thread cannot be started, the file descriptors leak: closing them here could block.
        let others = std::mem::ManuallyDrop::new(others);
        let _ = std::thread::Builder::new().name("vhost-close".to_owned()).spawn(move || {
            drop(std::mem::ManuallyDrop::into_inner(others));
            closing.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    fn memory(flags: MemfdFlags) -> OwnedFd {
        let fd = memfd_create("guest", flags).unwrap();
        ftruncate(&fd, 1 << 20).unwrap();
        fd
    }

    #[test]
    fn kinds_are_distinguished() {
        let sockets = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(kind(memory(MemfdFlags::empty()).as_fd()), Kind::Memory);
        assert_eq!(kind(eventfd(0, EventfdFlags::empty()).unwrap().as_fd()), Kind::Event);
        assert_eq!(kind(sockets.0.as_fd()), Kind::Socket);
        assert_eq!(kind(std::net::UdpSocket::bind("127.0.0.1:0").unwrap().as_fd()), Kind::Other);
        assert_eq!(kind(std::fs::File::open("/proc/self/exe").unwrap().as_fd()), Kind::Other);
        assert_eq!(kind(std::io::pipe().unwrap().0.as_fd()), Kind::Other);
    }

    #[test]
    fn pinned_memory_stays_as_long_and_writable() {
        let file = memory(MemfdFlags::ALLOW_SEALING);
        seal(file.as_fd()).unwrap();
        assert!(ftruncate(&file, 4096).is_err());
        assert!(fcntl_add_seals(&file, SealFlags::FUTURE_WRITE).is_err());
        assert!(fcntl_add_seals(&file, SealFlags::WRITE).is_err());
        seal(file.as_fd()).unwrap();
        seal(memory(MemfdFlags::empty()).as_fd()).unwrap();
    }

    #[test]
    fn read_only_files_and_other_kinds_are_refused() {
        for seals in [SealFlags::FUTURE_WRITE, SealFlags::WRITE | SealFlags::SEAL] {
            let file = memory(MemfdFlags::ALLOW_SEALING);
            fcntl_add_seals(&file, seals).unwrap();
            assert_eq!(seal(file.as_fd()), Err(Refusal::Memory("a file is sealed against writing")));
        }
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert_eq!(seal(file.as_fd()), Err(Refusal::Memory("a file is neither shmem nor hugetlbfs")));
    }

    #[test]
    fn descriptors_that_may_block_are_closed_by_another_thread() {
        let closing = Arc::new(AtomicUsize::new(0));
        let mut some = PeerFds::new(&closing);
        let (reader, writer) = std::io::pipe().unwrap();
        some.push(memory(MemfdFlags::empty()));
        assert!(some.never_block_on_close());
        some.push(writer.into());
        assert!(!some.never_block_on_close());
        drop(some);
        let end = std::io::Read::read(&mut &reader, &mut [0]).unwrap();
        assert_eq!(end, 0, "the pipe was closed");
        while closing.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
    }
}
