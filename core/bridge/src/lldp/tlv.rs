//! The elements of a message (IEEE 802.1AB 8.4): a type of 7 bits, a length of 9 bits, and the value.

/// Types of elements (IEEE 802.1AB table 8-1).
pub(super) mod kind {
    pub(crate) const END: u8 = 0;
    pub(crate) const CHASSIS_ID: u8 = 1;
    pub(crate) const PORT_ID: u8 = 2;
    pub(crate) const TTL: u8 = 3;
    pub(crate) const PORT_DESCRIPTION: u8 = 4;
    pub(crate) const SYSTEM_NAME: u8 = 5;
    pub(crate) const SYSTEM_DESCRIPTION: u8 = 6;
    pub(crate) const CAPABILITIES: u8 = 7;
    pub(crate) const MANAGEMENT_ADDRESS: u8 = 8;
    pub(crate) const ORGANIZATION: u8 = 127;
}

/// Maximum length in bytes of a value.
pub(super) const VALUE_MAX: usize = 0x1ff;
/// The length of the header, and the number of bits of a length.
const HEADER_LEN: usize = 2;
const LENGTH_BITS: u32 = 9;

/// An element of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tlv<'a> {
    /// Type.
    pub(super) kind: u8,
    /// Value.
    pub(super) value: &'a [u8],
}

/// Splits the first element off. `None`: it is truncated.
pub(super) fn split(bytes: &[u8]) -> Option<(Tlv<'_>, &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<HEADER_LEN>()?;
    let header = u16::from_be_bytes(*header);
    let (value, rest) = rest.split_at_checked(usize::from(header) & VALUE_MAX)?;
    Some((Tlv { kind: (header >> LENGTH_BITS) as u8, value }, rest))
}

/// Appends an element. A value that is too long is truncated.
pub(super) fn put(to: &mut Vec<u8>, kind: u8, value: &[u8]) {
    let value = &value[..value.len().min(VALUE_MAX)];
    let header = u16::from(kind) << LENGTH_BITS | value.len() as u16;
    to.extend(header.to_be_bytes());
    to.extend(value);
}
