//! A packet socket on one interface, or on all: raw frames in both directions.
//!
//! A socket is created without a protocol and bound after its options are set, so that neither a frame of another interface
//! nor a frame without a vnet header is queued on it. Source: packet(7).

use super::check;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Size of a socket's receive and send buffer, in bytes of packets. The kernel sets twice this size as the limit, because it counts a 64
/// KB segment with about twice its length. 8 MiB are a few TCP windows; the default limit (208 KiB) is full after two segments.
const BUFFER_BYTES: libc::c_int = 8 << 20;

/// Opens a promiscuous socket that is bound to the interface. It does not receive frames that the interface sends.
pub fn open(ifindex: u32) -> io::Result<OwnedFd> {
    let fd = open_unbound()?;
    let index = make_promiscuous(&fd, ifindex)?;
    bind(&fd, index, libc::ETH_P_ALL as u16)?;
    Ok(fd)
}

/// Opens a socket with the options for receiving. It receives nothing until it is bound.
pub fn open_unbound() -> io::Result<OwnedFd> {
    let fd = socket()?;
    let one: libc::c_int = 1;
    set_option(&fd, libc::SOL_PACKET, libc::PACKET_AUXDATA, &one)?;
    set_option(&fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &one)?;
    // Fails in Linux before 4.20. There, the receiver recognizes outgoing frames by their packet type.
    let _ = set_option(&fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &one);
    for option in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
        set_option(&fd, libc::SOL_SOCKET, option, &BUFFER_BYTES)?;
    }
    Ok(fd)
}

/// Binds a socket to all interfaces.
pub fn bind_all(fd: &OwnedFd) -> io::Result<()> {
    bind(fd, 0, libc::ETH_P_ALL as u16)
}

/// Replaces the socket's filter by this program.
pub fn set_filter(fd: &OwnedFd, program: &mut [libc::sock_filter]) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program_of(program)?)
}

fn program_of(program: &mut [libc::sock_filter]) -> io::Result<libc::sock_fprog> {
    let too_long = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let len = u16::try_from(program.len()).map_err(too_long)?;
    Ok(libc::sock_fprog { len, filter: program.as_mut_ptr() })
}

/// Makes bound sockets a fanout group: the kernel passes each packet to one of them. Program `select` chooses the socket; without a
/// program, the hash of the packet's flow chooses it, which is the same in both directions.
pub fn join_fanout_group(sockets: &[OwnedFd], select: Option<&mut [libc::sock_filter]>) -> io::Result<()> {
    const BY_FLOW: u32 = 0;
    const BY_PROGRAM: u32 = 6;
    const UNIQUE_ID: u32 = 0x2000;
    let Some((first, others)) = sockets.split_first() else { return Ok(()) };
    let kind = if select.is_some() { BY_PROGRAM } else { BY_FLOW };
    // With UNIQUE_ID the kernel chooses the number of the group. The number is in the low 16 bits.
    set_option(first, libc::SOL_PACKET, libc::PACKET_FANOUT, &((kind | UNIQUE_ID) << 16))?;
    let id = get_option(first, libc::PACKET_FANOUT, 0u32)? & 0xffff;
    for socket in others {
        set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &(kind << 16 | id))?;
    }
    match select {
        Some(program) => set_option(first, libc::SOL_PACKET, libc::PACKET_FANOUT_DATA, &program_of(program)?),
        None => Ok(()),
    }
}

/// Sets the maximum number of bytes that the kernel queues for the socket, as the kernel counts them.
pub fn set_receive_buffer(fd: &OwnedFd, bytes: u32) -> io::Result<()> {
    // The kernel doubles the value.
    let half = libc::c_int::try_from(bytes / 2).unwrap_or(libc::c_int::MAX);
    set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &half)
}

/// Opens a socket that only sends through the interface, for packets with a priority.
pub fn open_sender(ifindex: u32) -> io::Result<OwnedFd> {
    let fd = open_shared_sender()?;
    let index = libc::c_int::try_from(ifindex).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    bind(&fd, index, 0)?;
    Ok(fd)
}

/// Sets the priority of packets sent from now on, which selects their class in a queueing discipline.
pub fn set_priority(fd: &OwnedFd, priority: u32) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_PRIORITY, &priority)
}

/// Opens a socket that only sends, each packet through the interface that the packet's address contains.
pub fn open_shared_sender() -> io::Result<OwnedFd> {
    let fd = socket()?;
    let one: libc::c_int = 1;
    set_option(&fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &one)?;
    set_option(&fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &BUFFER_BYTES)?;
    Ok(fd)
}

/// Makes the interface promiscuous until the socket is closed; `on` = false ends that earlier.
pub fn set_promiscuous(fd: &OwnedFd, ifindex: u32, on: bool) -> io::Result<()> {
    if on {
        return make_promiscuous(fd, ifindex).map(|_| ());
    }
    set_option(fd, libc::SOL_PACKET, libc::PACKET_DROP_MEMBERSHIP, &promiscuity(ifindex)?)
}

/// Makes the interface promiscuous until the returned socket is closed. The socket receives nothing.
pub fn open_promiscuous(ifindex: u32) -> io::Result<OwnedFd> {
    let fd = socket()?;
    make_promiscuous(&fd, ifindex)?;
    Ok(fd)
}

fn promiscuity(ifindex: u32) -> io::Result<libc::packet_mreq> {
    let index = libc::c_int::try_from(ifindex).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    Ok(libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    })
}

fn make_promiscuous(fd: &OwnedFd, ifindex: u32) -> io::Result<libc::c_int> {
    let membership = promiscuity(ifindex)?;
    set_option(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)?;
    Ok(membership.mr_ifindex)
}

/// Number of frames that the kernel dropped since the last call because the socket's buffer was full.
pub fn take_drops(fd: &OwnedFd) -> io::Result<u64> {
    // struct tpacket_stats: packets (dropped ones included), drops.
    Ok(u64::from(get_option(fd, libc::PACKET_STATISTICS, [0u32; 2])?[1]))
}

/// Reads an option of a packet socket. `value` is the input of the option, if it has one.
fn get_option<T: Copy>(fd: &OwnedFd, name: libc::c_int, mut value: T) -> io::Result<T> {
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` has the `len` bytes that are passed, and the kernel writes no more than that. The two callers read
    // integers, for which every bit pattern is valid.
    check(unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_PACKET, name, (&raw mut value).cast(), &raw mut len)
    } as isize)?;
    Ok(value)
}

fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the arguments of socket(2) are integers.
    let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) } as isize)?;
    // SAFETY: the call succeeded, so this is a new file descriptor without another owner. It was a c_int, so the cast is lossless.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

fn set_option<T: Copy>(fd: &OwnedFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads at most `len` bytes, the size of `value`, which is borrowed until the call returns. In a `sock_fprog`, the
    // pointer and length are those of a slice that the caller has borrowed.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), len) }
        as isize)?;
    Ok(())
}

/// Binds the socket. Without a protocol (0) it receives nothing.
fn bind(fd: &OwnedFd, ifindex: libc::c_int, protocol: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: ifindex,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: `address` is a complete sockaddr_ll and `len` its size; the kernel copies it before it returns.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) } as isize)?;
    Ok(())
}
