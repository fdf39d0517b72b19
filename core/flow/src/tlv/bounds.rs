//! Limits of tunnel options and their fields.

/// Number of fields: `tun_metadata0` to `tun_metadata63`.
pub const FIELDS: usize = 64;
/// Maximum number of bytes of all fields together.
pub const ALL_FIELDS_BYTES_MAX: usize = 256;
/// Maximum length of an option's data in bytes: five bits of its header count units of four bytes (31 × 4).
pub const FIELD_BYTES_MAX: usize = 124;
/// Maximum length of the options of a header in bytes: six bits of the header count units of four bytes (63 × 4).
pub const OPTIONS_MAX: usize = 252;
