//! The XDP program that redirects a device's packets to AF_XDP sockets.
//!
//! The program has six instructions, which are written here directly, so no BPF compiler, loader or object file is
//! needed. It is attached by a BPF link, which the kernel removes when the link's file descriptor is closed, however the process
//! ends. Packets of a queue without a socket continue to the kernel's network stack. Needs Linux 5.9.
//!
//! Sources: bpf(2); linux/bpf.h.

use super::check;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;
const LINK_DETACH: libc::c_int = 34;

const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;

const LICENCE: &CStr = c"Apache-2.0";
const NAME: &[u8; 12] = b"sluice_afxdp";

/// Where the kernel runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// In the stack, for any device (`XDP_FLAGS_SKB_MODE`).
    Generic,
    /// In the driver (`XDP_FLAGS_DRV_MODE`).
    Driver,
}

/// One instruction, `struct bpf_insn`: operation, registers (destination in the low half), offset, immediate value.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction(u8, u8, i16, i32);

#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
}

#[repr(C)]
struct MapUpdate {
    map_fd: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    count: u32,
    instructions: u64,
    licence: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
}

#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    ifindex: u32,
    attach_type: u32,
    flags: u32,
}

/// An attached program with its map from queues to sockets. Dropping it detaches the program.
pub struct Redirect {
    sockets: OwnedFd,
    link: OwnedFd,
}

impl Redirect {
    /// Attaches a program for the first `queues` queues, without sockets. `EBUSY`: another program is attached.
    pub fn attach(ifindex: u32, queues: u32, hook: Hook) -> io::Result<Redirect> {
        let sockets = create_map(queues)?;
        let program = load(&sockets)?;
        let flags = match hook {
            Hook::Generic => 1 << 1,
            Hook::Driver => 1 << 2,
        };
        let attr =
            LinkCreate { prog_fd: program.as_raw_fd() as u32, ifindex, attach_type: ATTACH_XDP, flags };
        // SAFETY: the struct is a prefix of the union `bpf_attr` for this command and contains no pointer.
        let link = unsafe { descriptor(LINK_CREATE, &attr) }?;
        Ok(Redirect { sockets, link })
    }

    /// Redirects packets of `queue` to this socket from now on, until the socket is closed.
    pub fn set(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let value = socket.as_raw_fd() as u32;
        let attr = MapUpdate {
            map_fd: self.sockets.as_raw_fd() as u32,
            _pad: 0,
            key: address(&queue),
            value: address(&value),
            flags: 0,
        };
        // SAFETY: key and value have four bytes each, the sizes with which the map was created, and live until the call returns.
        unsafe { bpf(MAP_UPDATE_ELEM, &attr) }?;
        Ok(())
    }
}

impl Drop for Redirect {
    /// Detaches the program explicitly. A child process that is being started holds a copy of the link's file descriptor until it executes
    /// its program. Until then the XDP program would stay attached, and attaching it in another mode would fail (`EEXIST`).
    fn drop(&mut self) {
        let link = self.link.as_raw_fd() as u32;
        // SAFETY: this command reads only the link's number. If the command fails (Linux before 5.11), closing the file descriptor
        // detaches the program.
        let _ = unsafe { bpf(LINK_DETACH, &link) };
    }
}

fn create_map(queues: u32) -> io::Result<OwnedFd> {
    let attr =
        MapCreate { map_type: MAP_TYPE_XSKMAP, key_size: 4, value_size: 4, max_entries: queues, flags: 0 };
    // SAFETY: the struct is a prefix of the union `bpf_attr` for this command and contains no pointer.
    unsafe { descriptor(MAP_CREATE, &attr) }
}

/// Loads the program: it redirects a packet to the socket of the packet's queue, or passes it to the stack if there is no socket.
fn load(sockets: &OwnedFd) -> io::Result<OwnedFd> {
    const XDP_PASS: i32 = 2;
    const RX_QUEUE_INDEX: i16 = 16;
    const MAP_BY_DESCRIPTOR: u8 = 1 << 4;
    const REDIRECT_MAP: i32 = 51;
    let program = [
        // r2 = the number of the rx queue (struct xdp_md).
        Instruction(0x61, 0x12, RX_QUEUE_INDEX, 0),
        // r1 = the map (one instruction in two words).
        Instruction(0x18, 0x01 | MAP_BY_DESCRIPTOR, 0, sockets.as_raw_fd()),
        Instruction(0, 0, 0, 0),
        // r3 = the action if the queue has no socket.
        Instruction(0xb7, 0x03, 0, XDP_PASS),
        Instruction(0x85, 0, 0, REDIRECT_MAP),
        Instruction(0x95, 0, 0, 0),
    ];
    let mut name = [0; 16];
    name[..NAME.len()].copy_from_slice(NAME);
    let attr = ProgLoad {
        prog_type: PROG_TYPE_XDP,
        count: program.len() as u32,
        instructions: address(&program),
        licence: LICENCE.as_ptr().expose_provenance() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name,
    };
    // SAFETY: `program` has `count` instructions and the licence ends with a zero byte; both live until the call returns. No
    // log is requested.
    unsafe { descriptor(PROG_LOAD, &attr) }
}

fn address<T>(value: &T) -> u64 {
    std::ptr::from_ref(value).expose_provenance() as u64
}

/// Executes a command of bpf(2).
///
/// # Safety
///
/// `attr` has the layout that bpf(2) defines for `command`, and every pointer in it is valid for what the command does with it.
unsafe fn bpf<T>(command: libc::c_int, attr: &T) -> io::Result<usize> {
    let attr_len = size_of::<T>();
    // SAFETY: the kernel reads `attr_len` bytes, the size of `attr`. The caller guarantees layout and pointers.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attr), attr_len) };
    check(result as isize)
}

/// Executes a command of bpf(2) that creates a file descriptor.
///
/// # Safety
///
/// As for `bpf`, and the command returns a new file descriptor.
unsafe fn descriptor<T>(command: libc::c_int, attr: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller guarantees the command's requirements. The file descriptor is new, so nothing else owns it.
    unsafe { bpf(command, attr).map(|fd| OwnedFd::from_raw_fd(fd as libc::c_int)) }
}
