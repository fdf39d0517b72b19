//! Freeing large objects without delaying the main loop.

use runtime::background::run;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

/// Objects with at least this many parts take long to drop.
const LARGE: usize = 1000;
/// Interval and number of checks whether all other references are gone.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);
const CHECKS_MAX: usize = 400;

/// Much memory was freed since the last [`tidy`].
static FREED: AtomicBool = AtomicBool::new(false);

/// Reports that `n` objects were freed; may be called on any thread.
pub fn freed(n: usize) {
    if n >= LARGE {
        FREED.store(true, Release);
    }
}

/// Returns freed memory to the system if it was much. To be called by the main loop, which allocated most of it.
pub fn tidy() {
    if FREED.swap(false, Acquire) {
        netdev::collect();
        run(netdev::give_back);
    }
}

/// Drops an object with `n` parts, on another thread if they are many.
pub fn let_go(n: usize, what: impl Send + 'static) {
    if n >= LARGE {
        run(move || {
            drop(what);
            freed(n);
        });
    }
}

/// Drops a shared object with `n` parts on another thread, after all other references are gone, for a bounded time, so
/// that no other thread has to free it.
pub fn let_go_last<T: Send + Sync + 'static>(n: usize, what: Arc<T>) {
    if n >= LARGE {
        run(move || {
            for _ in 0..CHECKS_MAX {
                if Arc::strong_count(&what) == 1 {
                    break;
                }
                std::thread::sleep(CHECK_INTERVAL);
            }
            drop(what);
            freed(n);
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
        let_go_last(LARGE, Arc::clone(&shared));
        drop(shared);
        assert_ne!(told.recv().unwrap(), here);
        let_go(LARGE, Tell(give.clone()));
        assert_ne!(told.recv().unwrap(), here);
        let_go(1, Tell(give));
        assert_eq!(told.recv().unwrap(), here);
    }
}
