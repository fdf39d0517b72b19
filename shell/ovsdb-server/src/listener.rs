//! Where clients come in, and the byte streams they bring.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A non-blocking byte stream.
pub trait Stream: Read + Write + AsFd + Send {}

impl Stream for UnixStream {}
impl Stream for TcpStream {}

/// A non-blocking listener.
pub trait Listener: AsFd + Send {
    /// The next client, or `WouldBlock`.
    fn accept(&self) -> io::Result<Box<dyn Stream>>;
}

/// A Unix socket; its file goes with it.
pub struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl UnixSocket {
    /// Listens at `path`, in place of a socket that a server before left behind.
    pub fn bind(path: &Path) -> io::Result<UnixSocket> {
        let stale = fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
        if stale && UnixStream::connect(path).is_err() {
            fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        Ok(UnixSocket { listener, path: path.to_owned() })
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        // A missing file is as good as a removed one.
        _ = fs::remove_file(&self.path);
    }
}

impl AsFd for UnixSocket {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Listener for UnixSocket {
    fn accept(&self) -> io::Result<Box<dyn Stream>> {
        let (stream, _) = self.listener.accept()?;
        stream.set_nonblocking(true)?;
        Ok(Box::new(stream))
    }
}

impl Listener for TcpListener {
    fn accept(&self) -> io::Result<Box<dyn Stream>> {
        let (stream, _) = TcpListener::accept(self)?;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        // Finds out about peers that vanished without a word.
        rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
        Ok(Box::new(stream))
    }
}

/// Listens on a TCP address.
pub fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
