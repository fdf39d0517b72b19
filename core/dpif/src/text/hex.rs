//! Numbers in hexadecimal digits.

/// `0x` and digits, but a bare `0` for zero.
pub(super) fn hex(value: u128) -> String {
    if value == 0 { "0".to_owned() } else { format!("{value:#x}") }
}
