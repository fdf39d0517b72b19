//! Whom to tell that something about a guest changed.

use std::fmt;
use std::sync::Arc;

/// Called from the library's threads, some of them holding the locks of rings: it must be quick, wait for nobody and
/// never panic. To wake a loop by its descriptor is what it is for. The default tells nobody.
#[derive(Clone, Default)]
pub struct Notify(Option<Arc<dyn Fn() + Send + Sync>>);

impl Notify {
    /// Calls this.
    pub fn new(call: impl Fn() + Send + Sync + 'static) -> Notify {
        Notify(Some(Arc::new(call)))
    }

    pub(super) fn tell(&self) {
        if let Some(call) = &self.0 {
            call();
        }
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Notify(..)" } else { "Notify(nobody)" })
    }
}
