//! The atomics of records: from the standard library, or from the model checker loom, which tries every order that the memory model allows
//! (`--cfg loom`; `model.rs`).

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

/// Stores a value in a word that other threads change only by compare-and-swap.
#[cfg(not(loom))]
pub(crate) fn replace(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Relaxed);
}

/// As above, for loom. Loom's coherence rules would let a plain store here be ordered between the value that a compare-and-swap replaced
/// and the value that it wrote, which hardware cannot do. A swap excludes that order.
#[cfg(loom)]
pub(crate) fn replace(word: &AtomicU64, value: u64) {
    word.swap(value, Ordering::Relaxed);
}

/// The smallest page of memory, in bytes.
#[cfg(not(loom))]
const PAGE: usize = 4096;

/// A type of slot whose zeroed memory is a valid value.
pub(crate) trait Slot: Sized {
    /// `N` zeroed slots; `None`: out of memory.
    fn zeroed_chunk<const N: usize>() -> Option<Box<[Self; N]>>;

    /// As above. The kernel has already assigned memory to each page of the slots, so that no thread waits for that later.
    fn resident_chunk<const N: usize>() -> Option<Box<[Self; N]>>;
}

#[cfg(not(loom))]
impl<T: zerocopy::FromZeros> Slot for T {
    fn zeroed_chunk<const N: usize>() -> Option<Box<[T; N]>> {
        zerocopy::FromZeros::new_box_zeroed().ok()
    }

    fn resident_chunk<const N: usize>() -> Option<Box<[T; N]>> {
        let mut slots: Box<[T; N]> = Self::zeroed_chunk()?;
        for slot in slots.iter_mut().step_by((PAGE / size_of::<T>()).max(1)) {
            // The compiler must not know that this changes nothing.
            *slot = std::hint::black_box(T::new_zeroed());
        }
        Some(slots)
    }
}

/// Loom's atomics cannot be made from zeroed memory: each needs its constructor.
#[cfg(loom)]
impl<T: Default> Slot for T {
    fn zeroed_chunk<const N: usize>() -> Option<Box<[T; N]>> {
        let slots: Box<[T]> = (0..N).map(|_| T::default()).collect();
        slots.try_into().ok()
    }

    fn resident_chunk<const N: usize>() -> Option<Box<[T; N]>> {
        Self::zeroed_chunk()
    }
}
