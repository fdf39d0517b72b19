//! The network service header (NSH) as text: the part `nsh(..)` of a key, and the arguments of `push_nsh`.

use super::scan::{items, masked, number};
use crate::action::PushNsh;
use flow::Nsh;
use packet::nsh::{LEN_MAX, MD_TYPE_1, MD_TYPE_2};

/// Largest service path identifier (24 bits).
const SPI_MAX: u32 = 0xff_ffff;

/// The text in `nsh(...)`: the matched fields; without a mask, all fields.
pub(super) fn fields(nsh: &Nsh, mask: Option<&Nsh>) -> String {
    let Some(mask) = mask else { return all_fields(nsh) };
    let mut parts = Vec::new();
    let mut byte = |name: &str, value: u8, mask: u8| match mask {
        0 => {}
        u8::MAX => parts.push(format!("{name}={value}")),
        m => parts.push(format!("{name}={value:#04x}/{m:#04x}")),
    };
    byte("flags", nsh.flags, mask.flags);
    byte("ttl", nsh.ttl, mask.ttl);
    byte("mdtype", nsh.md_type, mask.md_type);
    byte("np", nsh.np, mask.np);
    let spi_mask = if mask.spi() == SPI_MAX { u32::MAX } else { mask.spi() };
    parts.extend(word("spi", nsh.spi(), spi_mask));
    match mask.si() {
        0 => {}
        u8::MAX => parts.push(format!("si={}", nsh.si())),
        m => parts.push(format!("si={:#04x}/{m:#04x}", nsh.si())),
    }
    for (i, (&value, &mask)) in nsh.context.iter().zip(&mask.context).enumerate() {
        parts.extend(word(&format!("c{}", i + 1), value, mask));
    }
    parts.join(",")
}

/// The text in `nsh(...)` of a key. If the NSH has no context words (metadata type 2, or truncated), four zeros are printed
/// for them, as in Open vSwitch, whether they are matched or not.
pub(super) fn key_fields(nsh: &Nsh, mask: Option<&Nsh>) -> String {
    let has_context = nsh.md_type == MD_TYPE_1 || nsh.context != [0; 4];
    let widened = mask.map(|m| Nsh { context: if has_context { m.context } else { [u32::MAX; 4] }, ..*m });
    fields(nsh, widened.as_ref())
}

fn word(name: &str, value: u32, mask: u32) -> Option<String> {
    match mask {
        0 => None,
        u32::MAX => Some(format!("{name}={value:#x}")),
        m => Some(format!("{name}={value:#x}/{m:#010x}")),
    }
}

fn base_header(nsh: &Nsh) -> String {
    format!(
        "flags={},ttl={},mdtype={},np={},spi={:#x},si={}",
        nsh.flags,
        nsh.ttl,
        nsh.md_type,
        nsh.np,
        nsh.spi(),
        nsh.si()
    )
}

fn all_fields(nsh: &Nsh) -> String {
    let mut text = base_header(nsh);
    if nsh.md_type == MD_TYPE_1 {
        let [c1, c2, c3, c4] = nsh.context;
        text += &format!(",c1={c1:#x},c2={c2:#x},c3={c3:#x},c4={c4:#x}");
    }
    text
}

/// The arguments of `push_nsh`.
pub(super) fn push_fields(push: &PushNsh) -> String {
    if push.nsh.md_type == MD_TYPE_1 {
        return all_fields(&push.nsh);
    }
    format!("{},md2={}", base_header(&push.nsh), packet::hex::number(&push.md2))
}

/// Parses the fields inside of `nsh(...)`. A field without a mask is exact.
pub(super) fn parse(inside: &str, key: &mut Nsh, mask: &mut Nsh) -> Option<()> {
    for item in items(inside).ok()? {
        let v = item.value?;
        match item.name {
            "flags" => (key.flags, mask.flags) = masked(v, u8::MAX)?,
            "ttl" => (key.ttl, mask.ttl) = masked(v, u8::MAX)?,
            "mdtype" => (key.md_type, mask.md_type) = masked(v, u8::MAX)?,
            "np" => (key.np, mask.np) = masked(v, u8::MAX)?,
            "spi" => {
                let (spi, bits) = masked(v, SPI_MAX)?;
                if spi > SPI_MAX {
                    return None;
                }
                (key.path, mask.path) = (key.path | spi << 8, mask.path | (bits & SPI_MAX) << 8);
            }
            "si" => {
                let (si, bits) = masked::<u8>(v, u8::MAX)?;
                (key.path, mask.path) = (key.path | u32::from(si), mask.path | u32::from(bits));
            }
            "c1" | "c2" | "c3" | "c4" => {
                let i = usize::from(item.name.as_bytes()[1] - b'1');
                (key.context[i], mask.context[i]) = masked(v, u32::MAX)?;
            }
            _ => return None,
        }
    }
    Some(())
}

/// Parses the arguments of `push_nsh`; missing fields have the values of a new header.
pub(super) fn parse_push(inside: &str) -> Option<PushNsh> {
    let mut push = PushNsh { nsh: Nsh { np: packet::nsh::next::ETHERNET, ..Nsh::NEW }, md2: Vec::new() };
    for item in items(inside).ok()? {
        let v = item.value?;
        let nsh = &mut push.nsh;
        match item.name {
            "flags" => nsh.flags = number(v).filter(|f| *f <= 3)?,
            "ttl" => nsh.ttl = number(v).filter(|t| *t <= 63)?,
            "mdtype" => nsh.md_type = number(v).filter(|t| matches!(*t, MD_TYPE_1 | MD_TYPE_2))?,
            "np" => nsh.np = number(v)?,
            "spi" => nsh.path = nsh.path & 0xff | number::<u32>(v).filter(|s| *s <= SPI_MAX)? << 8,
            "si" => nsh.path = nsh.path & !0xff | u32::from(number::<u8>(v)?),
            "c1" | "c2" | "c3" | "c4" if nsh.md_type == MD_TYPE_1 => {
                nsh.context[usize::from(item.name.as_bytes()[1] - b'1')] = number(v)?;
            }
            "md2" if nsh.md_type == MD_TYPE_2 => push.md2 = context_headers(v)?,
            _ => return None,
        }
    }
    Some(push)
}

/// The bytes of context headers from a hexadecimal number without leading zeros. Leading zeros are added up to a multiple
/// of 8 digits.
fn context_headers(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x").unwrap_or(text).trim_start_matches('0');
    let bytes = packet::hex::parse(&format!("{}{digits}", "0".repeat(digits.len().wrapping_neg() % 8)))?;
    (bytes.len() <= LEN_MAX - packet::nsh::Nsh::LEN).then_some(bytes)
}
