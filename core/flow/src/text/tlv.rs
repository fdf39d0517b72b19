//! Values of tunnel options as text: hexadecimal numbers of any length.

use super::TextError;
use super::numbers::{BadInteger, integer_prefix, number_and_mask};
use crate::field::FieldId;
use crate::tlv::{FIELD_BYTES_MAX, TlvMatch, significant};

/// The hexadecimal number that the bytes form: `0x` and digits without leading zeros; `0` for zero.
pub fn bytes_text(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    match digits.trim_start_matches('0') {
        "" => "0".to_owned(),
        digits => format!("0x{digits}"),
    }
}

/// Parses a number at the front of a text to bytes without leading zeros. Also returns the rest of the text.
fn bytes_prefix(text: &str, n_bytes: usize) -> Result<(Vec<u8>, &str), BadInteger> {
    let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) else {
        let (value, rest) = integer_prefix(text, 8)?;
        return check_len(&value.to_be_bytes(), n_bytes).map(|v| (v, rest));
    };
    let end = digits.find(|c: char| !c.is_ascii_hexdigit() && !c.is_ascii_whitespace());
    let (digits, rest) = digits.split_at(end.unwrap_or(digits.len()));
    let mut nibbles: Vec<u8> =
        digits.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).skip_while(|d| *d == 0).collect();
    if !nibbles.len().is_multiple_of(2) {
        nibbles.insert(0, 0);
    }
    let bytes: Vec<u8> = nibbles.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    check_len(&bytes, n_bytes).map(|v| (v, rest))
}

fn check_len(bytes: &[u8], n_bytes: usize) -> Result<Vec<u8>, BadInteger> {
    let used = significant(bytes);
    if used.len() > n_bytes { Err(BadInteger::TooLarge) } else { Ok(used.to_vec()) }
}

/// Parses a text that is a number of at most `n_bytes`, to bytes without leading zeros.
pub fn parse_bytes(text: &str, n_bytes: usize) -> Option<Vec<u8>> {
    bytes_prefix(text, n_bytes).ok().filter(|(_, rest)| rest.is_empty()).map(|(v, _)| v)
}

/// A value, and its mask if the text has one.
pub type Masked = (Vec<u8>, Option<Vec<u8>>);

impl FieldId {
    /// Parses value and mask of a field of tunnel options; `*` matches no bits.
    pub fn parse_tlv(self, text: &str) -> Result<Masked, TextError> {
        if text == "*" {
            return Ok((Vec::new(), Some(Vec::new())));
        }
        let name = self.info().name;
        number_and_mask(text, name, FIELD_BYTES_MAX, |digits| bytes_prefix(digits, FIELD_BYTES_MAX))
    }
}

/// The text of a match on a tunnel option: `tun_metadata0=0xa/0xf`; `tun_metadata0` if only its presence is matched;
/// `tun_metadata0=NP` if its absence is matched.
pub(super) fn match_text(t: &TlvMatch) -> String {
    let name = format!("tun_metadata{}", t.index);
    match t {
        t if !t.present => format!("{name}=NP"),
        t if t.is_presence() => name,
        t if t.is_exact() => format!("{name}={}", bytes_text(&t.value)),
        t => format!("{name}={}/{}", bytes_text(&t.value), bytes_text(&t.mask)),
    }
}
