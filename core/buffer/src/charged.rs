//! Charged buffers: when such a buffer is freed, its account is notified. The handle of a charged buffer is a box with
//! the original buffer and the account.

use crate::memory::{Buffer, Handle, Memory, Source};
use std::ptr::NonNull;
use std::sync::Arc;

/// The account to which buffers are charged. Any thread may free a buffer.
pub trait BufferAccount: Send + Sync {
    /// One buffer was freed; its memory has returned to its own source.
    fn release(&self);
}

struct Charged {
    inner: Buffer,
    /// The account; `None` for a copy, which is not charged.
    account: Option<Arc<dyn BufferAccount>>,
}

static CHARGED: Source = Source { name: "charged", free, allocate_another };

impl Buffer {
    /// Returns a buffer with the same memory, charged to `account`, which is notified when the buffer is freed.
    pub fn charged_to(self, account: Arc<dyn BufferAccount>) -> Buffer {
        // SAFETY: the memory is that of `self`. It stays valid until the handle is freed, because `memory` has moved
        // `self` into the box of the handle; no other code uses it until then.
        unsafe { Buffer::of(&CHARGED, memory(self, Some(account))) }
    }
}

/// Moves a buffer into a box that the returned handle owns.
fn memory(mut inner: Buffer, account: Option<Arc<dyn BufferAccount>>) -> Memory {
    let (size, base) = (inner.size() as u32, NonNull::from(inner.bytes_mut()).cast());
    let charged = Box::leak(Box::new(Charged { inner, account }));
    Memory { handle: Handle(NonNull::from(charged).cast()), base, size }
}

/// # Safety
///
/// As for [`Source::free`].
unsafe fn free(handles: &[Handle]) {
    for handle in handles {
        // SAFETY: `memory` leaked this box. The caller owns its handle and does not use it again, so the box is freed
        // once.
        let Charged { inner, account } = *unsafe { Box::from_raw(handle.0.cast::<Charged>().as_ptr()) };
        drop(inner);
        if let Some(account) = account {
            account.release();
        }
    }
}

/// # Safety
///
/// As for [`Source::allocate_another`].
unsafe fn allocate_another(handle: Handle) -> Option<Memory> {
    // SAFETY: the caller owns the handle, so the box has not been freed.
    let charged = unsafe { handle.0.cast::<Charged>().as_ref() };
    Some(memory(charged.inner.allocate_another()?, None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[derive(Default)]
    struct Count(AtomicU32);

    impl BufferAccount for Count {
        fn release(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn each_buffer_is_reported_once_and_copies_are_not() {
        let count = Arc::new(Count::default());
        let mut buffer = Buffer::allocate(64).charged_to(count.clone());
        buffer.bytes_mut()[63] = 7;
        let copy = buffer.allocate_another().unwrap();
        assert_eq!((buffer.size(), buffer.bytes()[63], copy.size()), (64, 7, 64));
        assert!(buffer.source().is_some());
        drop(copy);
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        let mut batch = crate::memory::FreeBatch::default();
        batch.push(buffer).unwrap();
        batch.push(Buffer::allocate(1).charged_to(count.clone())).unwrap();
        batch.flush();
        assert_eq!((count.0.load(Ordering::Relaxed), Arc::strong_count(&count)), (2, 1));
    }
}
