//! Captures text that DPDK writes to a C stream.

use dpdk_sys as sys;
use std::ffi::c_char;

/// Calls `write` with a stream, and returns the text that was written to it. `None`: there is no memory for the stream.
///
/// The stream is open only while `write` runs.
pub(crate) fn capture_text(write: impl FnOnce(*mut sys::FILE)) -> Option<String> {
    let mut text: *mut c_char = std::ptr::null_mut();
    let mut len = 0;
    // SAFETY: `text` and `len` outlive the stream, which is closed below.
    let stream = unsafe { libc::open_memstream(&raw mut text, &raw mut len) };
    if stream.is_null() {
        return None;
    }
    write(stream.cast());
    // SAFETY: the stream was opened above and is closed once. Then `text` is a block of `len` bytes of the C heap, which this function
    // must free.
    unsafe {
        libc::fclose(stream);
        if text.is_null() {
            return None;
        }
        let bytes = std::slice::from_raw_parts(text.cast::<u8>(), len).to_vec();
        libc::free(text.cast());
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}
