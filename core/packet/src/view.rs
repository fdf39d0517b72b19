//! The common code of all header views.

/// Declares a view: a header of a fixed size at the front of some bytes.
macro_rules! view {
    ($(#[$doc:meta])* $name:ident, $len:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name<'a>(&'a [u8; $len]);

        impl<'a> $name<'a> {
            /// Size of the header without options.
            pub const LEN: usize = $len;

            /// The header at the front of the data, and the rest. `None`: the data is too short.
            #[inline]
            pub fn parse(data: &'a [u8]) -> Option<($name<'a>, &'a [u8])> {
                data.split_first_chunk().map(|(header, rest)| ($name(header), rest))
            }
        }
    };
}

pub(crate) use view;

/// `N` bytes from offset `AT` on. If they exceed the header, the code does not compile.
#[inline]
pub(crate) fn part<const AT: usize, const N: usize, const LEN: usize>(header: &[u8; LEN]) -> [u8; N] {
    const { assert!(AT + N <= LEN) };
    let mut out = [0; N];
    out.copy_from_slice(&header[AT..AT + N]);
    out
}

#[inline]
pub(crate) fn be16<const AT: usize, const LEN: usize>(header: &[u8; LEN]) -> u16 {
    u16::from_be_bytes(part::<AT, 2, LEN>(header))
}

#[inline]
pub(crate) fn be32<const AT: usize, const LEN: usize>(header: &[u8; LEN]) -> u32 {
    u32::from_be_bytes(part::<AT, 4, LEN>(header))
}
