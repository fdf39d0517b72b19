//! Starts the environment on the calling thread.

use crate::log;
use dpdk_sys as sys;
use std::ffi::CString;

/// Starts the environment in this process, on this thread, which becomes its main lcore. `words`: the arguments, beginning with the program's
/// name. They are leaked, because the environment keeps pointers to them.
pub(crate) fn bring_up(words: &[String]) -> Result<(), String> {
    let strings: Result<Vec<CString>, _> = words.iter().map(|w| CString::new(w.as_bytes())).collect();
    let strings = strings.map_err(|_| "an option with a zero byte in it".to_owned())?;
    let mut argv: Vec<_> = strings.into_iter().map(CString::into_raw).collect();
    let n = argv.len() as i32;
    argv.push(std::ptr::null_mut());
    // SAFETY: `argv` has `n` C strings and a null pointer, all writable and never freed. The callers ensure that this is called
    // only once in a process.
    if unsafe { sys::rte_eal_init(n, argv.leak().as_mut_ptr()) } < 0 {
        // SAFETY: `sluice_errno` only reads a thread-local variable.
        let reason = log::error_text(unsafe { sys::sluice_errno() });
        let severe = log::severe();
        return Err(if severe.is_empty() { reason } else { severe });
    }
    // Without this, threads that the environment did not create cannot be registered.
    // SAFETY: the environment is initialized.
    if !unsafe { sys::rte_mp_disable() } {
        return Err("could not disable multiprocess".to_owned());
    }
    Ok(())
}
