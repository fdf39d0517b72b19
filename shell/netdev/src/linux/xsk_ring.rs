//! The rings between an AF_XDP socket and the kernel: one side writes, the other reads, without locks.
//!
//! Each ring lies in memory that both have mapped: two counters that only increase (and wrap), flags, and a power of
//! two of entries. The kernel is trusted to order its writes, but not with its values: a counter out of range is
//! replaced by the nearest valid one, so nothing outside of the ring is accessed.
//!
//! Source: Documentation/networking/af_xdp of Linux; linux/if_xdp.h.

use rustix::net::xdp::XdpRingOffset;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

const NEED_WAKEUP: u32 = 1;

/// A packet in the shared memory, `struct xdp_desc`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Desc {
    /// Offset of its first byte in the memory.
    pub addr: u64,
    /// Its length.
    pub len: u32,
    /// Flags.
    pub options: u32,
}

/// Entries of a ring: packets (rx, tx) or addresses of free chunks (fill, completion).
///
/// # Safety
///
/// A type of integers only, so that any bytes are a valid value, with the kernel's layout of the entry.
pub unsafe trait Entry: Copy {}
// SAFETY: an integer.
unsafe impl Entry for u64 {}
// SAFETY: integers without padding, in the order of `struct xdp_desc`.
unsafe impl Entry for Desc {}

/// Memory from `mmap(2)`, unmapped when dropped.
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is memory; it belongs to no thread.
unsafe impl Send for Mapping {}
// SAFETY: a shared mapping only returns its address and length; code that uses the address is unsafe itself.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Private memory of the process, zeroed.
    pub fn anonymous(len: usize) -> io::Result<Mapping> {
        Mapping::new(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    /// A part of the memory that `fd` offers.
    fn of(fd: BorrowedFd<'_>, len: usize, offset: u64) -> io::Result<Mapping> {
        Mapping::new(len, libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd(), offset)
    }

    fn new(len: usize, flags: libc::c_int, fd: libc::c_int, offset: u64) -> io::Result<Mapping> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let hint = std::ptr::null_mut();
        // SAFETY: no address is requested, so no memory in use is replaced.
        let base = unsafe { libc::mmap(hint, len, protection, flags, fd, offset as libc::off_t) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { base, len })
    }

    /// The first byte.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The address of `count` objects of type `T`, if they are inside and aligned.
    fn inside<T>(&self, offset: u64, count: usize) -> io::Result<NonNull<T>> {
        let end =
            size_of::<T>().checked_mul(count).and_then(|n| usize::try_from(offset).ok()?.checked_add(n));
        if end.is_none_or(|end| end > self.len) || !offset.is_multiple_of(align_of::<T>() as u64) {
            return Err(io::Error::from_raw_os_error(libc::EPROTO));
        }
        // SAFETY: `offset` was just found to be inside the mapping.
        Ok(unsafe { self.base.add(offset as usize) }.cast())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made; its owners are gone with it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
    /// The counter that we write.
    ours: u32,
    _memory: Mapping,
    _entries: PhantomData<T>,
}

// SAFETY: the pointers lead into the mapping, which moves along; counters are atomic, entries are reached by `&mut`.
unsafe impl<T: Entry> Send for Ring<T> {}

impl<T: Entry> Ring<T> {
    fn map(fd: BorrowedFd<'_>, page: u64, at: XdpRingOffset, size: u32) -> io::Result<Ring<T>> {
        assert!(size.is_power_of_two());
        let entries = size as usize * size_of::<T>();
        let memory = Mapping::of(fd, usize::try_from(at.desc).unwrap_or(usize::MAX / 2) + entries, page)?;
        let flags = at.flags.ok_or(io::ErrorKind::Unsupported)?;
        Ok(Ring {
            producer: memory.inside(at.producer, 1)?,
            consumer: memory.inside(at.consumer, 1)?,
            flags: memory.inside(flags, 1)?,
            entries: memory.inside(at.desc, size as usize)?,
            size,
            ours: 0,
            _memory: memory,
            _entries: PhantomData,
        })
    }

    fn counter(&self, which: NonNull<AtomicU32>) -> &AtomicU32 {
        // SAFETY: `map` found it inside the mapping and aligned, the mapping lives as long as `self`, and the kernel
        // changes it atomically.
        unsafe { which.as_ref() }
    }

    fn entry(&self, number: u32) -> NonNull<T> {
        // SAFETY: masked by the size, a power of two, it is one of the `size` entries that `map` found inside.
        unsafe { self.entries.add((number & (self.size - 1)) as usize) }
    }

    fn needs_wakeup(&self) -> bool {
        self.counter(self.flags).load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }
}

/// A ring that the kernel writes and we read.
pub struct Consumer<T>(Ring<T>);

impl<T: Entry> Consumer<T> {
    /// Maps the ring that lies at `page` of the socket.
    pub fn map(fd: BorrowedFd<'_>, page: u64, at: XdpRingOffset, size: u32) -> io::Result<Consumer<T>> {
        Ok(Consumer(Ring::map(fd, page, at, size)?))
    }

    /// Entries that the kernel has written and we have not removed.
    pub fn waiting(&self) -> usize {
        let written = self.0.counter(self.0.producer).load(Ordering::Relaxed);
        written.wrapping_sub(self.0.ours).min(self.0.size) as usize
    }

    /// Removes up to `max` entries; returns their number.
    pub fn take(&mut self, max: usize, mut each: impl FnMut(T)) -> usize {
        let ring = &mut self.0;
        let there =
            ring.counter(ring.producer).load(Ordering::Acquire).wrapping_sub(ring.ours).min(ring.size);
        let n = there.min(u32::try_from(max).unwrap_or(u32::MAX));
        for i in 0..n {
            let entry = ring.entry(ring.ours.wrapping_add(i));
            // SAFETY: inside the ring; the producer's counter, read with Acquire, says that the kernel has written it
            // and leaves it alone until ours passes it. Any bytes are an entry.
            each(unsafe { entry.read() });
        }
        if n > 0 {
            ring.ours = ring.ours.wrapping_add(n);
            ring.counter(ring.consumer).store(ring.ours, Ordering::Release);
        }
        n as usize
    }
}

/// A ring that we write and the kernel reads.
pub struct Producer<T>(Ring<T>);

impl<T: Entry> Producer<T> {
    /// Maps the ring that lies at `page` of the socket.
    pub fn map(fd: BorrowedFd<'_>, page: u64, at: XdpRingOffset, size: u32) -> io::Result<Producer<T>> {
        Ok(Producer(Ring::map(fd, page, at, size)?))
    }

    /// Entries that the kernel has not read yet.
    pub fn waiting(&self) -> usize {
        let read = self.0.counter(self.0.consumer).load(Ordering::Acquire);
        self.0.ours.wrapping_sub(read).min(self.0.size) as usize
    }

    /// Appends as many entries as have space; returns their number.
    pub fn put(&mut self, entries: &[T]) -> usize {
        let n = entries.len().min(self.0.size as usize - self.waiting());
        let ring = &mut self.0;
        for (i, value) in entries[..n].iter().enumerate() {
            let entry = ring.entry(ring.ours.wrapping_add(i as u32));
            // SAFETY: inside the ring; the consumer's counter says that the kernel is done with this entry, and it
            // reads it again only after ours has passed it.
            unsafe { entry.write(*value) };
        }
        if n > 0 {
            ring.ours = ring.ours.wrapping_add(n as u32);
            ring.counter(ring.producer).store(ring.ours, Ordering::Release);
        }
        n
    }

    /// Whether the kernel needs a system call to notice new entries.
    pub fn needs_wakeup(&self) -> bool {
        self.0.needs_wakeup()
    }
}
