//! The XDP program that passes a device's packets to AF_XDP sockets.
//!
//! The program has six instructions, which are written here directly: no BPF compiler, loader or object file is
//! needed. It is attached by a BPF link, which the kernel removes when its descriptor is closed, however the process
//! ends. Packets without a socket go to the kernel's stack. Needs Linux 5.9.
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

/// One instruction, `struct bpf_insn`: operation, registers (destination low), offset, number.
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

/// An attached program with its map from queues to sockets. Dropping it detaches it.
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
        // SAFETY: the struct is a prefix of the union for this command and holds no pointer.
        let link = unsafe { descriptor(LINK_CREATE, &attr) }?;
        Ok(Redirect { sockets, link })
    }

    /// Passes packets of `queue` to this socket from now on, until it is closed.
    pub fn set(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let value = socket.as_raw_fd() as u32;
        let attr = MapUpdate {
            map_fd: self.sockets.as_raw_fd() as u32,
            _pad: 0,
            key: address(&queue),
            value: address(&value),
            flags: 0,
        };
        // SAFETY: key and value are four bytes each, as the map was created, and live across the call.
        unsafe { bpf(MAP_UPDATE_ELEM, &attr) }?;
        Ok(())
    }
}

impl Drop for Redirect {
    /// Detaches explicitly: a child process that is being started holds a copy of the descriptor until it executes its
    /// program, and the program would stay attached until then; an attachment in another mode would fail (`EEXIST`).
    fn drop(&mut self) {
        let link = self.link.as_raw_fd() as u32;
        // SAFETY: the command's struct is this number alone. If it fails (Linux before 5.11), closing the descriptor
        // detaches.
        let _ = unsafe { bpf(LINK_DETACH, &link) };
    }
}

fn create_map(queues: u32) -> io::Result<OwnedFd> {
    let attr =
        MapCreate { map_type: MAP_TYPE_XSKMAP, key_size: 4, value_size: 4, max_entries: queues, flags: 0 };
    // SAFETY: the struct is a prefix of the union for this command and holds no pointer.
    unsafe { descriptor(MAP_CREATE, &attr) }
}

/// Loads the program: redirect to the socket of the packet's queue; without one, pass to the stack.
fn load(sockets: &OwnedFd) -> io::Result<OwnedFd> {
    const XDP_PASS: i32 = 2;
    const RX_QUEUE_INDEX: i16 = 16;
    const MAP_BY_DESCRIPTOR: u8 = 1 << 4;
    const REDIRECT_MAP: i32 = 51;
    let program = [
        // r2 = the number of the queue (struct xdp_md).
        Instruction(0x61, 0x12, RX_QUEUE_INDEX, 0),
        // r1 = the map (an instruction of two words).
        Instruction(0x18, 0x01 | MAP_BY_DESCRIPTOR, 0, sockets.as_raw_fd()),
        Instruction(0, 0, 0, 0),
        // r3 = the action if there is no socket.
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
    // SAFETY: `program` holds `count` instructions, the licence ends with a zero, both live across the call, and no
    // log is asked for.
    unsafe { descriptor(PROG_LOAD, &attr) }
}

fn address<T>(value: &T) -> u64 {
    std::ptr::from_ref(value).expose_provenance() as u64
}

/// # Safety
///
/// `attr` is laid out as bpf(2) says for `command`, and every pointer in it is valid for what the command does with it.
unsafe fn bpf<T>(command: libc::c_int, attr: &T) -> io::Result<usize> {
    let attr_len = size_of::<T>();
    // SAFETY: the kernel reads `attr_len` bytes of a struct of that size; the rest is the caller's promise.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attr), attr_len) };
    check(result as isize)
}

/// # Safety
///
/// As for `bpf`, and the command gives a new descriptor.
unsafe fn descriptor<T>(command: libc::c_int, attr: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise; the descriptor is new and nothing else owns it.
    unsafe { bpf(command, attr).map(|fd| OwnedFd::from_raw_fd(fd as libc::c_int)) }
}
