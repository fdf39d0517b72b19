//! Panics on command, to test crash recovery: the control command `panic THREAD`, which a daemon offers only
//! with `--enable-panic`.
//!
//! Every thread of the daemon calls [`panic_if_ordered`] in its loop. Without an ordered panic the call costs one relaxed load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// A panic is ordered.
static ORDERED: AtomicBool = AtomicBool::new(false);
/// The beginning of the name of the thread that must panic.
static THREAD: Mutex<String> = Mutex::new(String::new());

/// Makes the next thread whose name begins with `thread` panic when it calls [`panic_if_ordered`].
pub fn order(thread: &str) {
    thread.clone_into(&mut THREAD.lock().unwrap_or_else(PoisonError::into_inner));
    ORDERED.store(true, Ordering::Release);
}

/// Panics if a panic of the calling thread was ordered.
#[inline]
pub fn panic_if_ordered() {
    if ORDERED.load(Ordering::Relaxed) {
        panic_if_named();
    }
}

#[cold]
fn panic_if_named() {
    let current = std::thread::current();
    let Some(name) = current.name() else { return };
    let is_named = name.starts_with(&*THREAD.lock().unwrap_or_else(PoisonError::into_inner));
    if is_named && ORDERED.swap(false, Ordering::AcqRel) {
        panic!("the control socket ordered a panic in {name}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_thread_panics_and_only_once() {
        order("meant");
        let run = |name: &str| {
            std::thread::Builder::new().name(name.to_owned()).spawn(panic_if_ordered).unwrap().join().is_err()
        };
        assert_eq!(["other", "meant1", "meant2"].map(run), [false, true, false]);
    }
}
