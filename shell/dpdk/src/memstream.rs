//! Text that DPDK writes to a C stream.

use dpdk_sys as sys;
use std::ffi::c_char;

/// Calls `write` with a stream and returns the text that it wrote. `None`: no memory for the stream.
///
/// The stream is valid only while `write` runs.
pub(crate) fn written(write: impl FnOnce(*mut sys::FILE)) -> Option<String> {
    let mut text: *mut c_char = std::ptr::null_mut();
    let mut len = 0;
    // SAFETY: both places outlive the stream, which is closed below.
    let stream = unsafe { libc::open_memstream(&raw mut text, &raw mut len) };
    if stream.is_null() {
        return None;
    }
    write(stream.cast());
    // SAFETY: opened above, closed once; afterwards `text` is a block of `len` bytes of the C heap, which is ours.
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
