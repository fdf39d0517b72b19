//! Frees large objects without delaying the main loop.

use runtime::background::run;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

/// Objects with at least this many parts are dropped on another thread, because dropping them takes long.
const LARGE: usize = 1000;
/// Interval of the checks whether all other references to an object are gone.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// Maximum number of checks: 400 checks take 2 s.
const CHECKS_MAX: usize = 400;

/// Whether a large object was freed since the last [`release_freed_memory`].
static FREED: AtomicBool = AtomicBool::new(false);

/// Requests that [`release_freed_memory`] returns memory to the system, if an object with `n` parts that was freed is large. Called on any thread.
pub fn note_freed(n: usize) {
    if n >= LARGE {
        FREED.store(true, Release);
    }
}

/// Returns freed memory to the system if a large object was freed. Called by the main loop, which allocated most of the memory: pages that
/// it still owns can be collected only by the main loop itself.
pub fn release_freed_memory() {
    if FREED.swap(false, Acquire) {
        netdev::collect_freed_memory();
        run(netdev::return_freed_memory);
    }
}

/// Drops an object with `n` parts, on another thread if `n` is at least [`LARGE`].
pub fn drop_in_background(n: usize, what: impl Send + 'static) {
    if n >= LARGE {
        run(move || {
            drop(what);
            note_freed(n);
        });
    }
}

/// Drops a shared object with `n` parts. If it is large, a background thread waits up to 2 s until all other references are gone and
/// then drops the object, so that no other thread has to free it.
pub fn drop_when_unshared<T: Send + Sync + 'static>(n: usize, what: Arc<T>) {
    if n >= LARGE {
        run(move || {
            for _ in 0..CHECKS_MAX {
                if Arc::strong_count(&what) == 1 {
                    break;
                }
                std::thread::sleep(CHECK_INTERVAL);
            }
            drop(what);
            note_freed(n);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};
    use std::thread::ThreadId;

    /// Reports the thread that drops it.
    struct Tell(Sender<ThreadId>);

    impl Drop for Tell {
        fn drop(&mut self) {
            let _ = self.0.send(std::thread::current().id());
        }
    }

    #[test]
    fn what_is_large_is_dropped_elsewhere() {
        let (give, told) = channel();
        let here = std::thread::current().id();
        let shared = Arc::new(Tell(give.clone()));
        drop_when_unshared(LARGE, Arc::clone(&shared));
        drop(shared);
        assert_ne!(told.recv().unwrap(), here);
        drop_in_background(LARGE, Tell(give.clone()));
        assert_ne!(told.recv().unwrap(), here);
        drop_in_background(1, Tell(give));
        assert_eq!(told.recv().unwrap(), here);
    }
}
