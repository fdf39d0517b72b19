//! One descriptor, and where a ring is.

/// Addresses of a ring in the front-end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub descriptors: u64,
    pub used: u64,
    pub available: u64,
}

/// One descriptor, as it was read: two words. The fields are extracted where they are used. Storing them one by one
/// would make the processor wait when they are copied together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub address: u64,
    rest: u64,
}

impl Descriptor {
    pub const BYTES: usize = 16;
    pub const NEXT: u16 = 1;
    pub const WRITE: u16 = 2;
    pub const INDIRECT: u16 = 4;

    /// From its two words.
    #[inline]
    pub fn from_words(address: u64, rest: u64) -> Descriptor {
        Descriptor { address, rest }
    }

    #[inline]
    pub fn len(&self) -> u32 {
        self.rest as u32
    }

    #[inline]
    pub fn next(&self) -> u16 {
        (self.rest >> 48) as u16
    }

    /// Which of these flags it has.
    #[inline]
    pub fn flags(&self, of: u16) -> u16 {
        (self.rest >> 32) as u16 & of
    }

    #[inline]
    pub fn has(&self, flag: u16) -> bool {
        self.flags(flag) != 0
    }
}
