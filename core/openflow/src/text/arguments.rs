//! Parses parts of arguments: numbers with their ranges, arrows, hexadecimal bytes.

use crate::flow_mod::GROUP_ANY;
use crate::group::{GROUP_ALL, GROUP_MAX};
use flow::text::{NameMap, TextError, port_from_text, table_from_text};
use flow::{FieldId, Subfield};
use units::OfPort;

/// An error with this text.
pub(super) fn error<T>(text: impl Into<String>) -> Result<T, TextError> {
    Err(TextError(text.into()))
}

/// Splits a line of a file into the command at its beginning, which may be abbreviated, and the rest. If the line does not begin with a
/// command, the rest is the complete line.
pub(super) fn command_of<'t, C: Copy>(line: &'t str, commands: &[(&str, C)]) -> (Option<C>, &'t str) {
    let line = line.trim_start_matches([' ', '\t', '\r', '\n']);
    let (word, rest) = line.split_at(line.find([',', ' ', '\t', '\r', '\n']).unwrap_or(line.len()));
    match commands.iter().find(|(name, _)| name.starts_with(word)) {
        Some((_, command)) => (Some(*command), rest),
        None => (None, line),
    }
}

/// Parses a group's number, `all` or `any`.
pub(super) fn group_number(text: &str) -> Option<u32> {
    match text.to_ascii_lowercase().as_str() {
        "all" => Some(GROUP_ALL),
        "any" => Some(GROUP_ANY),
        _ => integer(text).and_then(|n| u32::try_from(n).ok()).filter(|n| *n <= GROUP_MAX),
    }
}

/// A group's number, `all` or `any`, as a setting of a flow.
pub(super) fn group_value(value: &str) -> Result<u32, TextError> {
    group_number(value).map_or_else(|| error(format!("{value} is not a valid OpenFlow group")), Ok)
}

/// A port's number or name.
pub(super) fn port_value(value: &str, names: &dyn NameMap) -> Result<OfPort, TextError> {
    port_from_text(value, names).map_or_else(|| error(format!("{value} is not a valid OpenFlow port")), Ok)
}

/// A table's number or name.
pub(super) fn table_value(value: &str, names: &dyn NameMap) -> Result<u8, TextError> {
    table_from_text(value, names).map_or_else(|| error(format!("unknown table \"{value}\"")), Ok)
}

/// A number in decimal, hexadecimal (`0x`) or octal (leading 0) form, as `strtoull` with base 0 accepts it.
pub(super) fn integer(text: &str) -> Option<u64> {
    match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => digits(&text[2..], 16),
        [b'0', _, ..] => digits(&text[1..], 8),
        _ => digits(text, 10),
    }
}

fn digits(text: &str, radix: u32) -> Option<u64> {
    // `from_str_radix` accepts a sign, which is not allowed here.
    text.starts_with(|c: char| c.is_ascii_hexdigit()).then(|| u64::from_str_radix(text, radix).ok())?
}

/// Error for a text that is not a number.
fn no_number<T>(text: &str) -> Result<T, TextError> {
    match text {
        "" => error("missing required numeric argument"),
        _ => error(format!("invalid numeric format {text}")),
    }
}

/// A 64-bit number. A negative number is converted to two's complement, for masks like `-1`.
pub(super) fn u64_value(text: &str) -> Result<u64, TextError> {
    let number = match text.strip_prefix('-') {
        Some(positive) => integer(positive).map(u64::wrapping_neg),
        None => integer(text),
    };
    number.map_or_else(|| no_number(text), Ok)
}

/// A 32-bit number.
pub(super) fn u32_value(text: &str) -> Result<u32, TextError> {
    integer(text).and_then(|v| u32::try_from(v).ok()).map_or_else(|| no_number(text), Ok)
}

/// A 16-bit number. `name`: the argument, for the error text.
pub(super) fn u16_value(text: &str, name: &str) -> Result<u16, TextError> {
    integer(text)
        .and_then(|v| u16::try_from(v).ok())
        .map_or_else(|| error(format!("invalid {name} \"{text}\"")), Ok)
}

/// An 8-bit number. `name`: the argument, for the error text.
pub(super) fn u8_value(text: &str, name: &str) -> Result<u8, TextError> {
    integer(text)
        .and_then(|v| u8::try_from(v).ok())
        .map_or_else(|| error(format!("invalid {name} \"{text}\"")), Ok)
}

/// A subfield.
pub(super) fn subfield(text: &str) -> Result<Subfield, TextError> {
    Subfield::parse(text.trim()).map_err(|e| TextError(e.to_string()))
}

/// The field with this name, in the style of NXM or of OXM.
pub(super) fn field(name: &str) -> Option<FieldId> {
    FieldId::from_name(name).or_else(|| FieldId::from_nxm_name(name))
}

/// Splits `value->destination`.
pub(super) fn arrow<'a>(text: &'a str, whole: &str) -> Result<(&'a str, &'a str), TextError> {
    match text.split_once("->") {
        Some((_, "")) => error(format!("{whole}: missing field name following `->'")),
        Some((value, dst)) => Ok((value.trim(), dst.trim())),
        None => error(format!("{whole}: missing `->'")),
    }
}

/// Parses bytes written as hexadecimal digits with dots between.
pub(super) fn dotted_hex(text: &str) -> Result<Vec<u8>, TextError> {
    let digits: Vec<u8> = text.bytes().filter(|b| *b != b'.').collect();
    let digits = std::str::from_utf8(&digits).unwrap_or("");
    if !digits.len().is_multiple_of(2) || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return error(format!("bad hex digit in `{}'", text));
    }
    Ok((0..digits.len()).step_by(2).filter_map(|i| u8::from_str_radix(&digits[i..i + 2], 16).ok()).collect())
}
