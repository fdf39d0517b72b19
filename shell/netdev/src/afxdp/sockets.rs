//! Opens the program and the sockets of a port together.

use super::options::XdpMode;
use crate::linux::bpf::{Hook, Redirect};
use crate::linux::umem_socket::UmemSocket;
use crate::linux::xsk::{Transfer, Xsk};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// The program and the sockets of a device.
pub struct Sockets<S> {
    /// The program. Dropping it detaches it; then the kernel's network stack receives the packets.
    pub program: Redirect,
    /// The mode in use.
    pub mode: XdpMode,
    /// One socket per queue.
    pub sockets: Vec<S>,
}

/// A socket to which packets can be redirected.
pub trait Socket {
    /// Its file descriptor.
    fn fd(&self) -> &OwnedFd;
}

impl Socket for Xsk {
    fn fd(&self) -> &OwnedFd {
        &self.fd
    }
}

impl Socket for UmemSocket {
    fn fd(&self) -> &OwnedFd {
        &self.socket_use.fd
    }
}

/// Opens program and sockets in the first of `modes` that works. `each` opens the socket of a queue by its number. If no
/// mode works, the error is that of the last one. The kernel releases a queue some time after its last socket was closed,
/// so a busy device is tried again for 250 ms.
pub fn open<S: Socket>(
    ifindex: u32,
    queues: u32,
    modes: &[XdpMode],
    each: impl Fn(u32, Transfer) -> io::Result<S>,
) -> io::Result<Sockets<S>> {
    const TRIES: u32 = 50;
    const STEP: Duration = Duration::from_millis(5);
    for _ in 0..TRIES {
        match open_best(ifindex, queues, modes, &each) {
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => std::thread::sleep(STEP),
            other => return other,
        }
    }
    open_best(ifindex, queues, modes, &each)
}

fn open_best<S: Socket>(
    ifindex: u32,
    queues: u32,
    modes: &[XdpMode],
    each: &impl Fn(u32, Transfer) -> io::Result<S>,
) -> io::Result<Sockets<S>> {
    let mut failure = io::Error::from(io::ErrorKind::InvalidInput);
    for mode in modes {
        match open_in(ifindex, queues, *mode, each) {
            Ok(sockets) => return Ok(sockets),
            // Another program or socket uses the device; other modes would fail, too.
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => return Err(e),
            Err(e) => failure = e,
        }
    }
    Err(failure)
}

/// Opens program and sockets in one mode.
fn open_in<S: Socket>(
    ifindex: u32,
    queues: u32,
    mode: XdpMode,
    each: &impl Fn(u32, Transfer) -> io::Result<S>,
) -> io::Result<Sockets<S>> {
    let (hook, transfer) = match mode {
        XdpMode::NativeZerocopy => (Hook::Driver, Transfer::Zerocopy),
        XdpMode::Native => (Hook::Driver, Transfer::Copy),
        XdpMode::Generic | XdpMode::BestEffort => (Hook::Generic, Transfer::Copy),
    };
    let program = Redirect::attach(ifindex, queues, hook)?;
    let mut sockets = Vec::new();
    for queue in 0..queues {
        let socket = each(queue, transfer)?;
        program.set(queue, socket.fd().as_fd())?;
        sockets.push(socket);
    }
    Ok(Sockets { program, mode, sockets })
}
