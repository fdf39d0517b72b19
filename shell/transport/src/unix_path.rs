//! Addresses of Unix sockets whose path is longer than the 107 bytes of `sockaddr_un`: they are reached through
//! `/proc/self/fd` and their directory.

use rustix::fs::{Mode, OFlags, open};
use rustix::net::SocketAddrUnix;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const MAX_LEN: usize = 107;

/// An address that is valid while this value lives.
pub(crate) struct UnixAddr {
    pub(crate) addr: SocketAddrUnix,
    _dir: Option<OwnedFd>,
}

pub(crate) fn resolve(path: &Path) -> io::Result<UnixAddr> {
    if path.as_os_str().as_bytes().len() <= MAX_LEN {
        return Ok(UnixAddr { addr: SocketAddrUnix::new(path)?, _dir: None });
    }
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let dir = open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name);
    Ok(UnixAddr { addr: SocketAddrUnix::new(short)?, _dir: Some(dir) })
}
