//! Registration of threads that use packet buffers.
//!
//! A registered thread has its own lcore number, and so a cache in every memory pool. An unregistered
//! thread works as well, but allocates and frees each buffer through the pool's shared ring.

use crate::eal;
use dpdk_sys as sys;
use std::marker::PhantomData;

/// The result of `sluice_lcore_id` for a thread without lcore number (`LCORE_ID_ANY`).
const NO_LCORE: u32 = u32::MAX;

/// Keeps the current thread registered with DPDK. It must be dropped on the same thread, so it is
/// not `Send`.
#[derive(Debug)]
pub struct Registration {
    lcore: u32,
    not_send: PhantomData<*const ()>,
}

impl Registration {
    /// Registers the calling thread. `None`: DPDK is not initialized, the thread is registered already, or no
    /// lcore number is free (DPDK has 128). Then the thread works without caches.
    pub fn new() -> Option<Registration> {
        if !eal::initialized() || lcore() != NO_LCORE {
            return None;
        }
        // SAFETY: the environment is initialized, and the thread is not registered yet. (A second registration would
        // leak the first lcore number.)
        if unsafe { sys::rte_thread_register() } < 0 {
            return None;
        }
        Some(Registration { lcore: lcore(), not_send: PhantomData })
    }

    /// The thread's lcore number.
    pub fn lcore(&self) -> u32 {
        self.lcore
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: this is the thread that `new` registered, because the guard cannot move to another thread. Only this
        // drop unregisters it.
        unsafe { sys::rte_thread_unregister() }
    }
}

fn lcore() -> u32 {
    // SAFETY: the function reads a thread-local variable that always exists. The callers have checked that DPDK is loaded.
    unsafe { sys::sluice_lcore_id() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_environment_nothing_is_registered() {
        assert!(Registration::new().is_none());
        dpdk_sys::library::load().unwrap();
        assert_eq!(lcore(), NO_LCORE);
    }
}
