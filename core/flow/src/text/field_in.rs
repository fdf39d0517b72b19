//! Parses the value and mask of one field.

use super::address::{parse_ipv4_masked, parse_ipv6_masked, parse_mac_masked};
use super::numbers::{integer_prefix, number_and_mask};
use super::{NameMap, TextError, flags, port_from_text};
use crate::field::{FieldId, FieldInfo, Form, Maskable, low_bits};

fn integer(info: &FieldInfo, text: &str) -> Result<(u128, u128), TextError> {
    let (value, mask) =
        number_and_mask(text, info.name, info.n_bytes.into(), |digits| integer_prefix(digits, info.n_bytes))?;
    Ok((value, mask.unwrap_or_else(|| low_bits(8 * u32::from(info.n_bytes)))))
}

/// Name, mask and value of the kinds of fragments. If a name has several rows, parsing uses the first of them.
pub(super) const FRAGMENTS: [(&str, u8, u8); 7] = [
    ("no", 3, 0),
    ("first", 3, 1),
    ("later", 3, 3),
    ("no", 1, 0),
    ("yes", 1, 1),
    ("not_later", 2, 0),
    ("later", 2, 2),
];

fn fragment(text: &str) -> Result<(u128, u128), TextError> {
    let found = FRAGMENTS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(text));
    let (_, mask, value) = found.ok_or_else(|| {
        TextError::new(format!(
            "{text}: unknown fragment type (valid types are \"no\", \"yes\", \"first\", \"later\", \"not_later\""
        ))
    })?;
    Ok((u128::from(*value), u128::from(*mask | 0xfc)))
}

fn packet_type(text: &str) -> Result<(u128, u128), TextError> {
    let error = |what| TextError::new(format!("{text}: bad syntax for packet type {what}"));
    let rest = text.strip_prefix('(').ok_or_else(|| error("missing '('"))?;
    let (ns, rest) = integer_prefix(rest, 2).map_err(|_| error("ns"))?;
    let rest = rest.strip_prefix(',').ok_or_else(|| error("missing ','"))?;
    let (ns_type, rest) = integer_prefix(rest, 2).map_err(|_| error("ns_type"))?;
    rest.strip_prefix(')').ok_or_else(|| error("missing ')'"))?;
    Ok((ns << 16 | ns_type, 0xffff_ffff))
}

fn flag_set(text: &str, name: flags::BitName, field: &str, allowed: u32) -> Result<(u128, u128), TextError> {
    flags::parse(text, name, field, allowed).map(|(v, m)| (u128::from(v), u128::from(m)))
}

impl FieldId {
    /// Parses a value and its mask. `*` matches no bits. `ANY` also matches no bits, except for a port field, where it is the
    /// name of a reserved port.
    pub fn parse_masked(self, text: &str, names: &dyn NameMap) -> Result<(u128, u128), TextError> {
        // These texts are printed for an empty mask (`field_out`).
        let info = self.info();
        let is_port = matches!(info.form, Form::OfPort | Form::OfPortOxm);
        if text == "*" || text == "ANY" && !is_port {
            return Ok((0, 0));
        }
        if self.tlv_index().is_some() {
            let (value, mask) = self.parse_tlv(text)?;
            let too_large = || TextError(format!("{text}: value too large for 16-byte field {}", info.name));
            let number = |v: &[u8]| {
                let fits = v.len() <= 16;
                fits.then(|| v.iter().fold(0, |n, b| n << 8 | u128::from(*b))).ok_or_else(too_large)
            };
            return Ok((number(&value)?, mask.map_or(Ok(u128::MAX), |m| number(&m))?));
        }
        let full = low_bits(8 * u32::from(info.n_bytes));
        let port = || port_from_text(text, names);
        let (value, mask) = match info.form {
            Form::Decimal | Form::Hex => integer(info, text)?,
            Form::CtState => flag_set(text, flags::ct_state, "ct_state", 0xff)?,
            Form::TcpFlags => flag_set(text, flags::tcp, "TCP", 0x0fff)?,
            Form::TunnelFlags => flag_set(text, flags::tunnel, "tunnel", 1)?,
            Form::Ethernet => {
                let (addr, mask) = parse_mac_masked(text)?;
                (u128::from(addr.to_u64()), u128::from(mask.to_u64()))
            }
            Form::Ipv4 => {
                let (addr, mask) = parse_ipv4_masked(text)?;
                (u128::from(addr), u128::from(mask))
            }
            Form::Ipv6 => parse_ipv6_masked(text)?,
            Form::OfPort => {
                let error = || TextError::new(format!("{text}: invalid or unknown port for {}", info.name));
                (u128::from(port().ok_or_else(error)?.0), full)
            }
            Form::OfPortOxm => {
                let error = || TextError::new(format!("{text}: port value out of range for {}", info.name));
                (u128::from(port().ok_or_else(error)?.to_u32()), full)
            }
            Form::Frag => fragment(text)?,
            Form::PacketType => packet_type(text)?,
        };
        let mask = mask & full;
        let is_some = mask != 0 && mask != full;
        // Mask bits that the field does not have are ignored. A mask with all bits of the field is a full mask.
        let mask = match mask & self.ones() {
            _ if !is_some || info.maskable != Maskable::Bitwise => mask,
            bits if bits == self.ones() => full,
            bits => bits,
        };
        if info.maskable == Maskable::Whole && is_some {
            return Err(TextError::new(format!("{text}: invalid mask for field {}", info.name)));
        }
        // With an empty mask the value has no meaning, so it is zero.
        Ok((if mask == 0 { 0 } else { value }, mask))
    }

    /// Parses a value that must not have a mask.
    pub fn parse_exact(self, text: &str, names: &dyn NameMap) -> Result<u128, TextError> {
        let (value, mask) = self.parse_masked(text, names)?;
        if mask == low_bits(8 * u32::from(self.info().n_bytes)) {
            return Ok(value);
        }
        Err(TextError::new(format!("{text}: wildcards not allowed here")))
    }
}
