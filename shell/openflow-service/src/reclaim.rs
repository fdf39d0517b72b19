//! Freeing what is large without holding up the main loop.

use runtime::background::run;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

/// So many things take long to drop.
const MANY: usize = 1000;
/// How often, and how many times, it is looked whether all others have let go of something.
const LOOK_EVERY: Duration = Duration::from_millis(5);
const LOOKS: usize = 400;

/// Much was freed since the main loop looked last.
static FREED: AtomicBool = AtomicBool::new(false);

/// Says that much was freed, by whatever thread.
pub fn freed(n: usize) {
    if n >= MANY {
        FREED.store(true, Release);
    }
}

/// Gives memory back that was freed, if it was much. To be called by the main loop, which made most of it.
pub fn tidy() {
    if FREED.swap(false, Acquire) {
        netdev::collect();
        run(netdev::give_back);
    }
}

/// Drops what holds `n` things.
pub fn let_go(n: usize, what: impl Send + 'static) {
    if n >= MANY {
        run(move || {
            drop(what);
            freed(n);
        });
    }
}

/// Lets go of what holds `n` things after all others have, so that none of them has to drop it; but does not wait for ever.
pub fn let_go_last<T: Send + Sync + 'static>(n: usize, what: Arc<T>) {
    if n >= MANY {
        run(move || {
            for _ in 0..LOOKS {
                if Arc::strong_count(&what) == 1 {
                    break;
                }
                std::thread::sleep(LOOK_EVERY);
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

    /// Tells who drops it.
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
        let_go_last(MANY, Arc::clone(&shared));
        drop(shared);
        assert_ne!(told.recv().unwrap(), here);
        let_go(MANY, Tell(give.clone()));
        assert_ne!(told.recv().unwrap(), here);
        let_go(1, Tell(give));
        assert_eq!(told.recv().unwrap(), here);
    }
}
