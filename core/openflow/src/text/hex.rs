//! Bytes and numbers as hexadecimal text.

use std::fmt::Write;

/// Prints 16 bytes per line, with offsets; `ascii` adds the printable characters.
pub fn hex_dump(bytes: &[u8], ascii: bool) -> String {
    let mut out = String::new();
    for (line, chunk) in bytes.chunks(16).enumerate() {
        let _ = write!(out, "{:08x} ", line * 16);
        for (i, b) in chunk.iter().enumerate() {
            let _ = write!(out, "{}{b:02x}", if i == 8 { '-' } else { ' ' });
        }
        if ascii {
            out.push_str(&"   ".repeat(16 - chunk.len()));
            out.push_str(" |");
            out.extend(chunk.iter().map(|&b| if (0x20..0x7f).contains(&b) { char::from(b) } else { '.' }));
            out.push_str(&" ".repeat(16 - chunk.len()));
            out.push('|');
        }
        out.push('\n');
    }
    out
}

/// Parses hexadecimal digits, possibly with white space between; also returns the rest of the text.
pub fn hex_bytes(text: &str) -> (Vec<u8>, &str) {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let pair = rest.get(..2).filter(|p| p.bytes().all(|b| b.is_ascii_hexdigit()));
        let Some(byte) = pair.and_then(|p| u8::from_str_radix(p, 16).ok()) else { return (bytes, rest) };
        bytes.push(byte);
        rest = &rest[2..];
    }
}

/// Prints printable characters unchanged, and escapes other bytes.
pub(super) fn printable(bytes: &[u8]) -> String {
    let mut out = String::new();
    for &b in bytes {
        match b {
            b'\\' => out.push_str("\\\\"),
            0x20..0x7f => out.push(char::from(b)),
            _ => {
                let _ = write!(out, "\\{b:03o}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let text = hex_dump(&[1, 1, 0, 12, 0, 0, 0, 1, 0x41, 0x7f], true);
        assert_eq!(text, "00000000  01 01 00 0c 00 00 00 01-41 7f                   |........A.      |\n");
        assert_eq!(hex_bytes("01 fF\n2"), (vec![1, 255], "2"));
        assert_eq!(hex_bytes("é"), (vec![], "é"));
    }
}
