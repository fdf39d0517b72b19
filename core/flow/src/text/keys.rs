//! `key=value` lists, and the short names of protocols.

/// The meaning of a short name such as `tcp6`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// Ethernet type.
    pub dl_type: u16,
    /// IP protocol; 0 for any.
    pub nw_proto: u8,
}

/// The protocol with this short name.
pub fn protocol(name: &str) -> Option<Protocol> {
    let (dl_type, nw_proto) = match name {
        "ip" | "ipv4" | "ip4" => (0x0800, 0),
        "arp" => (0x0806, 0),
        "icmp" => (0x0800, 1),
        "tcp" => (0x0800, 6),
        "udp" => (0x0800, 17),
        "sctp" => (0x0800, 132),
        "ipv6" | "ip6" => (0x86dd, 0),
        "icmp6" => (0x86dd, 58),
        "tcp6" => (0x86dd, 6),
        "udp6" => (0x86dd, 17),
        "sctp6" => (0x86dd, 132),
        "rarp" => (0x8035, 0),
        "mpls" => (0x8847, 0),
        "mplsm" => (0x8848, 0),
        _ => return None,
    };
    Some(Protocol { dl_type, nw_proto })
}

/// Returns whether a byte separates the entries of a list.
fn is_separator(byte: u8) -> bool {
    matches!(byte, b',' | b' ' | b'\t' | b'\r' | b'\n')
}

/// Length of a value, which ends before a delimiter outside of parentheses. Delimiters are ASCII, so a delimiter byte is never
/// part of another UTF-8 character.
fn value_len(text: &str, delimits: impl Fn(u8) -> bool) -> usize {
    let mut depth = 0usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            byte if depth == 0 && delimits(byte) => return at,
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    text.len()
}

fn skip_one(text: &str) -> &str {
    let mut chars = text.chars();
    chars.next();
    chars.as_str()
}

/// Removes a key and its value from the front of a text, in one of the forms `key`, `key=value`, `key:value`, `key(value)`.
/// `None` at the end of the text.
pub fn next_key_value<'a>(text: &mut &'a str) -> Option<(&'a str, &'a str)> {
    let start = text.trim_start_matches(|c| u8::try_from(c).is_ok_and(is_separator));
    *text = start;
    if start.is_empty() {
        return None;
    }
    let ends_key = |byte| is_separator(byte) || matches!(byte, b':' | b'=' | b'(');
    let (key, rest) = start.split_at(start.bytes().position(ends_key).unwrap_or(start.len()));
    *text = skip_one(rest);
    let len = match rest.bytes().next() {
        Some(b':' | b'=') => value_len(text, is_separator),
        Some(b'(') => {
            let len = value_len(text, |byte| byte == b')');
            // "(a)->b" is one value.
            let more = text[len..].starts_with(")->");
            if more { len + value_len(&text[len..], is_separator) } else { len }
        }
        _ => return Some((key, "")),
    };
    let (value, rest) = text.split_at(len);
    *text = skip_one(rest);
    Some((key, value))
}
