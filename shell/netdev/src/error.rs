//! Errors of creating or changing a port, with the texts that Open vSwitch uses and scripts compare.

use std::fmt;
use std::io;

/// An operation on a network device failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetdevError {
    errno: i32,
    message: String,
    detail: Option<String>,
}

impl NetdevError {
    /// `EAFNOSUPPORT`: the error for an unknown type of port.
    pub(crate) const UNKNOWN_TYPE: i32 = 97;
    pub(crate) const INVALID: i32 = 22;
    pub(crate) const NO_DEVICE: i32 = 19;

    /// The error if device `name` could not be opened.
    pub(crate) fn open(name: &str, errno: i32) -> NetdevError {
        NetdevError::other(&format!("could not open network device {name}"), errno)
    }

    /// The error if the device of a port no longer exists.
    pub fn gone(name: &str) -> NetdevError {
        NetdevError::open(name, NetdevError::NO_DEVICE)
    }

    /// Whether the error means that the device no longer exists.
    pub fn is_gone(&self) -> bool {
        self.errno == NetdevError::NO_DEVICE
    }

    /// The error of another operation. `what` and the text of `errno` make up the message.
    pub(crate) fn other(what: &str, errno: i32) -> NetdevError {
        NetdevError { errno, message: format!("{what} ({})", strerror(errno)), detail: None }
    }

    /// An error without an error number. `what` is the message.
    pub fn plain(what: &str) -> NetdevError {
        NetdevError { errno: NetdevError::INVALID, message: what.to_owned(), detail: None }
    }

    /// The error for invalid options of `name`. Scripts expect a message without details, so `why` is only logged.
    pub(crate) fn configuration(name: &str, why: &str) -> NetdevError {
        let error = NetdevError::other(&format!("{name}: could not set configuration"), NetdevError::INVALID);
        NetdevError { detail: Some(format!("{name}: {why}")), ..error }
    }

    /// The error if the device does not support receive buffers in this mode.
    pub(crate) fn rx_pool(name: &str, mode: &str, why: &str) -> NetdevError {
        NetdevError::plain(&format!("{name}: rx-pool={mode} is not possible: {why}"))
    }

    pub(crate) fn from_io(what: &str, error: &io::Error) -> NetdevError {
        NetdevError::other(what, errno_of(error))
    }

    /// Details that are only logged.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// Whether the port type is unknown or not available.
    pub fn is_unknown_type(&self) -> bool {
        self.errno == NetdevError::UNKNOWN_TYPE
    }

    /// The error number (errno).
    pub fn errno(&self) -> i32 {
        self.errno
    }
}

impl fmt::Display for NetdevError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for NetdevError {}

/// The error number of `error`; `EIO` if it has none.
pub(crate) fn errno_of(error: &io::Error) -> i32 {
    const EIO: i32 = 5;
    error.raw_os_error().unwrap_or(EIO)
}

/// The system's text for an error number, as `strerror(3)` returns it.
pub fn strerror(errno: i32) -> String {
    let text = io::Error::from_raw_os_error(errno).to_string();
    match text.rfind(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_the_one_that_scripts_compare() {
        assert_eq!(
            NetdevError::open("p1", 19).to_string(),
            "could not open network device p1 (No such device)"
        );
        assert_eq!(
            NetdevError::open("p1", NetdevError::UNKNOWN_TYPE).to_string(),
            "could not open network device p1 (Address family not supported by protocol)"
        );
    }
}
