//! A buffer, its source, and the release of several buffers with one call. The invariants are in the documentation of the
//! crate.

use std::cell::Cell;
use std::ptr::NonNull;

/// The pointer by which a source identifies a buffer. It has no meaning for other code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Handle(pub NonNull<()>);

// SAFETY: a handle is only an identifier. Only the functions of its `Source` use it; these may be called from any
// thread.
unsafe impl Send for Handle {}

/// The memory of a buffer, as its source provides it.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// The source's handle.
    pub handle: Handle,
    /// First byte.
    pub base: NonNull<u8>,
    /// Size in bytes.
    pub size: u32,
}

/// The source of buffers that are not on the heap.
///
/// Its functions may be called from any thread.
#[derive(Debug)]
pub struct Source {
    /// Name for log messages.
    pub name: &'static str,
    /// Frees the buffers of these handles. The caller must own the handles, and all must be of this source.
    pub free: unsafe fn(&[Handle]),
    /// Allocates another buffer of this source, with initialised but unspecified content. The caller must own the
    /// given handle and owns the returned one. `None`: out of memory.
    pub allocate_another: unsafe fn(Handle) -> Option<Memory>,
}

/// Memory with one owner.
#[derive(Debug)]
pub struct Buffer {
    base: NonNull<u8>,
    size: u32,
    /// Number of bytes from the beginning on that are present: `size`, unless a tail is absent (see
    /// [`tail`](crate::tail)).
    present: Cell<u32>,
    /// Identifies the buffer at its source; dangling if there is no source.
    handle: Handle,
    source: Option<&'static Source>,
}

// SAFETY: the memory is accessed only through its one buffer (first invariant of the crate). The functions of a
// source, and those that read an absent tail, may be called from any thread. The lease of a tail is atomic.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Allocates zeroed memory on the heap.
    pub fn allocate(size: u32) -> Buffer {
        let memory = Box::leak(vec![0u8; size as usize].into_boxed_slice());
        let (base, handle) = (NonNull::from(memory).cast(), Handle(NonNull::dangling()));
        Buffer { base, size, present: Cell::new(size), handle, source: None }
    }

    /// Creates a buffer of a source's memory.
    ///
    /// # Safety
    ///
    /// `memory` is of `source`, initialised, and valid for reads and writes of its complete size until its handle is
    /// freed. No other code uses it until then.
    #[inline]
    pub unsafe fn of(source: &'static Source, memory: Memory) -> Buffer {
        let Memory { base, size, handle } = memory;
        Buffer { base, size, present: Cell::new(size), handle, source: Some(source) }
    }

    /// Allocates another buffer of the same source, or on the heap with the same size. `None`: the source is out of
    /// memory.
    pub fn allocate_another(&self) -> Option<Buffer> {
        let Some(source) = self.source else { return Some(Buffer::allocate(self.size)) };
        // SAFETY: the handle is of this source, and this buffer owns it. By the contract of `Source::allocate_another`, the
        // returned memory satisfies the contract of `of`.
        unsafe { (source.allocate_another)(self.handle).map(|memory| Buffer::of(source, memory)) }
    }

    /// The source of the memory; `None`: the heap.
    #[inline]
    pub fn source(&self) -> Option<&'static Source> {
        self.source
    }

    /// Number of bytes.
    #[inline]
    pub fn size(&self) -> usize {
        self.size as usize
    }

    /// Number of bytes from the beginning on that are present: all bytes, unless a tail is absent.
    #[inline(always)]
    pub fn present(&self) -> usize {
        self.present.get() as usize
    }

    /// Sets the number of present bytes. `present` must be at most the size.
    #[inline]
    pub(crate) fn set_present(&self, present: usize) {
        self.present.set(present as u32);
    }

    /// Pointer to the first byte, for the module of tails, which accesses absent bytes, and for prefetches.
    #[inline(always)]
    pub fn start(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// All bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.slice(0, self.size())
    }

    /// All bytes, for writing.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.slice_mut(0, self.size())
    }

    /// Makes sure that `len` bytes from `start` on are present.
    #[inline(always)]
    fn ensure_present(&self, start: usize, len: usize) {
        if start.saturating_add(len) > self.present() {
            self.fetch(start.saturating_add(len));
        }
    }

    /// Copies the absent tail into the buffer, so that all bytes before `end` are present.
    ///
    /// # Panics
    ///
    /// If the buffer ends before `end`.
    #[cold]
    #[inline(never)]
    fn fetch(&self, end: usize) {
        assert!(end <= self.size(), "byte {end} of a buffer of {} bytes", self.size());
        self.complete();
    }

    /// Returns `len` bytes from `start` on.
    ///
    /// # Panics
    ///
    /// If the buffer ends before the last of these bytes.
    #[inline(always)]
    pub fn slice(&self, start: usize, len: usize) -> &[u8] {
        self.ensure_present(start, len);
        // SAFETY: the memory is valid and initialised for `size` bytes while `self` lives. `ensure_present` has checked that
        // these bytes are among the present ones, which only this buffer writes.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(start), len) }
    }

    /// As [`Buffer::slice`], for writing.
    #[inline(always)]
    pub fn slice_mut(&mut self, start: usize, len: usize) -> &mut [u8] {
        self.ensure_present(start, len);
        // SAFETY: as in `slice`; `&mut self` makes this the only access to the bytes.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(start), len) }
    }

    /// Returns those of the `len` bytes from `start` on that are present.
    #[inline(always)]
    pub fn front(&self, start: usize, len: usize) -> &[u8] {
        if start.saturating_add(len) <= self.present() {
            return self.slice(start, len);
        }
        self.present_part(start, len)
    }

    #[inline(never)]
    fn present_part(&self, start: usize, len: usize) -> &[u8] {
        match self.present().checked_sub(start) {
            Some(present) => self.slice(start, len.min(present)),
            None => &[],
        }
    }

    /// Passes ownership of the memory to the caller, which must free the returned handle later. `Err` returns the
    /// buffer if it is on the heap or of another source.
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
        if !self.is_complete() {
            self.drop_tail();
        }
        match self.source {
            // SAFETY: the handle is of this source. This buffer owns it and does not use it again.
            Some(source) => unsafe { (source.free)(&[self.handle]) },
            None => {
                let memory = std::ptr::slice_from_raw_parts_mut(self.base.as_ptr(), self.size as usize);
                // SAFETY: the buffer is on the heap, so `allocate` leaked exactly this box. It is freed only here, because
                // the buffer owns it.
                drop(unsafe { Box::from_raw(memory) });
            }
        }
    }
}

/// Collects buffers of one source, to free several with one call.
#[derive(Debug, Default)]
pub struct FreeBatch {
    source: Option<&'static Source>,
    handles: Vec<Handle>,
}

/// Number of buffers that are freed with one call: few enough that they are still in the CPU cache when the next
/// receive reuses them.
const FREE_BATCH: usize = 32;

impl FreeBatch {
    /// Frees `buffer` now or later. `Err` returns the buffer if it is on the heap.
    #[inline(always)]
    pub fn push(&mut self, buffer: Buffer) -> Result<(), Buffer> {
        let Some(source) = buffer.source else { return Err(buffer) };
        if !self.source.is_some_and(|s| std::ptr::eq(s, source)) {
            self.flush();
            self.source = Some(source);
        }
        self.handles.push(buffer.handle);
        std::mem::forget(buffer);
        if self.handles.len() >= FREE_BATCH {
            self.flush();
        }
        Ok(())
    }

    /// Frees the collected buffers.
    #[inline]
    pub fn flush(&mut self) {
        if !self.handles.is_empty() {
            self.free();
        }
    }

    #[inline(never)]
    fn free(&mut self) {
        if let Some(source) = self.source {
            // SAFETY: `push` took over these handles from buffers of this source. They are removed from the list
            // below, so they are freed once.
            unsafe { (source.free)(&self.handles) };
        }
        self.handles.clear();
    }
}

impl Drop for FreeBatch {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static OUT: AtomicUsize = AtomicUsize::new(0);
    static HEAP: Source = Source { name: "test", free, allocate_another };

    /// Frees boxes of 64 bytes.
    unsafe fn free(handles: &[Handle]) {
        OUT.fetch_sub(handles.len(), Ordering::Relaxed);
        for h in handles {
            // SAFETY: `memory` below leaked these boxes.
            drop(unsafe { Box::from_raw(h.0.cast::<[u8; 64]>().as_ptr()) });
        }
    }

    unsafe fn allocate_another(_: Handle) -> Option<Memory> {
        Some(memory())
    }

    fn memory() -> Memory {
        OUT.fetch_add(1, Ordering::Relaxed);
        let base = NonNull::from(Box::leak(Box::new([7u8; 64])));
        Memory { handle: Handle(base.cast()), base: base.cast(), size: 64 }
    }

    #[test]
    fn every_buffer_goes_back_once() {
        // SAFETY: `memory` is of this source and unused.
        let mut a = unsafe { Buffer::of(&HEAP, memory()) };
        a.bytes_mut()[63] = 1;
        let b = a.allocate_another().unwrap();
        assert_eq!((a.bytes()[63], b.bytes()[63], OUT.load(Ordering::Relaxed)), (1, 7, 2));
        drop(a);
        let mut back = FreeBatch::default();
        back.push(b).unwrap();
        for _ in 0..100 {
            // SAFETY: as above.
            back.push(unsafe { Buffer::of(&HEAP, memory()) }).unwrap();
        }
        let own = back.push(Buffer::allocate(10)).unwrap_err();
        assert_eq!(own.allocate_another().unwrap().bytes(), [0; 10]);
        // SAFETY: as above.
        let taken = unsafe { Buffer::of(&HEAP, memory()) }.into_handle(&HEAP).unwrap();
        assert!(own.into_handle(&HEAP).is_err());
        // SAFETY: `into_handle` passed ownership of it.
        unsafe { free(&[taken]) };
        drop(back);
        assert_eq!(OUT.load(Ordering::Relaxed), 0);
    }
}
