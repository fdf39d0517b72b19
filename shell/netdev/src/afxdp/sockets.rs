//! The program and the sockets of a port, opened together.

use super::options::{Options, XdpMode};
use crate::linux::bpf::{Hook, Redirect};
use crate::linux::xsk::{self, Transfer, Xsk};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// The program and the sockets of a device.
pub struct Sockets {
    /// The program; dropping it detaches it, and the kernel's stack gets the packets again.
    pub program: Redirect,
    /// The mode in use.
    pub mode: XdpMode,
    /// One socket per queue.
    pub sockets: Vec<Xsk>,
}

/// Opens them in the fastest requested mode that works; the error is that of the last mode. The kernel frees a queue
/// some time after its last socket was closed, so a busy device is retried for 250 ms.
pub fn open(ifindex: u32, options: &Options) -> io::Result<Sockets> {
    const TRIES: u32 = 50;
    const STEP: Duration = Duration::from_millis(5);
    for _ in 0..TRIES {
        match open_best(ifindex, options) {
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => std::thread::sleep(STEP),
            other => return other,
        }
    }
    open_best(ifindex, options)
}

fn open_best(ifindex: u32, options: &Options) -> io::Result<Sockets> {
    let mut failure = io::Error::from(io::ErrorKind::InvalidInput);
    for mode in options.mode.candidates() {
        match open_in(ifindex, options.n_rxq, *mode) {
            Ok(sockets) => return Ok(sockets),
            // Another program uses the device; other modes would fail as well.
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => return Err(e),
            Err(e) => failure = e,
        }
    }
    Err(failure)
}

fn open_in(ifindex: u32, queues: u32, mode: XdpMode) -> io::Result<Sockets> {
    let (hook, transfer) = match mode {
        XdpMode::NativeZerocopy => (Hook::Driver, Transfer::Zerocopy),
        XdpMode::Native => (Hook::Driver, Transfer::Copy),
        XdpMode::Generic | XdpMode::BestEffort => (Hook::Generic, Transfer::Copy),
    };
    let program = Redirect::attach(ifindex, queues, hook)?;
    let mut sockets = Vec::new();
    for queue in 0..queues {
        let socket = xsk::open(ifindex, queue, transfer)?;
        program.set(queue, socket.fd.as_fd())?;
        sockets.push(socket);
    }
    Ok(Sockets { program, mode, sockets })
}
