//! Addresses and their masks in text.

use super::TextError;
use crate::Mac;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The prefix length of a mask of `width` bits; `None` if it is not a prefix.
pub fn prefix_len(mask: u128, width: u32) -> Option<u32> {
    let ones = (mask << (128 - width)).leading_ones().min(width);
    let prefix = prefix_mask(ones, width);
    (mask == prefix).then_some(ones)
}

fn prefix_mask(len: u32, width: u32) -> u128 {
    let all = u128::MAX >> (128 - width);
    all & !all.checked_shr(len).unwrap_or(0)
}

/// `a.b.c.d`, with `/len` or `/mask` unless the mask is full.
pub fn ipv4(addr: u32, mask: u32) -> String {
    let text = Ipv4Addr::from(addr).to_string();
    match prefix_len(u128::from(mask), 32) {
        Some(32) => text,
        Some(len) => format!("{text}/{len}"),
        None => format!("{text}/{}", Ipv4Addr::from(mask)),
    }
}

/// The text of an IPv6 address, as defined by RFC 5952. An address whose first 96 bits are zero is printed like `::1.2.3.4`, as the C
/// library does, unless the next 16 bits are zero, too: `::1` remains `::1`.
pub fn ipv6_addr(addr: u128) -> String {
    let low = addr as u32;
    if addr >> 32 == 0 && low >> 16 != 0 {
        return format!("::{}", Ipv4Addr::from(low));
    }
    Ipv6Addr::from(addr).to_string()
}

/// The text of an IPv6 address, with `/len` or `/mask` unless the mask is full.
pub fn ipv6(addr: u128, mask: u128) -> String {
    let text = ipv6_addr(addr);
    match prefix_len(mask, 128) {
        Some(128) => text,
        Some(len) => format!("{text}/{len}"),
        None => format!("{text}/{}", ipv6_addr(mask)),
    }
}

/// `aa:bb:cc:dd:ee:ff`, with `/mask` unless the mask is full.
pub fn mac(addr: Mac, mask: Mac) -> String {
    if mask == Mac::BROADCAST { addr.to_string() } else { format!("{addr}/{mask}") }
}

/// Parses an Ethernet address: six numbers of one or two hexadecimal digits.
pub fn parse_mac(text: &str) -> Option<Mac> {
    let mut out = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut out {
        let part = parts.next().filter(|p| (1..=2).contains(&p.len()))?;
        *byte = part.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u8::from_str_radix(part, 16).ok())??;
    }
    parts.next().is_none().then_some(Mac(out))
}

/// Parses an Ethernet address, optionally with a mask.
pub fn parse_mac_masked(text: &str) -> Result<(Mac, Mac), TextError> {
    let (addr, mask) = text.split_once('/').map_or((text, None), |(a, m)| (a, Some(m)));
    let mask = mask.map_or(Some(Mac::BROADCAST), parse_mac);
    parse_mac(addr).zip(mask).ok_or_else(|| TextError::new(format!("{text}: invalid Ethernet address")))
}

fn parse_ipv4(text: &str) -> Option<u32> {
    let mut parts = text.split('.').map(|p| {
        let digits = !p.is_empty() && p.len() <= 4 && p.bytes().all(|b| b.is_ascii_digit());
        p.parse::<u8>().ok().filter(|_| digits)
    });
    let bytes = [parts.next()??, parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(u32::from_be_bytes(bytes))
}

/// The mask of a prefix with `len` bits, for an address with `bits` bits.
fn mask_of_prefix(text: &str, len: i64, bits: u32) -> Result<u128, TextError> {
    match u32::try_from(len) {
        Ok(len) if len <= bits => Ok(prefix_mask(len, bits)),
        _ => {
            let version = if bits == 32 { 4 } else { 6 };
            Err(TextError::new(format!(
                "{text}: IPv{version} network prefix bits not between 0 and {bits}, inclusive"
            )))
        }
    }
}

/// Parses an IPv4 address, optionally with a mask or a prefix length.
pub fn parse_ipv4_masked(text: &str) -> Result<(u32, u32), TextError> {
    let invalid = || TextError::new(format!("{text}: invalid IP address"));
    let (addr, mask) = text.split_once('/').map_or((text, None), |(a, m)| (a, Some(m)));
    let addr = parse_ipv4(addr).ok_or_else(invalid)?;
    let Some(mask) = mask else { return Ok((addr, u32::MAX)) };
    if let Some(mask) = parse_ipv4(mask) {
        return Ok((addr, mask));
    }
    let len = mask.parse().map_err(|_| invalid())?;
    Ok((addr, mask_of_prefix(text, len, 32)? as u32))
}

/// Parses an IPv6 address, optionally with a mask or a prefix length.
pub fn parse_ipv6_masked(text: &str) -> Result<(u128, u128), TextError> {
    let invalid = || TextError::new(format!("{text}: invalid IPv6 address"));
    let (addr, mask) = text.split_once('/').map_or((text, None), |(a, m)| (a, Some(m)));
    let parse = |s: &str| s.trim_start().parse::<Ipv6Addr>().ok().map(u128::from);
    let addr = parse(addr).ok_or_else(invalid)?;
    let Some(mask) = mask else { return Ok((addr, u128::MAX)) };
    if let Ok(len) = mask.parse::<i64>() {
        return Ok((addr, mask_of_prefix(text, len, 128)?));
    }
    let mask = parse(mask).ok_or_else(|| TextError::new(format!("{text}: Invalid IPv6 mask")))?;
    Ok((addr, mask))
}
