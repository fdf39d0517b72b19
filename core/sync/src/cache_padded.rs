//! `CachePadded`: a value in cache lines of its own.

use std::ops::{Deref, DerefMut};

/// A value that shares no cache line with another value, so that a core that writes it does not take the lines of other cores' values from
/// their caches. Use it for the elements of a list in which each element is written by another thread.
///
/// The alignment is two lines of 64 bytes: x86-64 processors prefetch the neighbour of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(128))]
pub struct CachePadded<T>(T);

impl<T> CachePadded<T> {
    /// Puts the value in cache lines of its own.
    pub const fn new(value: T) -> CachePadded<T> {
        CachePadded(value)
    }
}

impl<T> Deref for CachePadded<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for CachePadded<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_in_a_list_share_no_lines() {
        let list = [CachePadded::new(1u8), CachePadded::new(2)];
        let at = |i: usize| &raw const list[i] as usize;
        assert_eq!((at(0) % 128, at(1) - at(0)), (0, 128));
        assert_eq!((*list[0], *list[1]), (1, 2));
    }
}
