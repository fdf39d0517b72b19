//! A umem that the AF_XDP sockets of many ports share: buffers of one size, each counted in the quota of the queue that uses it.
//!
//! A received frame consists of its buffer: nothing is copied, and the buffer counts for the queue that received it until
//! the frame is dropped or sent, wherever the frame waits in the meantime. A frame that is sent through a socket of the same umem is
//! passed to the kernel without a copy.
//!
//! # Invariants
//!
//! * A buffer is either on the free list, in a [`Buffer`], or posted to one side of a socket. The state of its cell records which.
//!   Whatever address the kernel reports, a buffer is reclaimed only if it was posted to that side of the socket.
//! * Buffers that were posted to a closed socket are reused only after the kernel has released the socket, see [`super::closed_sockets`].
//! * A `Umem` lives as long as the process, because buffers refer to it.

use super::closed_sockets::ClosedSockets;
use super::xsk::{KERNEL_HEADROOM, TX_METADATA};
use super::xsk_ring::Mapping;
use buffer::{Buffer, Handle, Memory, Source};
use rxpool::{Pool, PoolSlot};
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, Weak};
use sync::IndexStack;

static SOURCE: Source = Source { name: "umem", free, allocate_another };

// States of a buffer. A posted buffer has the number of a `SocketSide` as state.
/// State of a buffer that is on the free list.
const FREE: u32 = 0;
/// State of a buffer that a [`Buffer`] owns.
const IN_USE: u32 = 1;
/// The lowest number of a [`SocketSide`].
const FIRST_SIDE: u32 = 2;

/// Maximum number of buffers that are popped or released with one call.
const RELEASE_MAX: usize = 64;

/// One side of a socket, receiving or sending. The number is the state of the buffers that are posted there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketSide(u32);

/// Where the memory of a cell is.
enum Location {
    /// Buffer of a umem, by its index.
    Umem(&'static Umem, u32),
    /// A copy of a frame from a umem, on the heap.
    Heap(Box<[u8]>),
}

/// What a `Buffer`'s handle points to. Accesses are relaxed: the free list and the socket's rings order the accesses to a cell.
struct Cell {
    location: Location,
    state: AtomicU32,
    /// The pool slot whose quota counts the buffer.
    slot: AtomicU32,
}

/// The umem. See the module's comment.
pub struct Umem {
    memory: Mapping,
    chunk: u32,
    cells: OnceLock<Box<[Cell]>>,
    free: IndexStack,
    next_side: AtomicU32,
    /// The quotas of the queues.
    pub pool: Pool,
    /// Sockets that are bound to this umem. A new socket names one of them to share the umem.
    pub sockets: Mutex<Vec<Weak<OwnedFd>>>,
    /// Closed sockets whose buffers may not be reused yet.
    closed_sockets: ClosedSockets<[SocketSide; 2]>,
    /// Whether the kernel completes checksums; known after the first socket was registered.
    pub checksums: OnceLock<bool>,
}

impl Umem {
    /// Creates a umem with as many buffers as the pool has. `chunk`: bytes of a buffer, a power of two.
    pub fn new(pool: Pool, chunk: u32) -> io::Result<&'static Umem> {
        let buffers = pool.buffers();
        let free = IndexStack::new(buffers).ok_or(io::ErrorKind::OutOfMemory)?;
        let umem: &'static Umem = Box::leak(Box::new(Umem {
            memory: Mapping::anonymous(buffers as usize * chunk as usize)?,
            chunk,
            cells: OnceLock::new(),
            free,
            next_side: AtomicU32::new(FIRST_SIDE),
            pool,
            sockets: Mutex::default(),
            closed_sockets: ClosedSockets::default(),
            checksums: OnceLock::new(),
        }));
        let cell = |i| Cell {
            location: Location::Umem(umem, i),
            state: AtomicU32::new(FREE),
            slot: AtomicU32::new(u32::MAX),
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

    /// Returns the memory to the kernel; its content is lost. Allowed only while all buffers are free and no socket is open.
    fn return_memory(&self) {
        let (base, len) = (self.memory.base().as_ptr(), self.memory.len());
        // SAFETY: the mapping belongs to this umem, and no buffer of it is in use. Afterwards it reads as zeros.
        unsafe { libc::madvise(base.cast(), len, libc::MADV_DONTNEED) };
    }

    fn cell(&'static self, index: u32) -> Option<&'static Cell> {
        self.cells.get()?.get(index as usize)
    }

    /// Numbers for the receiving and the sending side of a new socket.
    pub fn new_sides(&self) -> [SocketSide; 2] {
        let new_side = || match self.next_side.fetch_add(1, Ordering::Relaxed) {
            number if number >= FIRST_SIDE => number,
            // The numbers have wrapped around.
            _ => self.next_side.fetch_max(FIRST_SIDE + 1, Ordering::Relaxed).max(FIRST_SIDE),
        };
        [SocketSide(new_side()), SocketSide(new_side())]
    }

    /// Pops free buffers and posts them to `side`. The caller has acquired quota of `slot` for each element of `addresses`. Fills
    /// `addresses` as far as there are free buffers, and releases the rest of the quota. Returns how many buffers were posted.
    pub fn post(&'static self, slot: PoolSlot, side: SocketSide, addresses: &mut [u64]) -> usize {
        let mut indices = [0; RELEASE_MAX];
        let mut posted = 0;
        while posted < addresses.len() {
            let want = (addresses.len() - posted).min(RELEASE_MAX);
            let got = self.free.pop(&mut indices[..want]);
            for (index, address) in indices[..got].iter().zip(&mut addresses[posted..]) {
                if let Some(cell) = self.cell(*index) {
                    cell.state.store(side.0, Ordering::Relaxed);
                    cell.slot.store(slot.0, Ordering::Relaxed);
                }
                *address = u64::from(*index) * u64::from(self.chunk);
            }
            posted += got;
            if got < want {
                break;
            }
        }
        self.pool.release(slot, (addresses.len() - posted) as u32);
        posted
    }

    /// Reclaims the buffer that contains `address`, if it was posted to `side`. Then the caller owns it.
    fn reclaim(&'static self, address: u64, side: SocketSide) -> Option<(u32, &'static Cell)> {
        let index = u32::try_from(address / u64::from(self.chunk)).ok()?;
        let cell = self.cell(index)?;
        if cell.state.load(Ordering::Relaxed) != side.0 {
            return None;
        }
        cell.state.store(IN_USE, Ordering::Relaxed);
        Some((index, cell))
    }

    /// The buffer that contains `address`, which the kernel has filled, and the offset of `address` in it. `None`: the
    /// buffer was not posted to `side`.
    pub fn received_buffer(&'static self, address: u64, side: SocketSide) -> Option<(Buffer, usize)> {
        let (_, cell) = self.reclaim(address, side)?;
        // SAFETY: the buffer is inside the mapping, which is initialised and never unmapped. Its state was
        // "posted", so no `Buffer` owns it. The kernel put it on the ring, so the kernel does not write to it any more. The buffer
        // is posted again only after its handle was freed.
        let buffer = unsafe { Buffer::of(&SOURCE, memory_of(Handle(NonNull::from(cell).cast()), cell)) };
        Some((buffer, (address % u64::from(self.chunk)) as usize))
    }

    /// Posts a frame's buffer to `side`. Returns the address of the frame, which begins at offset `start`. `Err` returns the
    /// buffer if it does not belong to this umem or has no space for metadata in front of the frame.
    pub fn post_frame_buffer(
        &'static self,
        buffer: Buffer,
        start: usize,
        side: SocketSide,
    ) -> Result<u64, Buffer> {
        if start < TX_METADATA {
            return Err(buffer);
        }
        let handle = buffer.into_handle(&SOURCE)?;
        // SAFETY: a handle of this source points to a cell that lives until the handle is freed, and this function owns the handle.
        let cell = unsafe { handle.0.cast::<Cell>().as_ref() };
        match cell.location {
            Location::Umem(umem, index) if std::ptr::eq(umem, self) => {
                cell.state.store(side.0, Ordering::Relaxed);
                Ok(u64::from(index) * u64::from(self.chunk) + start as u64)
            }
            // SAFETY: `into_handle` passed ownership to this function, and the memory is unchanged.
            _ => Err(unsafe { Buffer::of(&SOURCE, memory_of(handle, cell)) }),
        }
    }

    /// Writes `bytes` to the buffer at `address`, which was posted to `side` but is not on a ring yet. `None`: the buffer is not posted to
    /// `side`, or the bytes do not fit.
    pub fn write(&'static self, address: u64, side: SocketSide, bytes: &[u8]) -> Option<()> {
        let chunk = u64::from(self.chunk);
        let cell = self.cell(u32::try_from(address / chunk).ok()?)?;
        if cell.state.load(Ordering::Relaxed) != side.0 || bytes.len() as u64 > chunk - address % chunk {
            return None;
        }
        // SAFETY: the bytes are inside one buffer of the mapping. The buffer is posted to `side`. The caller owns that
        // side of the socket and has not put the buffer on a ring, so nothing else accesses the buffer.
        unsafe {
            let to = self.memory.base().as_ptr().add(address as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        Some(())
    }

    /// Frees the buffers that contain these addresses, as far as they were posted to `side`. Returns how many were freed.
    pub fn free_completed(&'static self, addresses: &[u64], side: SocketSide) -> usize {
        let mut group = ReleaseGroup::default();
        for address in addresses {
            if let Some((index, cell)) = self.reclaim(*address, side) {
                group.add(self, index, PoolSlot(cell.slot.load(Ordering::Relaxed)));
            }
        }
        let n = group.total;
        group.release(self);
        n
    }

    /// Records that the socket with these sides and pool slots is not used any more. A later `collect` frees its buffers.
    pub fn retire(&self, fd: Weak<OwnedFd>, sides: [SocketSide; 2], slots: [PoolSlot; 2]) {
        slots.iter().for_each(|slot| self.pool.close(*slot));
        self.closed_sockets.add(fd, sides);
    }

    /// Frees the buffers of sockets that the kernel has released. The main thread calls this when it opens ports and when
    /// it reads counters.
    pub fn collect(&'static self) {
        if self.closed_sockets.release(|sides| self.free_posted(sides)) && self.pool.slots().0 == 0 {
            self.return_memory();
        }
    }

    /// Frees all buffers that are posted to these sides.
    fn free_posted(&'static self, sides: [SocketSide; 2]) {
        let mut group = ReleaseGroup::default();
        for (index, cell) in self.cells.get().into_iter().flatten().enumerate() {
            if sides.iter().any(|side| cell.state.load(Ordering::Relaxed) == side.0) {
                group.add(self, index as u32, PoolSlot(cell.slot.load(Ordering::Relaxed)));
            }
        }
        group.release(self);
    }

    /// Maximum number of bytes that the kernel receives into a buffer.
    pub fn receive_capacity(chunk: u32) -> usize {
        (chunk as usize).saturating_sub(KERNEL_HEADROOM)
    }
}

/// Buffers of one pool slot that are released together.
struct ReleaseGroup {
    indices: [u32; RELEASE_MAX],
    n: usize,
    slot: PoolSlot,
    total: usize,
}

impl Default for ReleaseGroup {
    fn default() -> ReleaseGroup {
        ReleaseGroup { indices: [0; RELEASE_MAX], n: 0, slot: PoolSlot(0), total: 0 }
    }
}

impl ReleaseGroup {
    fn add(&mut self, umem: &'static Umem, index: u32, slot: PoolSlot) {
        if self.n == RELEASE_MAX || self.slot != slot {
            self.release(umem);
            self.slot = slot;
        }
        self.indices[self.n] = index;
        self.n += 1;
        self.total += 1;
    }

    /// Puts the buffers on the free list, and then releases their quota.
    fn release(&mut self, umem: &'static Umem) {
        let indices = &self.indices[..self.n];
        for index in indices {
            if let Some(cell) = umem.cell(*index) {
                cell.state.store(FREE, Ordering::Relaxed);
            }
        }
        umem.free.push(indices);
        umem.pool.release(self.slot, self.n as u32);
        self.n = 0;
    }
}

/// The memory of a handle that the caller owns.
fn memory_of(handle: Handle, cell: &Cell) -> Memory {
    match &cell.location {
        Location::Umem(umem, index) => {
            let at = *index as usize * umem.chunk as usize;
            // SAFETY: the index of a cell is below the number of buffers, so the address is inside the mapping.
            Memory { handle, base: unsafe { umem.memory.base().add(at) }, size: umem.chunk }
        }
        Location::Heap(bytes) => {
            let base = NonNull::from(&**bytes).cast();
            Memory { handle, base, size: bytes.len() as u32 }
        }
    }
}

/// Frees buffers: a buffer of a umem goes to the free list of the umem, a copy on the heap is deallocated.
///
/// # Safety
///
/// As for [`Source::free`].
unsafe fn free(handles: &[Handle]) {
    let mut group = ReleaseGroup::default();
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
                group.add(umem, index, PoolSlot(cell.slot.load(Ordering::Relaxed)));
            }
            // SAFETY: `allocate_another` leaked this box. The caller owned its handle and does not use the handle again.
            Location::Heap(_) => drop(unsafe { Box::from_raw(handle.0.cast::<Cell>().as_ptr()) }),
        }
    }
    if let Some(umem) = last {
        group.release(umem);
    }
}

/// Allocates memory for a copy of a frame, on the heap: a packet that is flooded to many ports must not use up the buffers
/// of the queue that received it.
///
/// # Safety
///
/// As for [`Source::allocate_another`].
unsafe fn allocate_another(handle: Handle) -> Option<Memory> {
    // SAFETY: the caller owns the handle, so its cell is alive.
    let cell = unsafe { handle.0.cast::<Cell>().as_ref() };
    let bytes = vec![0; memory_of(handle, cell).size as usize].into_boxed_slice();
    let (state, slot) = (AtomicU32::new(IN_USE), AtomicU32::new(u32::MAX));
    let copy = Box::leak(Box::new(Cell { location: Location::Heap(bytes), state, slot }));
    let Location::Heap(bytes) = &mut copy.location else { return None };
    let (base, size) = (NonNull::from(&mut **bytes).cast(), bytes.len() as u32);
    Some(Memory { handle: Handle(NonNull::from(copy).cast()), base, size })
}
