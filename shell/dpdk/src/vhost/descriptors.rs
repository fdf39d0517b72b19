//! Descriptors that a front-end sent.
//!
//! A file may belong to a file system that a process of the peer's serves (FUSE), or one over the network: any call on it
//! may wait for ever, `fstat` and `close` included. So a descriptor is classified first, by calls that the kernel answers by
//! itself: `F_GET_SEALS`, which only shmem and hugetlbfs know, and the name of an anonymous inode. What is neither memory,
//! an event counter nor a socket of this host is used for nothing, and closed by a thread of its own.

use super::rules::Objection;
use rustix::fs::{SealFlags, fcntl_add_seals, fcntl_get_seals, readlink};
use rustix::net::{AddressFamily, sockopt};
use std::fmt;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a descriptor leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A file of shmem or hugetlbfs.
    Memory,
    /// An eventfd.
    Event,
    /// A socket of this host.
    Socket,
    /// Whatever else; calls on it may wait for its peer.
    Other,
}

/// Without a call that could wait.
pub(super) fn kind(fd: BorrowedFd<'_>) -> Kind {
    if fcntl_get_seals(fd).is_ok() {
        return Kind::Memory;
    }
    if sockopt::socket_domain(fd) == Ok(AddressFamily::UNIX) {
        return Kind::Socket;
    }
    match readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new()) {
        // No path is equal to it: those begin with a slash.
        Ok(name) if name.as_bytes() == b"anon_inode:[eventfd]" => Kind::Event,
        _ => Kind::Other,
    }
}

const READ_ONLY: SealFlags = SealFlags::WRITE.union(SealFlags::FUTURE_WRITE);

/// Whether this is memory that stays mappable: nobody may make it shorter or read-only from now on, as far as the file
/// allows such seals; one that allows none has none to come.
pub(super) fn pin(fd: BorrowedFd<'_>) -> Result<(), Objection> {
    let seals = fcntl_get_seals(fd).map_err(|_| Objection::Table("a file is neither shmem nor hugetlbfs"))?;
    if !seals.contains(SealFlags::SEAL) {
        // Fails if the peer was faster with a seal of its own; what counts is what is there now.
        let _ = fcntl_add_seals(fd, SealFlags::SHRINK | SealFlags::SEAL);
    }
    let seals = fcntl_get_seals(fd).unwrap_or(READ_ONLY);
    if seals.intersects(READ_ONLY) {
        return Err(Objection::Table("a file is sealed against writing"));
    }
    if !seals.contains(SealFlags::SEAL) {
        return Err(Objection::Table("a file cannot be sealed"));
    }
    Ok(())
}

/// Those of one message, closed on drop by whoever may wait for it.
pub(super) struct Descriptors {
    fds: Vec<OwnedFd>,
    /// How many messages of a port have some that are still being closed.
    closing: Arc<AtomicUsize>,
}

impl Descriptors {
    /// None yet. `closing` counts the messages of the same port some of whose are still being closed.
    pub fn new(closing: &Arc<AtomicUsize>) -> Descriptors {
        Descriptors { fds: Vec::new(), closing: Arc::clone(closing) }
    }

    pub fn push(&mut self, fd: OwnedFd) {
        self.fds.push(fd);
    }

    /// As the kernel takes them to send.
    pub fn borrowed(&self) -> Vec<BorrowedFd<'_>> {
        self.fds.iter().map(AsFd::as_fd).collect()
    }

    /// All of them are of a kind that can be passed on: the library may close any of them.
    pub fn are_harmless(&self) -> bool {
        self.fds.iter().all(|fd| kind(fd.as_fd()) != Kind::Other)
    }
}

impl Deref for Descriptors {
    type Target = [OwnedFd];

    fn deref(&self) -> &[OwnedFd] {
        &self.fds
    }
}

impl fmt::Debug for Descriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fds.fmt(f)
    }
}

impl Drop for Descriptors {
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
        // Held in a box that a thread which cannot be started gives back to nobody: rather open than closed here.
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
    fn kinds_are_told_apart() {
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
        pin(file.as_fd()).unwrap();
        assert!(ftruncate(&file, 4096).is_err());
        assert!(fcntl_add_seals(&file, SealFlags::FUTURE_WRITE).is_err());
        assert!(fcntl_add_seals(&file, SealFlags::WRITE).is_err());
        pin(file.as_fd()).unwrap();
        pin(memory(MemfdFlags::empty()).as_fd()).unwrap();
    }

    #[test]
    fn what_cannot_be_written_or_is_no_memory_is_refused() {
        for seals in [SealFlags::FUTURE_WRITE, SealFlags::WRITE | SealFlags::SEAL] {
            let file = memory(MemfdFlags::ALLOW_SEALING);
            fcntl_add_seals(&file, seals).unwrap();
            assert_eq!(pin(file.as_fd()), Err(Objection::Table("a file is sealed against writing")));
        }
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert_eq!(pin(file.as_fd()), Err(Objection::Table("a file is neither shmem nor hugetlbfs")));
    }

    #[test]
    fn those_that_may_wait_are_closed_elsewhere() {
        let closing = Arc::new(AtomicUsize::new(0));
        let mut some = Descriptors::new(&closing);
        let (reader, writer) = std::io::pipe().unwrap();
        some.push(memory(MemfdFlags::empty()));
        assert!(some.are_harmless());
        some.push(writer.into());
        assert!(!some.are_harmless());
        drop(some);
        let end = std::io::Read::read(&mut &reader, &mut [0]).unwrap();
        assert_eq!(end, 0, "the pipe was closed");
        while closing.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
    }
}
