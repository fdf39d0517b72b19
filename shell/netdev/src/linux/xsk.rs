//! An AF_XDP socket on one queue of a device, with its own packet memory and rings.
//!
//! The memory (umem) consists of chunks. One half of them circulates between the fill and the rx ring and belongs to
//! the receiver; the other half circulates between the tx and the completion ring and belongs to the sender. So receiver and sender
//! share nothing and need no lock. Each half is accessed only through its [`Chunks`], by copies with checked bounds: no reference
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

/// Bytes of a chunk. A packet is in one chunk.
pub const CHUNK: usize = 4096;
/// Number of entries of each ring, number of chunks of the sender's half, and maximum number of chunks of the receiver's half.
pub const RING_ENTRIES: u32 = 2048;
/// Bytes in front of a received packet that the kernel reserves for its own use (`XDP_PACKET_HEADROOM`).
pub const KERNEL_HEADROOM: usize = 256;

/// Bytes in front of a packet to be sent, for its offload request (`struct xsk_tx_metadata`).
pub const TX_METADATA: usize = 32;
/// Flag in the metadata: the packet requests a checksum (`XDP_TXMD_FLAGS_CHECKSUM`).
const METADATA_CHECKSUM: u64 = 1 << 1;
/// Flag in the descriptor: the packet has metadata (`XDP_TX_METADATA`).
pub const HAS_METADATA: u32 = 1 << 1;
/// Flag of the memory's registration: packets have space for metadata in front (`XDP_UMEM_TX_METADATA_LEN`).
const WITH_METADATA: u32 = 1 << 2;

/// Maximum number of bytes of sent packets that the kernel may hold for one socket: twice the chunks of a full ring.
pub const SEND_BUFFER: usize = 2 * RING_ENTRIES as usize * CHUNK;

/// How packets are transferred between the driver and the packet memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// The kernel copies them.
    Copy,
    /// The device writes them to the memory directly.
    Zerocopy,
}

/// One half of a socket's packet memory.
pub struct Chunks {
    memory: Arc<Mapping>,
    first: u64,
    bytes: u64,
}

impl Chunks {
    /// The addresses of all chunks of this half.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + use<> {
        (self.first..self.first + self.bytes).step_by(CHUNK)
    }

    /// The address of the chunk that contains `addr`; `None`: `addr` is not in this half.
    pub fn chunk_of(&self, addr: u64) -> Option<u64> {
        (self.first..self.first + self.bytes).contains(&addr).then_some(addr - addr % CHUNK as u64)
    }

    /// The pointer to `len` bytes at `addr`; `None`: they are not all in one chunk of this half.
    fn pointer_to(&self, addr: u64, len: usize) -> Option<*mut u8> {
        let chunk = self.chunk_of(addr)?;
        let within = (addr - chunk) as usize;
        if len > CHUNK - within {
            return None;
        }
        debug_assert!(addr as usize + len <= self.memory.len());
        // SAFETY: the mapping contains both halves, and `addr` is in this half, so the pointer is inside the mapping.
        Some(unsafe { self.memory.base().as_ptr().add(addr as usize) })
    }

    /// Copies `out.len()` bytes from `addr`; `None`: they are not all in one chunk of this half.
    pub fn read(&self, addr: u64, out: &mut [u8]) -> Option<()> {
        let from = self.pointer_to(addr, out.len())?;
        // SAFETY: `pointer_to` checked that these bytes are inside the mapping; `out` is the switch's own memory. Nothing else
        // writes the bytes: this half has one owner, and the kernel released the chunk when it put the chunk on the ring.
        unsafe { std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) };
        Some(())
    }

    /// Copies `bytes` to `addr`; `None`: they do not fit into one chunk of this half.
    pub fn write(&mut self, addr: u64, bytes: &[u8]) -> Option<()> {
        let to = self.pointer_to(addr, bytes.len())?;
        // SAFETY: `pointer_to` checked that these bytes are inside the mapping; `&mut self` is the only way to write this half.
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
    /// The receiver's half of the memory.
    pub chunks: Chunks,
}

/// The sender's half of a socket.
pub struct TxHalf {
    /// Ring of packets to be sent.
    pub tx: Producer<Desc>,
    /// Ring of chunks whose packets were sent.
    pub completion: Consumer<u64>,
    /// The sender's half of the memory.
    pub chunks: Chunks,
    /// Whether the kernel completes checksums: in copy mode since Linux 6.8.
    pub checksums: bool,
}

impl TxHalf {
    /// Writes a packet to a free chunk. `checksum`: (start, offset) of a checksum that the kernel must compute. The kernel sums from byte `start`
    /// and stores the result at `start + offset`. `None`: the packet does not fit, or the checksum's position is not in the packet.
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

/// The metadata that requests a checksum of `packet`. `None`: the checksum's position is not in the packet. The kernel would try to send
/// such a packet again for ever.
pub fn metadata(packet: &[u8], (start, offset): (u16, u16)) -> Option<[u8; 12]> {
    packet.get(usize::from(start) + usize::from(offset)..)?.get(..2)?;
    let mut metadata = [0; 12];
    metadata[..8].copy_from_slice(&METADATA_CHECKSUM.to_ne_bytes());
    metadata[8..10].copy_from_slice(&start.to_ne_bytes());
    metadata[10..].copy_from_slice(&offset.to_ne_bytes());
    Some(metadata)
}

/// A bound socket.
pub struct Xsk {
    /// The socket's file descriptor, readable while packets wait.
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

/// Opens a socket on queue `queue` of the device. `depth`: number of chunks of the receiver's half, at most [`RING_ENTRIES`]; all are
/// put on the fill ring.
pub fn open(ifindex: u32, queue: u32, transfer: Transfer, depth: u32) -> io::Result<Xsk> {
    let fd = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    // Without the permission to exceed the system's limit, the limit applies.
    let _ = sockopt::set_socket_send_buffer_size_force(&fd, SEND_BUFFER);
    let depth = depth.clamp(1, RING_ENTRIES);
    let (rx_bytes, tx_bytes) = (u64::from(depth) * CHUNK as u64, u64::from(RING_ENTRIES) * CHUNK as u64);
    let memory = Arc::new(Mapping::anonymous((rx_bytes + tx_bytes) as usize)?);
    let checksums = transfer == Transfer::Copy && register(&fd, &memory, CHUNK as u32, true).is_ok();
    if !checksums {
        register(&fd, &memory, CHUNK as u32, false)?;
    }
    let Rings { mut fill, rx, tx, completion } = map_rings(fd.as_fd(), RING_ENTRIES, || Ok(()))?;
    let chunks = Chunks { memory: Arc::clone(&memory), first: 0, bytes: rx_bytes };
    fill.put(&chunks.addresses().collect::<Vec<_>>());
    let rx = RxHalf { fill, rx, chunks };
    let tx =
        TxHalf { tx, completion, chunks: Chunks { memory, first: rx_bytes, bytes: tx_bytes }, checksums };
    let transfer_flag = match transfer {
        Transfer::Copy => SocketAddrXdpFlags::XDP_COPY,
        Transfer::Zerocopy => SocketAddrXdpFlags::XDP_ZEROCOPY,
    };
    let flags = transfer_flag | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
    bind(&fd, &SocketAddrXdp::new(flags, ifindex, queue))?;
    Ok(Xsk { fd: Arc::new(fd), rx, tx })
}

/// Registers the memory for the socket. `with_metadata`: packets to be sent have metadata in front.
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
