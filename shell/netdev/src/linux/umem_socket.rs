//! A socket on one queue of a device that shares a umem with other sockets.

use super::umem::{SocketSide, Umem};
use super::xsk::{self, RING_ENTRIES};
use super::xsk_ring::{Consumer, Desc, Producer};
use rustix::net::sockopt;
use rustix::net::xdp::{SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use rxpool::PoolSlot;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, PoisonError};

/// A socket's use of a umem. After its last owner has dropped it, [`Umem::collect`] frees the socket's buffers.
pub struct SocketUse {
    /// The socket's file descriptor, readable while packets wait.
    pub fd: Arc<OwnedFd>,
    /// The umem.
    pub umem: &'static Umem,
    /// The receiving and the sending side.
    pub sides: [SocketSide; 2],
    /// The pool slots for received frames, and for copies that are sent.
    pub slots: [PoolSlot; 2],
}

impl Drop for SocketUse {
    fn drop(&mut self) {
        self.umem.retire(Arc::downgrade(&self.fd), self.sides, self.slots);
    }
}

/// A bound socket.
pub struct UmemSocket {
    /// Its use of the umem.
    pub socket_use: Arc<SocketUse>,
    /// Ring of free buffers.
    pub fill: Producer<u64>,
    /// Ring of received packets.
    pub rx: Consumer<Desc>,
    /// Ring of packets to be sent.
    pub tx: Producer<Desc>,
    /// Ring of buffers whose packets were sent.
    pub completion: Consumer<u64>,
}

/// Opens a socket on queue `queue` of the device, in copy mode. Nothing is posted yet.
pub fn open(umem: &'static Umem, slots: [PoolSlot; 2], ifindex: u32, queue: u32) -> io::Result<UmemSocket> {
    let fd = Arc::new(socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)?);
    let socket_use = Arc::new(SocketUse { fd: Arc::clone(&fd), umem, sides: umem.new_sides(), slots });
    // Without the permission to exceed the system's limit, the limit applies.
    let _ = sockopt::set_socket_send_buffer_size_force(&*fd, xsk::SEND_BUFFER);
    let rings = xsk::map_rings(fd.as_fd(), RING_ENTRIES, || join(umem, &fd, ifindex, queue))?;
    umem.sockets.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&fd));
    let xsk::Rings { fill, rx, tx, completion } = rings;
    Ok(UmemSocket { socket_use, fill, rx, tx, completion })
}

/// Binds the socket to the device. To share the umem, the kernel needs another socket that is bound to the umem: the first
/// one in the list that is still open.
fn join(umem: &'static Umem, fd: &OwnedFd, ifindex: u32, queue: u32) -> io::Result<()> {
    let mut sockets = umem.sockets.lock().unwrap_or_else(PoisonError::into_inner);
    while let Some(other) = sockets.first() {
        let Some(other) = other.upgrade() else {
            sockets.remove(0);
            continue;
        };
        let addr = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_SHARED_UMEM, ifindex, queue);
        match bind(fd, &SocketAddrXdpWithSharedUmem { addr, shared_umem_fd: other.as_fd() }) {
            // The other socket's device is gone, so that socket is not bound any more.
            Err(rustix::io::Errno::BADF) => drop(sockets.remove(0)),
            result => return Ok(result?),
        }
    }
    let checksums = xsk::register(fd, umem.memory(), umem.chunk(), true).is_ok();
    if !checksums {
        xsk::register(fd, umem.memory(), umem.chunk(), false)?;
    }
    umem.checksums.get_or_init(|| checksums);
    let flags = SocketAddrXdpFlags::XDP_COPY | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
    Ok(bind(fd, &SocketAddrXdp::new(flags, ifindex, queue))?)
}
