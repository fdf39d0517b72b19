//! One descriptor, and the addresses of a ring.

/// Addresses of the parts of a ring in the front-end's address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub descriptors: u64,
    pub used: u64,
    pub available: u64,
}

/// One descriptor as two words. The fields are extracted where they are used: if they were stored one by one and then copied together,
/// the processor would have to wait for the stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub address: u64,
    /// From the lowest bit: length (32 bits), flags (16), number of the next descriptor or buffer id (16).
    rest: u64,
}

impl Descriptor {
    pub const BYTES: usize = 16;
    pub const NEXT: u16 = 1;
    pub const WRITE: u16 = 2;
    pub const INDIRECT: u16 = 4;

    /// Creates a descriptor from its two words.
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

    /// The flags among `of` that the descriptor has.
    #[inline]
    pub fn flags(&self, of: u16) -> u16 {
        (self.rest >> 32) as u16 & of
    }

    #[inline]
    pub fn has(&self, flag: u16) -> bool {
        self.flags(flag) != 0
    }
}
