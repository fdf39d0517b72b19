//! OpenFlow ports in text: numbers, reserved names, and the names of devices.

use super::NameMap;
use units::OfPort;

/// A reserved name, a device's name in quotes where it needs them, or the number.
pub fn port_text(port: OfPort, names: &dyn NameMap) -> String {
    if let Some(reserved) = port.reserved_name() {
        return reserved.to_owned();
    }
    match names.port_name(port) {
        Some(name) => quoted(&name),
        None => port.0.to_string(),
    }
}

pub(super) fn quoted(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric());
    if plain {
        return name.to_owned();
    }
    let mut out = String::from("\"");
    for c in name.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// What the quotes hold; escapes of one character only.
pub(super) fn unquoted(text: &str) -> Option<String> {
    let inside = text.strip_prefix('"')?.strip_suffix('"')?;
    let mut out = String::with_capacity(inside.len());
    let mut chars = inside.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next()? {
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'u' => {
                    let digits: String = chars.by_ref().take(4).collect();
                    char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
                }
                c @ ('"' | '\\' | '/') => c,
                _ => return None,
            },
            c => c,
        });
    }
    Some(out)
}

/// A number in its 16-bit or 32-bit form, a reserved name in any case, or a device's name.
pub fn port_from_text(text: &str, names: &dyn NameMap) -> Option<OfPort> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return match text.parse::<u32>().ok()? {
            n @ 0..=0xffff => Some(OfPort(n as u16)),
            n => OfPort::from_u32(n),
        };
    }
    OfPort::from_reserved_name(text).or_else(|| match text.starts_with('"') {
        true => names.port_number(&unquoted(text)?),
        false => names.port_number(text),
    })
}
