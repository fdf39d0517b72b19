//! Bounds of options and their fields.

/// `tun_metadata0` to `tun_metadata63`.
pub const FIELDS: usize = 64;
/// Bytes that all fields of a packet have together.
pub const SPACE: usize = 256;
/// The longest option: five bits of its header count four bytes each.
pub const FIELD_BYTES_MAX: usize = 124;
/// Bytes of options that a header can have: six bits count four bytes each.
pub const OPTIONS_MAX: usize = 252;
