//! A umem that the AF_XDP sockets of many ports share: buffers of one size, each charged to the queue that uses it.
//!
//! A received frame is its buffer: nothing is copied, and the buffer stays charged to the queue that received it until
//! the frame is dropped or sent, wherever it waits meanwhile. A frame that is sent through a socket of the same umem is
//! passed to the kernel as it is.
//!
//! # Invariants
//!
//! * A buffer is in one place: on the free list, in a [`Buffer`], or posted to one socket. Its cell's state says which.
//!   Whatever address the kernel reports, a buffer is taken back only if it was posted to that socket.
//! * Buffers that were posted to a closed socket are reused only after the kernel has released them, see [`super::closed_sockets`].
//! * A `Umem` lives as long as the process, because buffers refer to it.

use super::closed_sockets::ClosedSockets;
use super::xsk::{KERNEL_HEADROOM, TX_METADATA};
use super::xsk_ring::Mapping;
use buffer::{Buffer, Handle, Memory, Source};
use rxpool::{Place, Pool};
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, Weak};
use sync::IndexStack;

static SOURCE: Source = Source { name: "umem", free, another };

/// States of a buffer. A buffer that is posted has the number of a socket's end, which is [`FIRST_END`] or more.
const FREE: u32 = 0;
const TAKEN: u32 = 1;
const FIRST_END: u32 = 2;

/// Most buffers that are released with one call.
const GROUP: usize = 64;

/// One end of a socket, receiving or sending: buffers posted there have its number as state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End(u32);

/// Where the memory of a cell is.
enum Location {
    /// Buffer of a umem, by index.
    Umem(&'static Umem, u32),
    /// A copy of such a frame, on the heap.
    Heap(Box<[u8]>),
}

/// What a `Buffer`'s handle points to.
struct Cell {
    location: Location,
    state: AtomicU32,
    place: AtomicU32,
}

/// The umem.
pub struct Umem {
    memory: Mapping,
    chunk: u32,
    cells: OnceLock<Box<[Cell]>>,
    free: IndexStack,
    next_end: AtomicU32,
    /// The number of buffers that each queue holds.
    pub pool: Pool,
    /// Bound sockets, one of which a new socket names to share the umem.
    pub sockets: Mutex<Vec<Weak<OwnedFd>>>,
    /// Closed sockets whose buffers are not yet free.
    closed_sockets: ClosedSockets<[End; 2]>,
    /// Whether the kernel completes checksums; known after the first registration.
    pub checksums: OnceLock<bool>,
}

impl Umem {
    /// Makes a umem of buffers of `chunk` bytes, a power of two, and as many as the pool has.
    pub fn new(pool: Pool, chunk: u32) -> io::Result<&'static Umem> {
        let buffers = pool.buffers();
        let free = IndexStack::new(buffers).ok_or(io::ErrorKind::OutOfMemory)?;
        let umem: &'static Umem = Box::leak(Box::new(Umem {
            memory: Mapping::anonymous(buffers as usize * chunk as usize)?,
            chunk,
            cells: OnceLock::new(),
            free,
            next_end: AtomicU32::new(FIRST_END),
            pool,
            sockets: Mutex::default(),
            closed_sockets: ClosedSockets::default(),
            checksums: OnceLock::new(),
        }));
        let cell = |i| Cell {
            location: Location::Umem(umem, i),
            state: AtomicU32::new(FREE),
            place: AtomicU32::new(u32::MAX),
        };
        umem.cells.get_or_init(|| (0..buffers).map(cell).collect());
        umem.free.push(&(0..buffers).rev().collect::<Vec<_>>());
        Ok(umem)
    }

    /// Bytes of a buffer.
    pub fn chunk(&self) -> u32 {
        self.chunk
    }

    /// Its memory.
    pub fn memory(&self) -> &Mapping {
        &self.memory
    }

    /// Returns the memory to the kernel; its content is lost. Only while all buffers are free and no socket is open.
    fn give_back(&self) {
        let (base, len) = (self.memory.base().as_ptr(), self.memory.len());
        // SAFETY: the mapping is ours, and no buffer of it is in use; afterwards it reads as zeros.
        unsafe { libc::madvise(base.cast(), len, libc::MADV_DONTNEED) };
    }

    fn cell(&'static self, index: u32) -> Option<&'static Cell> {
        self.cells.get()?.get(index as usize)
    }

    /// Numbers for the two ends of a new socket.
    pub fn new_ends(&self) -> [End; 2] {
        let take = || match self.next_end.fetch_add(1, Ordering::Relaxed) {
            number if number >= FIRST_END => number,
            // The numbers wrapped around.
            _ => self.next_end.fetch_max(FIRST_END + 1, Ordering::Relaxed).max(FIRST_END),
        };
        [End(take()), End(take())]
    }

    /// Takes free buffers that were charged to `place` and posts them to `end`: fills `addresses` as far as it can. What
    /// it cannot take is refunded. Returns how many.
    pub fn post(&'static self, place: Place, end: End, addresses: &mut [u64]) -> usize {
        let mut indices = [0; GROUP];
        let mut posted = 0;
        while posted < addresses.len() {
            let want = (addresses.len() - posted).min(GROUP);
            let got = self.free.pop(&mut indices[..want]);
            for (index, address) in indices[..got].iter().zip(&mut addresses[posted..]) {
                if let Some(cell) = self.cell(*index) {
                    cell.state.store(end.0, Ordering::Relaxed);
                    cell.place.store(place.0, Ordering::Relaxed);
                }
                *address = u64::from(*index) * u64::from(self.chunk);
            }
            posted += got;
            if got < want {
                break;
            }
        }
        self.pool.refund(place, (addresses.len() - posted) as u32);
        posted
    }

    /// Takes the buffer back that contains `address`, if it was posted to `end`. It is the caller's now.
    fn take_back(&'static self, address: u64, end: End) -> Option<(u32, &'static Cell)> {
        let index = u32::try_from(address / u64::from(self.chunk)).ok()?;
        let cell = self.cell(index)?;
        if cell.state.load(Ordering::Relaxed) != end.0 {
            return None;
        }
        cell.state.store(TAKEN, Ordering::Relaxed);
        Some((index, cell))
    }

    /// The frame's buffer at `address`, which the kernel has filled, and the offset of `address` in it. `None`: the
    /// buffer was not posted to `end`.
    pub fn received(&'static self, address: u64, end: End) -> Option<(Buffer, usize)> {
        let (_, cell) = self.take_back(address, end)?;
        // SAFETY: the buffer is inside the mapping, which is initialised and never unmapped. Its state said that it was
        // posted, so no `Buffer` has it; the kernel put it on the ring, so it writes there no more; and it is posted
        // again only after its handle was freed.
        let buffer = unsafe { Buffer::of(&SOURCE, memory_of(Handle(NonNull::from(cell).cast()), cell)) };
        Some((buffer, (address % u64::from(self.chunk)) as usize))
    }

    /// Posts a frame's buffer to `end`; returns the address of the frame, which begins at `start`. `Err` returns the
    /// buffer if it is not of this umem or has no space for metadata in front.
    pub fn send(&'static self, buffer: Buffer, start: usize, end: End) -> Result<u64, Buffer> {
        if start < TX_METADATA {
            return Err(buffer);
        }
        let handle = buffer.into_handle(&SOURCE)?;
        // SAFETY: a handle of our source points to a cell that lives until the handle is freed, and we own the handle.
        let cell = unsafe { handle.0.cast::<Cell>().as_ref() };
        match cell.location {
            Location::Umem(umem, index) if std::ptr::eq(umem, self) => {
                cell.state.store(end.0, Ordering::Relaxed);
                Ok(u64::from(index) * u64::from(self.chunk) + start as u64)
            }
            // SAFETY: `into_handle` passed ownership to us, and the memory is unchanged.
            _ => Err(unsafe { Buffer::of(&SOURCE, memory_of(handle, cell)) }),
        }
    }

    /// Writes `bytes` to the buffer at `address`, which was posted to `end` but is not on a ring yet. `None`: it is not,
    /// or they do not fit.
    pub fn write(&'static self, address: u64, end: End, bytes: &[u8]) -> Option<()> {
        let chunk = u64::from(self.chunk);
        let cell = self.cell(u32::try_from(address / chunk).ok()?)?;
        if cell.state.load(Ordering::Relaxed) != end.0 || bytes.len() as u64 > chunk - address % chunk {
            return None;
        }
        // SAFETY: the bytes are inside one buffer of the mapping. It is posted to this end, and the caller, who owns
        // the end, has not put it on a ring: nothing else accesses it.
        unsafe {
            let to = self.memory.base().as_ptr().add(address as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        Some(())
    }

    /// Frees the buffers that contain these addresses, as far as they were posted to `end`; returns how many.
    pub fn completed(&'static self, addresses: &[u64], end: End) -> usize {
        let mut group = Group::default();
        for address in addresses {
            if let Some((index, cell)) = self.take_back(*address, end) {
                group.add(self, index, Place(cell.place.load(Ordering::Relaxed)));
            }
        }
        let n = group.total;
        group.release(self);
        n
    }

    /// Takes note that the socket with these ends and places is not used any more. A later `collect` frees its buffers.
    pub fn retire(&self, fd: Weak<OwnedFd>, ends: [End; 2], places: [Place; 2]) {
        places.iter().for_each(|place| self.pool.close(*place));
        self.closed_sockets.add(fd, ends);
    }

    /// Frees the buffers of sockets that the kernel has released. The main thread calls this when it opens ports and when
    /// it reads counters.
    pub fn collect(&'static self) {
        if self.closed_sockets.release(|ends| self.free_posted(ends)) && self.pool.places().0 == 0 {
            self.give_back();
        }
    }

    /// Frees everything that is posted to these ends.
    fn free_posted(&'static self, ends: [End; 2]) {
        let mut group = Group::default();
        for (index, cell) in self.cells.get().into_iter().flatten().enumerate() {
            if ends.iter().any(|end| cell.state.load(Ordering::Relaxed) == end.0) {
                group.add(self, index as u32, Place(cell.place.load(Ordering::Relaxed)));
            }
        }
        group.release(self);
    }

    /// The most bytes that the kernel receives into a buffer.
    pub fn receive_capacity(chunk: u32) -> usize {
        (chunk as usize).saturating_sub(KERNEL_HEADROOM)
    }
}

/// Buffers of one place that are released together.
struct Group {
    indices: [u32; GROUP],
    n: usize,
    place: Place,
    total: usize,
}

impl Default for Group {
    fn default() -> Group {
        Group { indices: [0; GROUP], n: 0, place: Place(0), total: 0 }
    }
}

impl Group {
    fn add(&mut self, umem: &'static Umem, index: u32, place: Place) {
        if self.n == GROUP || self.place != place {
            self.release(umem);
            self.place = place;
        }
        self.indices[self.n] = index;
        self.n += 1;
        self.total += 1;
    }

    /// Puts them on the free list, then refunds them.
    fn release(&mut self, umem: &'static Umem) {
        let indices = &self.indices[..self.n];
        for index in indices {
            if let Some(cell) = umem.cell(*index) {
                cell.state.store(FREE, Ordering::Relaxed);
            }
        }
        umem.free.push(indices);
        umem.pool.refund(self.place, self.n as u32);
        self.n = 0;
    }
}

/// The memory of a handle that is owned.
fn memory_of(handle: Handle, cell: &Cell) -> Memory {
    match &cell.location {
        Location::Umem(umem, index) => {
            let at = *index as usize * umem.chunk as usize;
            // SAFETY: an index of a cell is below the number of buffers, so this is inside the mapping.
            Memory { handle, base: unsafe { umem.memory.base().add(at) }, size: umem.chunk }
        }
        Location::Heap(bytes) => {
            let base = NonNull::from(&**bytes).cast();
            Memory { handle, base, size: bytes.len() as u32 }
        }
    }
}

/// Frees buffers: those of a umem go to its free list.
///
/// # Safety
///
/// As for [`Source::free`].
unsafe fn free(handles: &[Handle]) {
    let mut group = Group::default();
    let mut last: Option<&'static Umem> = None;
    for handle in handles {
        // SAFETY: the caller owns the handle, so its cell is alive.
        let cell = unsafe { handle.0.cast::<Cell>().as_ref() };
        match cell.location {
            Location::Umem(umem, index) => {
                if let Some(other) = last.filter(|last| !std::ptr::eq(*last, umem)) {
                    group.release(other);
                }
                last = Some(umem);
                group.add(umem, index, Place(cell.place.load(Ordering::Relaxed)));
            }
            // SAFETY: `another` leaked this box, and the caller, who owned its handle, does not use it again.
            Location::Heap(_) => drop(unsafe { Box::from_raw(handle.0.cast::<Cell>().as_ptr()) }),
        }
    }
    if let Some(umem) = last {
        group.release(umem);
    }
}

/// Memory for a copy of a frame. It is on the heap: a packet that is flooded to many ports must not use up the buffers
/// of the queue that received it.
///
/// # Safety
///
/// As for [`Source::another`].
unsafe fn another(handle: Handle) -> Option<Memory> {
    // SAFETY: the caller owns the handle, so its cell is alive.
    let cell = unsafe { handle.0.cast::<Cell>().as_ref() };
    let bytes = vec![0; memory_of(handle, cell).size as usize].into_boxed_slice();
    let (state, place) = (AtomicU32::new(TAKEN), AtomicU32::new(u32::MAX));
    let copy = Box::leak(Box::new(Cell { location: Location::Heap(bytes), state, place }));
    let Location::Heap(bytes) = &mut copy.location else { return None };
    let (base, size) = (NonNull::from(&mut **bytes).cast(), bytes.len() as u32);
    Some(Memory { handle: Handle(NonNull::from(copy).cast()), base, size })
}
