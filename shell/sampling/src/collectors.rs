//! Sends datagrams to collectors. Sockets are non-blocking: a datagram that the kernel does not accept at once is lost and
//! counted.

use runtime::{Module, RateLimit};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use transport::Target;

static LOG: Module = Module::new("collectors");
static OPEN_LIMIT: RateLimit = RateLimit::new(1, 5);
static SEND_LIMIT: RateLimit = RateLimit::new(1, 5);

/// The collectors of one exporter.
#[derive(Default)]
pub(crate) struct Collectors {
    targets: Vec<String>,
    sockets: Vec<(SocketAddr, UdpSocket)>,
}

impl Collectors {
    /// Opens a socket for each target. Problems are logged.
    pub(crate) fn open(targets: &[String], default_port: u16) -> Collectors {
        let mut sockets = Vec::new();
        for target in targets {
            match open(target, default_port) {
                Ok(socket) => sockets.push(socket),
                Err(e) => {
                    runtime::warn_rl!(LOG, OPEN_LIMIT, "couldn't open connection to collector {target} ({e})")
                }
            }
        }
        Collectors { targets: targets.to_vec(), sockets }
    }

    /// Whether these are the configured targets, and each of them has a socket.
    pub(crate) fn serves(&self, targets: &[String]) -> bool {
        self.targets == targets && self.sockets.len() == targets.len()
    }

    /// Whether there is no socket.
    pub(crate) fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    /// Sends datagrams to all collectors. Returns the numbers of sent datagrams and of failures.
    pub(crate) fn send(&self, datagrams: &[Vec<u8>]) -> (u64, u64) {
        let (mut sent, mut failed) = (0, 0);
        for datagram in datagrams {
            for (to, socket) in &self.sockets {
                match socket.send(datagram) {
                    Ok(_) => sent += 1,
                    Err(e) => {
                        failed += 1;
                        let why = runtime::error_text(&e);
                        runtime::warn_rl!(LOG, SEND_LIMIT, "{to}: sending to collector failed ({why})");
                    }
                }
            }
        }
        (sent, failed)
    }
}

/// Opens a socket that is connected to `HOST:PORT` or `HOST`. If `default_port` is 0, the target must contain a port.
fn open(target: &str, default_port: u16) -> Result<(SocketAddr, UdpSocket), String> {
    let address = match Target::parse(&format!("tcp:{target}"), default_port) {
        Ok(Target::Tcp(address)) => address,
        Ok(_) => return Err("not an address".to_owned()),
        Err(e) => return Err(e.to_string()),
    };
    connect(address).map(|socket| (address, socket)).map_err(|e| runtime::error_text(&e).to_string())
}

fn connect(address: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.set_nonblocking(true)?;
    socket.connect(address)?;
    Ok(socket)
}
