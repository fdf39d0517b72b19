//! An AF_XDP socket on one queue of a device, with packet memory and rings of its own.
//!
//! The memory (umem) consists of chunks. One half of them circulates between the fill and the rx ring and belongs to
//! the receiver, the other between the tx and the completion ring and belongs to the sender; so the two share nothing
//! and need no lock. Each half is accessed only through its [`Chunks`], by copies with checked bounds: no reference
//! points into memory that the kernel writes.
//!
//! Source: Documentation/networking/af_xdp of Linux.

use super::xsk_ring::{Consumer, Desc, Mapping, Producer};
use rustix::net::sockopt;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING,
    XDP_UMEM_PGOFF_FILL_RING, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Bytes of a chunk: a packet lies in one of them.
pub const CHUNK: usize = 4096;
/// Chunks of the sender's half, the most of the receiver's half, and entries of each ring.
pub const RING: u32 = 2048;
/// Bytes that the kernel leaves free in front of a received packet for its own use (`XDP_PACKET_HEADROOM`).
pub const KERNEL_HEADROOM: usize = 256;

/// Bytes in front of a packet to be sent, for its offload request (`struct xsk_tx_metadata`).
pub const TX_METADATA: usize = 32;
/// Flag of the metadata: it requests a checksum (`XDP_TXMD_FLAGS_CHECKSUM`).
const METADATA_CHECKSUM: u64 = 1 << 1;
/// Flag of the descriptor: the packet has metadata (`XDP_TX_METADATA`).
pub const HAS_METADATA: u32 = 1 << 1;
/// Flag of the memory's registration: packets have space for metadata (`XDP_UMEM_TX_METADATA_LEN`).
const WITH_METADATA: u32 = 1 << 2;

/// Bytes of sent packets that the kernel may hold for one socket before it accepts no more: the chunks of a full ring.
pub const SEND_BUFFER: usize = 2 * RING as usize * CHUNK;

/// How packets are transferred between driver and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// The kernel copies them.
    Copy,
    /// The device writes them there.
    Zerocopy,
}

/// One half of a socket's packet memory.
pub struct Chunks {
    memory: Arc<Mapping>,
    first: u64,
    bytes: u64,
}

impl Chunks {
    /// The addresses of its chunks.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + use<> {
        (self.first..self.first + self.bytes).step_by(CHUNK)
    }

    /// The chunk that contains `addr`, if it is in this half.
    pub fn chunk_of(&self, addr: u64) -> Option<u64> {
        (self.first..self.first + self.bytes).contains(&addr).then_some(addr - addr % CHUNK as u64)
    }

    /// The address of `len` bytes at `addr`, if they lie in one chunk of this half.
    fn place(&self, addr: u64, len: usize) -> Option<*mut u8> {
        let chunk = self.chunk_of(addr)?;
        let within = (addr - chunk) as usize;
        if len > CHUNK - within {
            return None;
        }
        debug_assert!(addr as usize + len <= self.memory.len());
        // SAFETY: an address in this half is inside the mapping, which has both halves.
        Some(unsafe { self.memory.base().as_ptr().add(addr as usize) })
    }

    /// Copies `out.len()` bytes from `addr`; `None` if they are not all in one chunk of this half.
    pub fn read(&self, addr: u64, out: &mut [u8]) -> Option<()> {
        let from = self.place(addr, out.len())?;
        // SAFETY: `place` found that many bytes inside the mapping; `out` is the switch's own memory. Nothing else
        // writes them: this half has one owner, and the kernel released the chunk when it put it on the ring.
        unsafe { std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) };
        Some(())
    }

    /// Copies `bytes` to `addr`; `None` if they do not fit one chunk of this half.
    pub fn write(&mut self, addr: u64, bytes: &[u8]) -> Option<()> {
        let to = self.place(addr, bytes.len())?;
        // SAFETY: as for `read`; and `&mut self` is the only way to write this half.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Some(())
    }
}

/// The receiver's half of a socket.
pub struct RxHalf {
    /// Ring of free chunks.
    pub fill: Producer<u64>,
    /// Ring of received packets.
    pub rx: Consumer<Desc>,
    /// Its half of the memory.
    pub chunks: Chunks,
}

/// The sender's half of a socket.
pub struct TxHalf {
    /// Ring of packets to be sent.
    pub tx: Producer<Desc>,
    /// Ring of chunks whose packets were sent.
    pub completion: Consumer<u64>,
    /// Its half of the memory.
    pub chunks: Chunks,
    /// The kernel completes checksums: in copy mode since Linux 6.8.
    pub checksums: bool,
}

impl TxHalf {
    /// Writes a packet to a free chunk. `checksum`: the kernel shall compute it, from this offset, and store it at
    /// this distance after that. `None`: the packet or the position of its checksum does not fit.
    pub fn write(&mut self, chunk: u64, packet: &[u8], checksum: Option<(u16, u16)>) -> Option<Desc> {
        let mut options = 0;
        if let Some(checksum) = checksum {
            self.chunks.write(chunk, &metadata(packet, checksum)?)?;
            options = HAS_METADATA;
        }
        let addr = chunk + TX_METADATA as u64;
        self.chunks.write(addr, packet)?;
        Some(Desc { addr, len: packet.len() as u32, options })
    }
}

/// The metadata that requests a checksum of `packet`; `None`: its position is not in the packet, and the kernel would
/// retry it for ever.
pub fn metadata(packet: &[u8], (start, offset): (u16, u16)) -> Option<[u8; 12]> {
    packet.get(usize::from(start) + usize::from(offset)..)?.get(..2)?;
    let mut note = [0; 12];
    note[..8].copy_from_slice(&METADATA_CHECKSUM.to_ne_bytes());
    note[8..10].copy_from_slice(&start.to_ne_bytes());
    note[10..].copy_from_slice(&offset.to_ne_bytes());
    Some(note)
}

/// A bound socket.
pub struct Xsk {
    /// Readable while packets wait.
    pub fd: Arc<OwnedFd>,
    /// For the receiver.
    pub rx: RxHalf,
    /// For the sender.
    pub tx: TxHalf,
}

/// The rings of a socket.
pub struct Rings {
    /// Ring of free chunks.
    pub fill: Producer<u64>,
    /// Ring of received packets.
    pub rx: Consumer<Desc>,
    /// Ring of packets to be sent.
    pub tx: Producer<Desc>,
    /// Ring of chunks whose packets were sent.
    pub completion: Consumer<u64>,
}

/// Creates the rings of a socket with `entries` entries each, calls `ready`, and maps them.
pub fn map_rings(
    fd: BorrowedFd<'_>,
    entries: u32,
    ready: impl FnOnce() -> io::Result<()>,
) -> io::Result<Rings> {
    sockopt::set_xdp_umem_fill_ring_size(fd, entries)?;
    sockopt::set_xdp_umem_completion_ring_size(fd, entries)?;
    sockopt::set_xdp_rx_ring_size(fd, entries)?;
    sockopt::set_xdp_tx_ring_size(fd, entries)?;
    ready()?;
    let at = sockopt::xdp_mmap_offsets(fd)?;
    Ok(Rings {
        fill: Producer::map(fd, XDP_UMEM_PGOFF_FILL_RING, at.fr, entries)?,
        rx: Consumer::map(fd, XDP_PGOFF_RX_RING, at.rx, entries)?,
        tx: Producer::map(fd, XDP_PGOFF_TX_RING, at.tx, entries)?,
        completion: Consumer::map(fd, XDP_UMEM_PGOFF_COMPLETION_RING, at.cr, entries)?,
    })
}

/// Opens a socket on queue `queue` of the device. `depth` chunks of the receiver's half are on the fill ring, at most
/// [`RING`]; the others are never used and cost no memory.
pub fn open(ifindex: u32, queue: u32, transfer: Transfer, depth: u32) -> io::Result<Xsk> {
    let fd = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    // Without the right to exceed the system's limit, the limit applies.
    let _ = sockopt::set_socket_send_buffer_size_force(&fd, SEND_BUFFER);
    let depth = depth.clamp(1, RING);
    let (rx_bytes, tx_bytes) = (u64::from(depth) * CHUNK as u64, u64::from(RING) * CHUNK as u64);
    let memory = Arc::new(Mapping::anonymous((rx_bytes + tx_bytes) as usize)?);
    let checksums = transfer == Transfer::Copy && register(&fd, &memory, CHUNK as u32, true).is_ok();
    if !checksums {
        register(&fd, &memory, CHUNK as u32, false)?;
    }
    let Rings { mut fill, rx, tx, completion } = map_rings(fd.as_fd(), RING, || Ok(()))?;
    let chunks = Chunks { memory: Arc::clone(&memory), first: 0, bytes: rx_bytes };
    fill.put(&chunks.addresses().collect::<Vec<_>>());
    let rx = RxHalf { fill, rx, chunks };
    let tx =
        TxHalf { tx, completion, chunks: Chunks { memory, first: rx_bytes, bytes: tx_bytes }, checksums };
    let how = match transfer {
        Transfer::Copy => SocketAddrXdpFlags::XDP_COPY,
        Transfer::Zerocopy => SocketAddrXdpFlags::XDP_ZEROCOPY,
    };
    let flags = how | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
    bind(&fd, &SocketAddrXdp::new(flags, ifindex, queue))?;
    Ok(Xsk { fd: Arc::new(fd), rx, tx })
}

/// Registers the memory for the socket.
pub fn register(fd: &OwnedFd, memory: &Mapping, chunk: u32, with_metadata: bool) -> io::Result<()> {
    let registration = XdpUmemReg {
        addr: memory.base().as_ptr().expose_provenance() as u64,
        len: memory.len() as u64,
        chunk_size: chunk,
        headroom: 0,
        flags: XdpUmemRegFlags::from_bits_retain(if with_metadata { WITH_METADATA } else { 0 }),
        tx_metadata_len: if with_metadata { TX_METADATA as u32 } else { 0 },
    };
    Ok(sockopt::set_xdp_umem_reg(fd, registration)?)
}
