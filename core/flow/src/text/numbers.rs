//! Parses and prints numbers.

use super::TextError;
use crate::field::low_bits;

/// Why a text is not a number of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadInteger {
    Syntax,
    TooLarge,
}

/// Parses a number of at most `n_bytes` at the front of a text, with the base given by its prefix as in C. Returns the number
/// and the rest of the text. Hexadecimal numbers may have white space between the digits, and up to 128 bits.
pub(crate) fn integer_prefix(text: &str, n_bytes: u8) -> Result<(u128, &str), BadInteger> {
    let limit = low_bits(8 * u32::from(n_bytes));
    let Some(mut rest) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) else {
        let (value, rest) = parse_u64_prefix(text)?;
        let value = u128::from(value);
        return if value > limit { Err(BadInteger::TooLarge) } else { Ok((value, rest)) };
    };
    let mut value = 0u128;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let Some(digit) = rest.chars().next().and_then(|c| c.to_digit(16)) else { return Ok((value, rest)) };
        if value > limit >> 4 {
            return Err(BadInteger::TooLarge);
        }
        value = value << 4 | u128::from(digit);
        rest = &rest[1..];
    }
}

/// Sign (true: negative), base and digits of a number at the front of a text, and the rest of the text.
fn split_number(text: &str) -> Option<(bool, u32, &str, &str)> {
    let start = text.trim_start();
    let (negative, start) = match start.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, start.strip_prefix('+').unwrap_or(start)),
    };
    let is_hex = |s: &str| s.starts_with(|c: char| c.is_ascii_hexdigit());
    let hex = start.strip_prefix("0x").or_else(|| start.strip_prefix("0X")).filter(|s| is_hex(s));
    let (base, digits) = match hex {
        Some(rest) => (16, rest),
        None if start.starts_with('0') => (8, start),
        None => (10, start),
    };
    let len = digits.find(|c: char| !c.is_digit(base)).unwrap_or(digits.len());
    (len > 0).then(|| (negative, base, &digits[..len], &digits[len..]))
}

fn parse_u64_prefix(text: &str) -> Result<(u64, &str), BadInteger> {
    let (negative, base, digits, rest) = split_number(text).ok_or(BadInteger::Syntax)?;
    let value = u64::from_str_radix(digits, base).map_err(|_| BadInteger::TooLarge)?;
    Ok((if negative { value.wrapping_neg() } else { value }, rest))
}

/// Parses a signed number at the front of a text. Returns the number and the rest of the text.
pub(crate) fn parse_i64_prefix(text: &str) -> Option<(i64, &str)> {
    let (negative, base, digits, rest) = split_number(text)?;
    let value = i64::from_str_radix(digits, base).ok()?;
    Some((if negative { -value } else { value }, rest))
}

/// Parses a number, and a mask behind a slash if there is one. `prefix` parses a number at the front of a text. `name` and
/// `n_bytes`, of the field, are for error messages.
pub(super) fn number_and_mask<T>(
    text: &str,
    name: &str,
    n_bytes: usize,
    prefix: impl Fn(&str) -> Result<(T, &str), BadInteger>,
) -> Result<(T, Option<T>), TextError> {
    let error = |bad, what| {
        TextError(match bad {
            BadInteger::TooLarge => format!("{text}: {what} too large for {n_bytes}-byte field {name}"),
            BadInteger::Syntax => format!("{text}: bad syntax for {name} {what}"),
        })
    };
    let (value, rest) = prefix(text).map_err(|e| error(e, "value"))?;
    if rest.is_empty() {
        return Ok((value, None));
    }
    let mask = rest.strip_prefix('/').ok_or_else(|| error(BadInteger::Syntax, "value"))?;
    let (mask, rest) = prefix(mask).map_err(|e| error(e, "mask"))?;
    if rest.is_empty() { Ok((value, Some(mask))) } else { Err(error(BadInteger::Syntax, "mask")) }
}

/// Parses a text that is a number of at most `n_bytes`.
pub fn parse_integer(text: &str, n_bytes: u8) -> Option<u128> {
    integer_prefix(text, n_bytes).ok().filter(|(_, rest)| rest.is_empty()).map(|(v, _)| v)
}

/// The hexadecimal text of a number, as `%#x` of C prints it: with `0x`, but `0` for zero.
pub fn hex(value: u128) -> String {
    if value == 0 { "0".to_owned() } else { format!("{value:#x}") }
}
