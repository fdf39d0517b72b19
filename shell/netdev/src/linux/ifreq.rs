//! Interface requests by `ioctl(2)`: flags, MTU, hardware address, ethtool.
//!
//! The requests use a temporary datagram socket in the caller's network namespace and identify the interface by name. The
//! name may meanwhile belong to another interface, so the caller first looks up the present name of the index (`crate::rtnl`).

use super::check;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Maximum length of an interface name in Linux, without the final zero.
pub const NAME_MAX: usize = libc::IFNAMSIZ - 1;

const ETHTOOL_GSET: u32 = 1;
const ETHTOOL_GDRVINFO: u32 = 3;
const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// `struct ifreq`. Its union is a byte array, whose meaning depends on the request.
#[repr(C, align(8))]
pub struct IfReq {
    name: [u8; libc::IFNAMSIZ],
    data: [u8; 24],
}

const _: () = assert!(size_of::<IfReq>() == size_of::<libc::ifreq>());

impl IfReq {
    /// An empty request for interface `name`.
    pub fn new(name: &str) -> io::Result<IfReq> {
        let bytes = name.as_bytes();
        if bytes.is_empty() || bytes.contains(&0) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        if bytes.len() > NAME_MAX {
            return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
        }
        let mut request = IfReq { name: [0; libc::IFNAMSIZ], data: [0; 24] };
        request.name[..bytes.len()].copy_from_slice(bytes);
        Ok(request)
    }

    /// Sets the first 16 bits of the union (flags).
    pub fn set_u16(&mut self, value: u16) {
        self.data[..2].copy_from_slice(&value.to_ne_bytes());
    }

    /// The first 16 bits of the union.
    pub fn u16(&self) -> u16 {
        u16::from_ne_bytes([self.data[0], self.data[1]])
    }

    fn set_i32(&mut self, value: i32) {
        self.data[..4].copy_from_slice(&value.to_ne_bytes());
    }

    /// Performs a request whose only argument is this struct.
    pub fn ioctl(&mut self, fd: BorrowedFd<'_>, request: PlainRequest) -> io::Result<()> {
        let number = request as libc::c_ulong;
        // SAFETY: every `PlainRequest` has a `struct ifreq` as argument, which `IfReq` equals in size and
        // alignment, and the kernel follows no pointer in it. `self` is borrowed exclusively until the call returns.
        check(unsafe { libc::ioctl(fd.as_raw_fd(), number, std::ptr::from_mut(self)) } as isize)?;
        Ok(())
    }
}

/// Requests whose argument is a `struct ifreq` without pointers.
#[derive(Clone, Copy)]
#[repr(u64)]
pub enum PlainRequest {
    /// Read the interface's flags.
    GetFlags = libc::SIOCGIFFLAGS,
    /// Set the interface's flags.
    SetFlags = libc::SIOCSIFFLAGS,
    /// Set the MTU.
    SetMtu = libc::SIOCSIFMTU,
    /// Set the hardware address.
    SetHwaddr = libc::SIOCSIFHWADDR,
    /// Create a tun device or attach to it.
    TunSetIff = libc::TUNSETIFF,
    /// Read the name of the device that a tun file descriptor is attached to.
    TunGetIff = libc::TUNGETIFF,
}

fn control_socket() -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    Ok(socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

fn plain(request: &mut IfReq, what: PlainRequest) -> io::Result<()> {
    use std::os::fd::AsFd;
    request.ioctl(control_socket()?.as_fd(), what)
}

/// Sets or clears `IFF_UP`. Other flags are unchanged.
pub fn set_up(name: &str, up: bool) -> io::Result<()> {
    let mut request = IfReq::new(name)?;
    plain(&mut request, PlainRequest::GetFlags)?;
    let old = request.u16();
    let bit = libc::IFF_UP as u16;
    let new = if up { old | bit } else { old & !bit };
    if new == old {
        return Ok(());
    }
    request.set_u16(new);
    plain(&mut request, PlainRequest::SetFlags)
}

/// Sets the MTU.
pub fn set_mtu(name: &str, mtu: u32) -> io::Result<()> {
    let mut request = IfReq::new(name)?;
    request.set_i32(i32::try_from(mtu).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?);
    plain(&mut request, PlainRequest::SetMtu)
}

/// Sets the Ethernet address.
pub fn set_mac(name: &str, mac: [u8; 6]) -> io::Result<()> {
    let mut request = IfReq::new(name)?;
    request.set_u16(libc::ARPHRD_ETHER);
    request.data[2..8].copy_from_slice(&mac);
    plain(&mut request, PlainRequest::SetHwaddr)
}

/// Executes an ethtool command with a reply of `N` bytes, whose first four bytes contain the command.
fn ethtool<const N: usize>(name: &str, command: u32) -> io::Result<[u8; N]> {
    let mut answer = [0u8; N];
    answer[..4].copy_from_slice(&command.to_ne_bytes());
    let mut request = IfReq::new(name)?;
    let socket = control_socket()?;
    let address = answer.as_mut_ptr().expose_provenance();
    request.data[..size_of::<usize>()].copy_from_slice(&address.to_ne_bytes());
    // SAFETY: SIOCETHTOOL reads a `struct ifreq` whose union contains a pointer to the command's
    // struct. The two callers pass as N the size of the struct that their command writes
    // (44 for GSET, 196 for GDRVINFO), and `answer` lives until the call returns.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) } as isize)?;
    Ok(answer)
}

/// Reads `struct ethtool_cmd`: speed, duplex and modes of a link.
pub fn ethtool_settings(name: &str) -> io::Result<[u8; 44]> {
    ethtool(name, ETHTOOL_GSET)
}

/// Reads `struct ethtool_drvinfo`: the driver's name and versions.
pub fn ethtool_driver(name: &str) -> io::Result<[u8; 196]> {
    ethtool(name, ETHTOOL_GDRVINFO)
}
