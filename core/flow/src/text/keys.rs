//! `key=value` lists, and the short names of protocols.

/// What a short name such as `tcp6` stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// Ethernet type.
    pub dl_type: u16,
    /// IP protocol; 0 for any.
    pub nw_proto: u8,
}

/// The protocol of a short name.
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

const SPACE: &[char] = &[',', ' ', '\t', '\r', '\n'];

/// Where a value ends: at a delimiter that is in no parentheses.
fn value_len(text: &str, delimiters: &[char]) -> usize {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            c if depth == 0 && delimiters.contains(&c) => return at,
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
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

/// Takes a key and its value off the front: `key`, `key=value`, `key:value`, `key(value)`. `None` at the end.
pub fn next_key_value<'a>(text: &mut &'a str) -> Option<(&'a str, &'a str)> {
    let start = text.trim_start_matches(SPACE);
    *text = start;
    if start.is_empty() {
        return None;
    }
    let key_len = start.find([':', '=', '(', ',', ' ', '\t', '\r', '\n']).unwrap_or(start.len());
    let (key, rest) = start.split_at(key_len);
    *text = skip_one(rest);
    let delimiters: &[char] = match rest.chars().next() {
        Some(':' | '=') => SPACE,
        Some('(') => &[')'],
        _ => return Some((key, "")),
    };
    let mut len = value_len(text, delimiters);
    // "(a)->b" is one value.
    if delimiters == [')'] && text[len..].starts_with(")->") {
        len += value_len(&text[len..], SPACE);
    }
    let (value, rest) = text.split_at(len);
    *text = skip_one(rest);
    Some((key, value))
}
