//! The rings between an AF_XDP socket and the kernel: one side writes, the other side reads, without locks.
//!
//! Each ring is in memory that both sides have mapped: two counters that only increase (and wrap), flags, and a power of
//! two of entries. The switch relies on the order of the kernel's writes, but not on the values: a counter out of range is
//! replaced by the nearest valid value, so nothing outside of the ring is accessed.
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
/// The type consists of integers only, so that any bytes are a valid value, and it has the kernel's layout of the entry.
pub unsafe trait Entry: Copy {}
// SAFETY: an integer.
unsafe impl Entry for u64 {}
// SAFETY: integers without padding, in the order of `struct xdp_desc`.
unsafe impl Entry for Desc {}

/// Memory from `mmap(2)` that is unmapped on drop.
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory of a mapping is not bound to a thread.
unsafe impl Send for Mapping {}
// SAFETY: `&Mapping` only returns the address and the length; code that accesses the memory is unsafe itself.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps private, zeroed memory of the process.
    pub fn anonymous(len: usize) -> io::Result<Mapping> {
        Mapping::new(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    /// Maps a part of the memory that `fd` provides.
    fn of(fd: BorrowedFd<'_>, len: usize, offset: u64) -> io::Result<Mapping> {
        Mapping::new(len, libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd(), offset)
    }

    fn new(len: usize, flags: libc::c_int, fd: libc::c_int, offset: u64) -> io::Result<Mapping> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let hint = std::ptr::null_mut();
        // SAFETY: no address is requested, so no existing mapping is replaced.
        let base = unsafe { libc::mmap(hint, len, protection, flags, fd, offset as libc::off_t) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { base, len })
    }

    /// The address of the first byte.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The address of `count` objects of type `T` at `offset`; an error if they are not inside the mapping or not aligned.
    fn checked_pointer<T>(&self, offset: u64, count: usize) -> io::Result<NonNull<T>> {
        let end =
            size_of::<T>().checked_mul(count).and_then(|n| usize::try_from(offset).ok()?.checked_add(n));
        if end.is_none_or(|end| end > self.len) || !offset.is_multiple_of(align_of::<T>() as u64) {
            return Err(io::Error::from_raw_os_error(libc::EPROTO));
        }
        // SAFETY: the check above found that `offset` is inside the mapping.
        Ok(unsafe { self.base.add(offset as usize) }.cast())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` created this mapping, and values that hold pointers into it own the `Mapping`, so they are dropped with it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
    /// The counter that this side writes.
    own_counter: u32,
    _memory: Mapping,
    _entries: PhantomData<T>,
}

// SAFETY: the pointers point into the mapping, which moves with the ring; counters are atomic, and entries are accessed by `&mut self`.
unsafe impl<T: Entry> Send for Ring<T> {}

impl<T: Entry> Ring<T> {
    fn map(fd: BorrowedFd<'_>, page: u64, at: XdpRingOffset, size: u32) -> io::Result<Ring<T>> {
        assert!(size.is_power_of_two());
        let entries = size as usize * size_of::<T>();
        let memory = Mapping::of(fd, usize::try_from(at.desc).unwrap_or(usize::MAX / 2) + entries, page)?;
        let flags = at.flags.ok_or(io::ErrorKind::Unsupported)?;
        Ok(Ring {
            producer: memory.checked_pointer(at.producer, 1)?,
            consumer: memory.checked_pointer(at.consumer, 1)?,
            flags: memory.checked_pointer(flags, 1)?,
            entries: memory.checked_pointer(at.desc, size as usize)?,
            size,
            own_counter: 0,
            _memory: memory,
            _entries: PhantomData,
        })
    }

    fn counter(&self, which: NonNull<AtomicU32>) -> &AtomicU32 {
        // SAFETY: `map` checked that the counter is inside the mapping and aligned, the mapping lives as long as `self`, and the kernel
        // changes the counter atomically.
        unsafe { which.as_ref() }
    }

    fn entry(&self, number: u32) -> NonNull<T> {
        // SAFETY: the size is a power of two, so the masked index is less than `size`, and `map` found `size` entries inside the mapping.
        unsafe { self.entries.add((number & (self.size - 1)) as usize) }
    }

    fn needs_wakeup(&self) -> bool {
        self.counter(self.flags).load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }
}

/// A ring that the kernel writes and the switch reads.
pub struct Consumer<T>(Ring<T>);

impl<T: Entry> Consumer<T> {
    /// Maps the ring at offset `page` of the socket.
    pub fn map(fd: BorrowedFd<'_>, page: u64, at: XdpRingOffset, size: u32) -> io::Result<Consumer<T>> {
        Ok(Consumer(Ring::map(fd, page, at, size)?))
    }

    /// Number of entries that the kernel has written and the switch has not removed.
    pub fn waiting(&self) -> usize {
        let written = self.0.counter(self.0.producer).load(Ordering::Relaxed);
        written.wrapping_sub(self.0.own_counter).min(self.0.size) as usize
    }

    /// Removes up to `max` entries; returns their number.
    pub fn take(&mut self, max: usize, mut each: impl FnMut(T)) -> usize {
        let ring = &mut self.0;
        let available =
            ring.counter(ring.producer).load(Ordering::Acquire).wrapping_sub(ring.own_counter).min(ring.size);
        let n = available.min(u32::try_from(max).unwrap_or(u32::MAX));
        for i in 0..n {
            let entry = ring.entry(ring.own_counter.wrapping_add(i));
            // SAFETY: the entry is inside the ring. The producer's counter, read with Acquire, shows that the kernel has written it,
            // and the kernel does not write it again until our counter has passed it. Any bytes are a valid entry.
            each(unsafe { entry.read() });
        }
        if n > 0 {
            ring.own_counter = ring.own_counter.wrapping_add(n);
            ring.counter(ring.consumer).store(ring.own_counter, Ordering::Release);
        }
        n as usize
    }
}

/// A ring that the switch writes and the kernel reads.
pub struct Producer<T>(Ring<T>);

impl<T: Entry> Producer<T> {
    /// Maps the ring at offset `page` of the socket.
    pub fn map(fd: BorrowedFd<'_>, page: u64, at: XdpRingOffset, size: u32) -> io::Result<Producer<T>> {
        Ok(Producer(Ring::map(fd, page, at, size)?))
    }

    /// Number of entries that the kernel has not read yet.
    pub fn waiting(&self) -> usize {
        let read = self.0.counter(self.0.consumer).load(Ordering::Acquire);
        self.0.own_counter.wrapping_sub(read).min(self.0.size) as usize
    }

    /// Appends entries until the ring is full. Returns how many were appended.
    pub fn put(&mut self, entries: &[T]) -> usize {
        let n = entries.len().min(self.0.size as usize - self.waiting());
        let ring = &mut self.0;
        for (i, value) in entries[..n].iter().enumerate() {
            let entry = ring.entry(ring.own_counter.wrapping_add(i as u32));
            // SAFETY: the entry is inside the ring. The consumer's counter shows that the kernel does not need the entry any more, and
            // the kernel reads it again only after our counter has passed it.
            unsafe { entry.write(*value) };
        }
        if n > 0 {
            ring.own_counter = ring.own_counter.wrapping_add(n as u32);
            ring.counter(ring.producer).store(ring.own_counter, Ordering::Release);
        }
        n
    }

    /// Whether the kernel needs a system call to notice new entries.
    pub fn needs_wakeup(&self) -> bool {
        self.0.needs_wakeup()
    }
}
