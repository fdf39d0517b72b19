//! Errors of drivers.

use crate::log;
use std::fmt;

/// The error of an operation that a driver refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceError {
    /// The operation, as the beginning of an error message.
    pub what: String,
    /// The error number (errno), positive.
    pub errno: i32,
}

impl DeviceError {
    pub(crate) fn new(what: impl Into<String>, code: i32) -> DeviceError {
        DeviceError { what: what.into(), errno: code.saturating_abs() }
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, log::error_text(self.errno))
    }
}

impl std::error::Error for DeviceError {}

/// Converts the result of a DPDK call: a negative number is an error.
pub(crate) fn check(what: &str, code: i32) -> Result<i32, DeviceError> {
    if code < 0 { Err(DeviceError::new(what, code)) } else { Ok(code) }
}
