//! Patches: 32 bytes of a packet are compared and written at once, under masks.
//!
//! The code operates on four words, which the compiler translates to the widest vectors of the target.

use packet::frame::HEAD_WINDOW;

/// Bytes per patch.
pub(super) const PATCH_LEN: usize = 32;

/// The window that [`packet::frame::Frame::head_window`] returns.
pub(super) type Head = [u8; HEAD_WINDOW];

type PatchWords = [u64; 4];

/// Compares and writes 32 bytes under masks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Patch {
    /// Mask of the compared bits.
    compared: PatchWords,
    /// Values of the compared bits.
    expected: PatchWords,
    /// Mask of the bits that are not written.
    keep: PatchWords,
    /// Values of the written bits.
    pub(super) value: PatchWords,
}

impl Patch {
    /// Creates a patch of the 32 bytes from `start` on. `compared` and `written` return the mask and value of the byte at an offset of
    /// the packet; they are called with the offsets `start..start + 32`.
    pub(super) fn new(
        start: usize,
        compared: impl Fn(usize) -> (u8, u8),
        written: impl Fn(usize) -> (u8, u8),
    ) -> Patch {
        let words = |byte: &dyn Fn(usize) -> u8| -> PatchWords {
            std::array::from_fn(|word| {
                u64::from_ne_bytes(std::array::from_fn(|i| byte(start + 8 * word + i)))
            })
        };
        Patch {
            compared: words(&|at| compared(at).0),
            expected: words(&|at| compared(at).1),
            keep: words(&|at| !written(at).0),
            value: words(&|at| written(at).1),
        }
    }

    /// Returns whether the patch compares and writes nothing.
    pub(super) fn is_nothing(&self) -> bool {
        self.compared == [0; 4] && !self.writes()
    }

    /// Returns whether the patch writes bits.
    #[inline(always)]
    pub(super) fn writes(&self) -> bool {
        self.keep != [u64::MAX; 4]
    }

    /// Returns whether some of the compared bits have other values than expected.
    #[inline(always)]
    pub(super) fn differs(&self, old: &PatchWords) -> bool {
        let differ: PatchWords = std::array::from_fn(|i| (old[i] ^ self.expected[i]) & self.compared[i]);
        (differ[0] | differ[1]) | (differ[2] | differ[3]) != 0
    }

    #[inline(always)]
    pub(super) fn patched(&self, old: &PatchWords) -> PatchWords {
        std::array::from_fn(|i| old[i] & self.keep[i] | self.value[i])
    }
}

#[inline(always)]
pub(super) fn load(head: &Head, at: u8) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&head[usize::from(at)..usize::from(at) + 8]);
    u64::from_ne_bytes(word)
}

#[inline(always)]
pub(super) fn store(head: &mut Head, at: u8, word: u64) {
    head[usize::from(at)..usize::from(at) + 8].copy_from_slice(&word.to_ne_bytes());
}

/// Returns the 32 bytes from `start` on.
#[inline(always)]
pub(super) fn load_patch(head: &Head, start: usize) -> PatchWords {
    std::array::from_fn(|i| load(head, (start + 8 * i) as u8))
}

#[inline(always)]
pub(super) fn store_patch(head: &mut Head, start: usize, words: &PatchWords) {
    for (i, word) in words.iter().enumerate() {
        store(head, (start + 8 * i) as u8, *word);
    }
}
