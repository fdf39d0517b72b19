//! Fields that are sets of named bits: `+new-trk`, `syn|ack`, `0x12/0x3f`.

use super::TextError;
use super::numbers::parse_i64_prefix;

/// Gives the name of one bit.
pub type BitName = fn(u32) -> Option<&'static str>;

fn named(names: &[&'static str], bit: u32) -> Option<&'static str> {
    bit.is_power_of_two().then(|| names.get(bit.trailing_zeros() as usize).copied()).flatten()
}

/// The name of a bit of `ct_state`.
pub fn ct_state(bit: u32) -> Option<&'static str> {
    named(&["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"], bit)
}

/// The name of a bit of `tcp_flags`.
pub fn tcp(bit: u32) -> Option<&'static str> {
    const NAMES: [&str; 12] =
        ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns", "[200]", "[400]", "[800]"];
    named(&NAMES, bit)
}

/// The name of a bit of `tun_flags`.
pub fn tunnel(bit: u32) -> Option<&'static str> {
    named(&["oam", "df", "csum", "key"], bit)
}

fn bits(set: u32) -> impl Iterator<Item = u32> {
    (0..32).map(|i| 1 << i).filter(move |b| set & b != 0)
}

/// The names of the bits that are set, separated by the delimiter; `0` if no bit is set.
pub fn format(name: BitName, flags: u32, delimiter: char) -> String {
    if flags == 0 {
        return "0".to_owned();
    }
    let mut parts: Vec<String> = bits(flags).filter_map(name).map(str::to_owned).collect();
    let unnamed = bits(flags).filter(|&b| name(b).is_none()).fold(0, |all, b| all | b);
    if unnamed != 0 {
        parts.push(format!("{unnamed:#x}"));
    }
    parts.join(&delimiter.to_string())
}

/// The bits of the mask as `+name` (set) or `-name` (not set). If the mask is `full`, the names of the set bits, separated by
/// `|`.
pub fn format_masked(name: BitName, flags: u32, mask: u32, full: u32) -> String {
    if mask == full {
        return format(name, flags, '|');
    }
    if mask == 0 {
        return "0/0".to_owned();
    }
    let sign = |b| if flags & b != 0 { '+' } else { '-' };
    bits(mask).map(|b| format!("{}{}", sign(b), name(b).unwrap_or("[Unknown]"))).collect()
}

/// Parses flags and their mask. The mask is all ones if the text has neither signs nor a mask.
pub fn parse(text: &str, name: BitName, field: &str, allowed: u32) -> Result<(u32, u32), TextError> {
    let unknown = |at: &str| TextError::new(format!("{at}: unknown {field} flag(s)"));
    if let Some((flags, mask)) = parse_numbers(text) {
        let fits = flags & !allowed == 0 && mask & !allowed == 0;
        return if fits { Ok((flags, mask)) } else { Err(unknown(text)) };
    }
    if text.starts_with(['+', '-']) {
        parse_signed(text, name, field, allowed)
    } else {
        parse_set(text, name, allowed).ok_or_else(|| unknown(text))
    }
}

fn parse_numbers(text: &str) -> Option<(u32, u32)> {
    let (flags, mask) = text.split_once('/')?;
    let number = |s| parse_i64_prefix(s).filter(|(_, rest)| rest.is_empty()).map(|(v, _)| v as u32);
    Some((number(flags)?, number(mask)?))
}

fn parse_signed(text: &str, name: BitName, field: &str, allowed: u32) -> Result<(u32, u32), TextError> {
    let (mut flags, mut mask) = (0, 0);
    let mut rest = text;
    while !rest.is_empty() {
        let Some(word_on) = rest.strip_prefix(['+', '-']) else {
            return Err(TextError::new(format!(
                "{rest}: {field} must be preceded by '+' (for SET) or '-' (NOT SET)"
            )));
        };
        let word = &word_on[..word_on.find(['+', '-']).unwrap_or(word_on.len())];
        let found = (0..32).map(|i| 1u32 << i).find(|&b| name(b) == Some(word));
        let Some(bit) = found.filter(|b| b & allowed != 0 || b & mask != 0) else {
            return Err(TextError::new(format!("{word_on}: unknown {field} flag(s)")));
        };
        if mask & bit != 0 {
            return Err(TextError::new(format!("{word_on}: Each {field} flag can be specified only once")));
        }
        mask |= bit;
        if rest.starts_with('+') {
            flags |= bit;
        }
        rest = &word_on[word.len()..];
    }
    Ok((flags, mask))
}

fn parse_set(text: &str, name: BitName, allowed: u32) -> Option<(u32, u32)> {
    let mut flags = 0;
    let mut rest = text;
    while !rest.is_empty() {
        if let Some((number, after)) = parse_i64_prefix(rest) {
            flags |= u32::try_from(number).ok().filter(|n| n & !allowed == 0)?;
            rest = after.strip_prefix('|').unwrap_or(after);
            continue;
        }
        let (word, after) = rest.split_once('|').unwrap_or((rest, ""));
        flags |= (0..32).map(|i| 1 << i).find(|&b| name(b) == Some(word) && b & allowed != 0)?;
        rest = after;
    }
    Some((flags, u32::MAX))
}
