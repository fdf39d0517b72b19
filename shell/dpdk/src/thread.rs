//! Threads that touch packet buffers.
//!
//! A thread that is registered has an lcore number of its own, and by that a cache in every memory pool. One that is not
//! works all the same, but takes and gives every buffer through the pool's shared ring.

use crate::eal;
use dpdk_sys as sys;
use std::marker::PhantomData;

/// What `sluice_lcore_id` says of a thread without a number (`LCORE_ID_ANY`).
const NO_LCORE: u32 = u32::MAX;

/// Keeps the thread that made it registered with DPDK until it is dropped, which has to happen on the same thread: so it
/// is not `Send`.
#[derive(Debug)]
pub struct Registration {
    lcore: u32,
    here: PhantomData<*const ()>,
}

impl Registration {
    /// Registers the calling thread. `None` if DPDK is not in use, if the thread is registered already, or if there is no
    /// number left (DPDK has 128): it then works without caches.
    pub fn new() -> Option<Registration> {
        if !eal::initialized() || lcore() != NO_LCORE {
            return None;
        }
        // SAFETY: the environment is up, and the thread is not registered yet; a second registration would leak the first
        // one's number.
        if unsafe { sys::rte_thread_register() } < 0 {
            return None;
        }
        Some(Registration { lcore: lcore(), here: PhantomData })
    }

    /// The number that the thread got.
    pub fn lcore(&self) -> u32 {
        self.lcore
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: this is the thread that `new` registered (the guard cannot leave it), and it is registered still: only
        // this undoes it.
        unsafe { sys::rte_thread_unregister() }
    }
}

fn lcore() -> u32 {
    // SAFETY: reads a variable of this thread, which is there from the start.
    unsafe { sys::sluice_lcore_id() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_environment_nothing_is_registered() {
        assert!(Registration::new().is_none());
        assert_eq!(lcore(), NO_LCORE);
    }
}
