//! The tun driver: creates TAP devices.
//!
//! Source: Documentation/networking/tuntap of Linux. A persistent device outlives its file descriptor; a later open by name attaches to it.

use super::check;
use super::ifreq::{IfReq, PlainRequest};
use packet::gso::GsoKinds;
use packet::vnet;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

const IFF_TAP: u16 = 0x0002;
const IFF_NO_PI: u16 = 0x1000;
const IFF_VNET_HDR: u16 = 0x4000;
/// Offloads that frames from the device may request: checksums and TCP segmentation (`TUN_F_CSUM`, `TSO4`, `TSO6`, `TSO_ECN`).
const OFFLOADS: libc::c_ulong = 0x01 | 0x02 | 0x04 | 0x08;
/// UDP segmentation (`TUN_F_USO4`, `USO6`), which Linux accepts since 6.2.
const UDP_OFFLOADS: libc::c_ulong = 0x20 | 0x40;

/// Whether this kernel has accepted `UDP_OFFLOADS`.
static SEGMENTS_UDP: AtomicBool = AtomicBool::new(false);

/// The kinds of segmentation that this kernel performs for frames that are written to a TAP device or a packet socket. UDP is contained as
/// soon as the kernel has accepted its flags for a TAP device: the same release of Linux accepts these frames.
pub fn kernel_segmentation() -> GsoKinds {
    GsoKinds::TCP.with_if(SEGMENTS_UDP.load(Ordering::Relaxed), GsoKinds::UDP)
}

/// Creates the TAP device `name`, or attaches to an existing one. Its frames have a vnet header.
pub fn open_tap(name: &str) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let mut request = IfReq::new(name)?;
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
    request.set_u16(IFF_TAP | IFF_NO_PI | IFF_VNET_HDR);
    request.ioctl(fd.as_fd(), PlainRequest::TunSetIff)?;
    // A kernel that does not know a flag refuses all of them.
    match set(&fd, libc::TUNSETOFFLOAD, OFFLOADS | UDP_OFFLOADS) {
        Ok(()) => SEGMENTS_UDP.store(true, Ordering::Relaxed),
        Err(_) => set(&fd, libc::TUNSETOFFLOAD, OFFLOADS)?,
    }
    Ok(fd)
}

/// Sets whether the device outlives the file descriptor.
pub fn set_persistent(fd: &OwnedFd, persistent: bool) -> io::Result<()> {
    set(fd, libc::TUNSETPERSIST, persistent.into())
}

/// Whether the file descriptor still has its device, in any network namespace.
pub fn is_attached(fd: &OwnedFd) -> bool {
    IfReq::new("tun").and_then(|mut request| request.ioctl(fd.as_fd(), PlainRequest::TunGetIff)).is_ok()
}

fn set(fd: &OwnedFd, request: libc::c_ulong, value: libc::c_ulong) -> io::Result<()> {
    // SAFETY: the argument of TUNSETPERSIST and TUNSETOFFLOAD is a number, not a pointer.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request, value) } as isize)?;
    Ok(())
}

/// Reads one frame: the vnet header separately, the frame into the two buffers in sequence. Returns the frame's length.
pub fn read(
    fd: &OwnedFd,
    vnet: &mut [u8; vnet::LEN],
    [first, second]: &mut [&mut [u8]; 2],
) -> io::Result<usize> {
    let vectors = &mut [IoSliceMut::new(vnet), IoSliceMut::new(first), IoSliceMut::new(second)];
    let n = rustix::io::readv(fd, vectors)?;
    n.checked_sub(vnet::LEN).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Writes one frame.
pub fn write(fd: &OwnedFd, vnet: &[u8; vnet::LEN], frame: &[u8]) -> io::Result<()> {
    rustix::io::writev(fd, &[IoSlice::new(vnet), IoSlice::new(frame)])?;
    Ok(())
}
