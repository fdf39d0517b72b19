//! Log messages of DPDK, and messages of the switch about DPDK.
//!
//! DPDK writes its log to a stream of the C library. Our stream passes each line to a function of the program, on the thread
//! that logs. The last severe messages are stored, so that they can explain why something failed.

use dpdk_sys as sys;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Severity of a message, with DPDK's names; lower is more severe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// `emergency`
    Emergency = 1,
    /// `alert`
    Alert,
    /// `critical`
    Critical,
    /// `error`
    Error,
    /// `warning`
    Warning,
    /// `notice`
    Notice,
    /// `info`
    Info,
    /// `debug`
    Debug,
}

impl Level {
    const ALL: [(Level, &str); 8] = [
        (Level::Emergency, "emergency"),
        (Level::Alert, "alert"),
        (Level::Critical, "critical"),
        (Level::Error, "error"),
        (Level::Warning, "warning"),
        (Level::Notice, "notice"),
        (Level::Info, "info"),
        (Level::Debug, "debug"),
    ];

    /// The level with this number in DPDK; an unknown number counts as `Debug`.
    pub fn from_number(n: u32) -> Level {
        Level::ALL.iter().map(|(level, _)| *level).find(|l| *l as u32 == n).unwrap_or(Level::Debug)
    }

    /// The level with this name in DPDK.
    pub fn from_name(name: &str) -> Option<Level> {
        Level::ALL.iter().find(|(_, n)| *n == name).map(|(level, _)| *level)
    }
}

/// A message for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its severity.
    pub level: Level,
    /// One line of text.
    pub text: String,
}

/// Origin of a message. Open vSwitch logs the two origins under separate modules, whose names scripts use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// DPDK itself, or the switch's messages about its start.
    Environment,
    /// The switch's ports that use DPDK.
    Ports,
}

/// A function that receives log lines. It must not call DPDK.
pub type Sink = fn(Origin, Level, &str);

/// Number of severe messages that are stored.
const SEVERE_MAX: usize = 3;

static SINK: OnceLock<Sink> = OnceLock::new();
static SEVERE: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Redirects DPDK's log to `sink` for the rest of the process. Further calls do nothing.
pub(crate) fn set_sink(sink: Sink) {
    if SINK.set(sink).is_err() {
        return;
    }
    let io = CookieIo { read: None, write: Some(write), seek: None, close: None };
    // SAFETY: the mode is a C string, and `io` has the layout of `cookie_io_functions_t`. `write` has the required signature
    // and does not use the cookie, so the cookie may be null.
    let stream = unsafe { fopencookie(std::ptr::null_mut(), c"w".as_ptr(), io) };
    if !stream.is_null() {
        // SAFETY: the stream is open and never closed. The call is allowed before the environment is initialized.
        unsafe { sys::rte_openlog_stream(stream) };
    }
}

/// Logs a message about ports. May be called on any thread.
pub fn say(level: Level, text: &str) {
    if let Some(sink) = SINK.get() {
        sink(Origin::Ports, level, text);
    }
}

/// The stored severe messages in one line; empty if there are none.
pub(crate) fn severe() -> String {
    SEVERE.lock().unwrap_or_else(PoisonError::into_inner).join("; ")
}

/// `cookie_io_functions_t` (fopencookie(3)).
#[repr(C)]
struct CookieIo {
    read: Option<unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> isize>,
    write: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> isize>,
    seek: Option<unsafe extern "C" fn(*mut c_void, *mut i64, c_int) -> c_int>,
    close: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, io: CookieIo) -> *mut sys::FILE;
}

/// Called by the stream with buffered text. The text is one message, because DPDK flushes the stream after each.
unsafe extern "C" fn write(_: *mut c_void, text: *const c_char, n: usize) -> isize {
    // SAFETY: the stream passes `n` bytes that are valid until this function returns.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), n) };
    // SAFETY: the function only reads a thread-local variable.
    let level = Level::from_number(unsafe { sys::rte_log_cur_msg_loglevel() } as u32);
    let text = String::from_utf8_lossy(bytes);
    for line in text.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
        if level <= Level::Error {
            store_severe(&mut SEVERE.lock().unwrap_or_else(PoisonError::into_inner), line);
        }
        if let Some(sink) = SINK.get() {
            sink(Origin::Environment, level, line);
        }
    }
    n as isize
}

/// Stores a severe message, unless it is stored already: the environment logs its last error twice, the second time as fatal.
pub(crate) fn store_severe(lines: &mut Vec<String>, line: &str) {
    let line = line.replacen(" FATAL: ", " ", 1);
    if lines.contains(&line) {
        return;
    }
    if lines.len() == SEVERE_MAX {
        lines.remove(0);
    }
    lines.push(line);
}

/// Sets the level of the components whose names match a shell pattern. Returns false if DPDK refuses the pattern.
pub fn set_level(pattern: &str, level: Level) -> bool {
    let Ok(pattern) = CString::new(pattern) else { return false };
    // SAFETY: the pattern is a C string that lives until the call returns.
    unsafe { sys::rte_log_set_level_pattern(pattern.as_ptr(), level as u32) >= 0 }
}

/// DPDK's text for an error number, positive or negative.
pub fn error_text(number: c_int) -> String {
    // SAFETY: the function returns a string of the library or of this thread, which is copied before anything can change it.
    let text = unsafe { CStr::from_ptr(sys::rte_strerror(number.saturating_abs())) };
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_by_name_and_number() {
        assert_eq!(Level::from_name("notice"), Some(Level::Notice));
        assert_eq!(Level::from_name("emergency"), Some(Level::Emergency));
        assert_eq!(Level::from_name("loud"), None);
        assert_eq!(Level::from_number(4), Level::Error);
        assert_eq!(Level::from_number(99), Level::Debug);
    }

    #[test]
    fn the_last_grave_lines_are_kept() {
        let mut lines = Vec::new();
        ["a", "b", "E: FATAL: c", "E: c", "d"].iter().for_each(|l| store_severe(&mut lines, l));
        assert_eq!(lines, ["b", "E: c", "d"]);
    }
}
