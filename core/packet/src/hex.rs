//! Packets as hexadecimal text, the format that `netdev-dummy/receive` and packet-out accept.

/// Parses pairs of hexadecimal digits, with optional white space between pairs. `None` for any other text.
pub fn parse(text: &str) -> Option<Vec<u8>> {
    let mut digits = text.bytes().filter(|b| !b.is_ascii_whitespace()).map(|b| char::from(b).to_digit(16));
    let mut out = Vec::with_capacity(text.len() / 2);
    while let Some(high) = digits.next() {
        out.push((high? << 4 | digits.next()??) as u8);
    }
    Some(out)
}

/// Formats bytes as hexadecimal digits.
pub fn format(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    bytes.iter().flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]).collect()
}

/// Formats bytes as one number without leading zeros; 0 for no bytes.
pub fn number(bytes: &[u8]) -> String {
    match format(bytes).trim_start_matches('0') {
        "" => "0".to_owned(),
        digits => format!("0x{digits}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn odd_digits_and_other_characters_are_errors() {
        assert_eq!(parse("de ad\nBEEF"), Some(vec![0xde, 0xad, 0xbe, 0xef]));
        assert_eq!(parse("abc"), None);
        assert_eq!(parse("zz"), None);
        assert_eq!([number(&[0, 1, 2]), number(&[0]), number(&[])], ["0x102", "0", "0"]);
    }

    proptest! {
        #[test]
        fn text_and_back(bytes: Vec<u8>) {
            prop_assert_eq!(parse(&format(&bytes)), Some(bytes));
        }
    }
}
