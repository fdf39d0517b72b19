//! Zeroed memory whose pages use no physical memory until they are written.

use super::xsk_ring::Mapping;
use std::alloc::{Layout, handle_alloc_error};

/// Private memory of the process, directly from the kernel. The allocator would reuse memory and clear all of it at once. Then all its
/// pages would be resident, for example 2 MB of spare buffers that a switch may never use.
pub struct Zeroed(Mapping);

impl Zeroed {
    /// Allocates `len` bytes. If there is no memory, the process ends, as with the allocator.
    pub fn new(len: usize) -> Zeroed {
        let layout = || Layout::array::<u8>(len).unwrap_or(Layout::new::<u8>());
        Zeroed(Mapping::anonymous(len).unwrap_or_else(|_| handle_alloc_error(layout())))
    }

    /// All bytes, for reading.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the private mapping is valid for its length while `self` lives, initialised by the kernel, and accessible only
        // through `self`.
        unsafe { std::slice::from_raw_parts(self.0.base().as_ptr(), self.0.len()) }
    }

    /// All bytes, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; `&mut self` ensures that this is the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.0.base().as_ptr(), self.0.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_zero_until_written() {
        let mut memory = Zeroed::new(100_000);
        assert!(memory.bytes().len() == 100_000 && memory.bytes().iter().all(|b| *b == 0));
        memory.bytes_mut()[99_999] = 7;
        assert_eq!(memory.bytes()[99_999], 7);
    }
}
