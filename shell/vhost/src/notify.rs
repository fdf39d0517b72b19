//! A callback for changes of a guest's state.

use std::fmt;
use std::sync::Arc;

/// A callback that the serving thread and the library's threads call. Some of these threads hold the locks of rings, so the callback must
/// be fast and must neither block nor panic. Intended for waking an event loop through its file descriptor. The default does nothing.
#[derive(Clone, Default)]
pub struct Notify(Option<Arc<dyn Fn() + Send + Sync>>);

impl Notify {
    /// Creates a callback that calls `call`.
    pub fn new(call: impl Fn() + Send + Sync + 'static) -> Notify {
        Notify(Some(Arc::new(call)))
    }

    /// Reports a change.
    pub fn call(&self) {
        if let Some(call) = &self.0 {
            call();
        }
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Notify(..)" } else { "Notify(none)" })
    }
}
