//! `Buffer`: memory with one owner, which returns to its source when it is dropped.
//!
//! Most buffers are on the heap. A device that fills memory of its own (a DPDK pool) attaches a [`Source`], which frees such memory
//! and allocates more of it. Code that reads and edits packets uses a buffer like a slice; only receiving, freeing and
//! transmitting depend on the source.
//!
//! This crate may contain unsafe code, so that `packet`, which is built on it, need not.
//!
//! # Invariants
//!
//! * A `Buffer` is the only access to its bytes: no device, guest or other code writes them while it lives.
//! * Its handle is freed once: by `Drop`, together with others ([`Returns`]), or by the caller of [`Buffer::into_handle`].

use std::ptr::NonNull;

/// The pointer by which a source identifies a buffer; opaque to all other code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Handle(pub NonNull<()>);

// SAFETY: a handle is a name; using it is up to the source's functions, which are unsafe to call and, by the contract
// of `Source`, callable by any thread.
unsafe impl Send for Handle {}

/// A buffer's memory as its source provides it.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// The handle of the source.
    pub handle: Handle,
    /// Its first byte.
    pub base: NonNull<u8>,
    /// Number of its bytes.
    pub size: u32,
}

/// The source of buffers that are not on the heap.
///
/// Its functions may be called by any thread.
#[derive(Debug)]
pub struct Source {
    /// Name for messages.
    pub name: &'static str,
    /// Frees the buffers of these handles. The caller owns them, and each is of this source.
    pub free: unsafe fn(&[Handle]),
    /// Allocates another buffer of this source; its content is initialised but not specified. The caller owns the returned
    /// handle. `None`: the source has no more.
    pub another: unsafe fn(Handle) -> Option<Memory>,
}

/// Memory with one owner.
#[derive(Debug)]
pub struct Buffer {
    base: NonNull<u8>,
    size: u32,
    /// Dangling if there is no source.
    handle: Handle,
    source: Option<&'static Source>,
}

// SAFETY: a buffer is the only way to its memory (the module's first invariant), and the functions of a source may be
// called by any thread.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Zeroed memory on the heap.
    pub fn own(size: u32) -> Buffer {
        let memory = Box::leak(vec![0u8; size as usize].into_boxed_slice());
        Buffer { base: NonNull::from(memory).cast(), size, handle: Handle(NonNull::dangling()), source: None }
    }

    /// Memory of a source.
    ///
    /// # Safety
    ///
    /// `memory` is of `source`, is initialised, is valid for reads and writes of its whole size until its handle is
    /// freed, and is used by no other code from now on.
    #[inline]
    pub unsafe fn of(source: &'static Source, memory: Memory) -> Buffer {
        Buffer { base: memory.base, size: memory.size, handle: memory.handle, source: Some(source) }
    }

    /// Allocates another buffer of the same source; `None` if it has no more.
    pub fn another(&self) -> Option<Buffer> {
        let Some(source) = self.source else { return Some(Buffer::own(self.size)) };
        // SAFETY: the handle is of this source and is ours; what the source gives is as `of` asks.
        unsafe { (source.another)(self.handle).map(|memory| Buffer::of(source, memory)) }
    }

    /// Its source; `None`: the heap.
    #[inline]
    pub fn source(&self) -> Option<&'static Source> {
        self.source
    }

    /// Number of bytes.
    #[inline]
    pub fn size(&self) -> usize {
        self.size as usize
    }

    /// All its bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: valid and initialised for `size` bytes while `self` lives, and no other code writes them.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.size as usize) }
    }

    /// All its bytes, for writing.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; `&mut self` is the only way to them.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.size as usize) }
    }

    /// Releases the buffer to the owner of `source`, which must free the handle later. `Err` returns a buffer that has no source or
    /// another one.
    #[inline]
    pub fn into_handle(self, source: &'static Source) -> Result<Handle, Buffer> {
        if !self.source.is_some_and(|s| std::ptr::eq(s, source)) {
            return Err(self);
        }
        let handle = self.handle;
        std::mem::forget(self);
        Ok(handle)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        match self.source {
            // SAFETY: the handle is of this source, ours, and not used again.
            Some(source) => unsafe { (source.free)(&[self.handle]) },
            None => {
                let memory = std::ptr::slice_from_raw_parts_mut(self.base.as_ptr(), self.size as usize);
                // SAFETY: `own` leaked exactly this box, and it has not been taken back before.
                drop(unsafe { Box::from_raw(memory) });
            }
        }
    }
}

/// Collects buffers of one source, to free many of them by one call.
#[derive(Debug, Default)]
pub struct Returns {
    source: Option<&'static Source>,
    handles: Vec<Handle>,
}

/// Buffers that are freed by one call: few enough that they are still in the cache when the next receive uses them.
const RETURNS: usize = 32;

impl Returns {
    /// Frees `buffer` now or with others. `Err`: it has no source.
    #[inline(always)]
    pub fn push(&mut self, buffer: Buffer) -> Result<(), Buffer> {
        let Some(source) = buffer.source else { return Err(buffer) };
        if !self.source.is_some_and(|s| std::ptr::eq(s, source)) {
            self.flush();
            self.source = Some(source);
        }
        self.handles.push(buffer.handle);
        std::mem::forget(buffer);
        if self.handles.len() >= RETURNS {
            self.flush();
        }
        Ok(())
    }

    /// Frees the collected buffers.
    #[inline(never)]
    pub fn flush(&mut self) {
        if let Some(source) = self.source
            && !self.handles.is_empty()
        {
            // SAFETY: `push` took these handles from buffers of this source; they are forgotten below.
            unsafe { (source.free)(&self.handles) };
        }
        self.handles.clear();
    }
}

impl Drop for Returns {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static OUT: AtomicUsize = AtomicUsize::new(0);
    static HEAP: Source = Source { name: "test", free, another };

    /// Frees boxes of 64 bytes.
    unsafe fn free(handles: &[Handle]) {
        OUT.fetch_sub(handles.len(), Ordering::Relaxed);
        for h in handles {
            // SAFETY: `memory` below leaked these boxes.
            drop(unsafe { Box::from_raw(h.0.cast::<[u8; 64]>().as_ptr()) });
        }
    }

    unsafe fn another(_: Handle) -> Option<Memory> {
        Some(memory())
    }

    fn memory() -> Memory {
        OUT.fetch_add(1, Ordering::Relaxed);
        let base = NonNull::from(Box::leak(Box::new([7u8; 64])));
        Memory { handle: Handle(base.cast()), base: base.cast(), size: 64 }
    }

    #[test]
    fn every_buffer_goes_back_once() {
        // SAFETY: `memory` is of this source and fresh.
        let mut a = unsafe { Buffer::of(&HEAP, memory()) };
        a.bytes_mut()[63] = 1;
        let b = a.another().unwrap();
        assert_eq!((a.bytes()[63], b.bytes()[63], OUT.load(Ordering::Relaxed)), (1, 7, 2));
        drop(a);
        let mut back = Returns::default();
        back.push(b).unwrap();
        for _ in 0..100 {
            // SAFETY: as above.
            back.push(unsafe { Buffer::of(&HEAP, memory()) }).unwrap();
        }
        let own = back.push(Buffer::own(10)).unwrap_err();
        assert_eq!(own.another().unwrap().bytes(), [0; 10]);
        // SAFETY: as above.
        let taken = unsafe { Buffer::of(&HEAP, memory()) }.into_handle(&HEAP).unwrap();
        assert!(own.into_handle(&HEAP).is_err());
        // SAFETY: `into_handle` made it ours.
        unsafe { free(&[taken]) };
        drop(back);
        assert_eq!(OUT.load(Ordering::Relaxed), 0);
    }
}
