//! Prints value and mask of one field as text.

use super::field_in::FRAGMENTS;
use super::{NameMap, address, flags, hex, port_text};
use crate::field::{FieldId, Form, low_bits};
use crate::flow::Mac;
use units::OfPort;

/// The text of a packet type: `packet_type=(ns,type)`; `eth` for Ethernet.
pub(super) fn packet_type(value: u32, mask: u32) -> String {
    if value == 0 && mask == u32::MAX {
        return "eth".to_owned();
    }
    let half = |value: u16, mask: u16| match (value, mask) {
        (_, 0) => "*".to_owned(),
        (v, m) => {
            let number = if v > 9 { format!("{v:#x}") } else { v.to_string() };
            if m == u16::MAX { number } else { format!("{number}/{m:#x}") }
        }
    };
    let ns = half((value >> 16) as u16, (mask >> 16) as u16);
    format!("packet_type=({ns},{})", half(value as u16, mask as u16))
}

impl FieldId {
    /// The text of a value, with its mask unless the mask is `None` or full. An empty mask is printed as `ANY`, or as `*` for a
    /// port field.
    pub fn format(self, value: u128, mask: Option<u128>, names: &dyn NameMap) -> String {
        let info = self.info();
        let full = low_bits(8 * u32::from(info.n_bytes));
        if mask == Some(0) {
            let is_port = matches!(info.form, Form::OfPort | Form::OfPortOxm);
            return if is_port { "*" } else { "ANY" }.to_owned();
        }
        let mask = mask.filter(|&m| m != full);
        let bits = mask.unwrap_or(full);
        match info.form {
            Form::OfPort if mask.is_none() => port_text(OfPort(value as u16), names),
            Form::OfPortOxm if mask.is_none() => {
                port_text(OfPort::from_u32(value as u32).unwrap_or_default(), names)
            }
            Form::Hex => with_mask(hex(value), mask),
            Form::Decimal | Form::OfPort | Form::OfPortOxm => with_mask((value as i64).to_string(), mask),
            Form::CtState => flags::format_masked(flags::ct_state, value as u32, bits as u32, 0xffff),
            Form::TcpFlags => flags::format_masked(flags::tcp, value as u32, bits as u32 & 0xfff, 0xfff),
            Form::TunnelFlags => flags::format_masked(flags::tunnel, value as u32, bits as u32 & 1, 1),
            Form::Ethernet => address::mac(Mac::from_u64(value as u64), Mac::from_u64(bits as u64)),
            Form::Ipv4 => address::ipv4(value as u32, bits as u32),
            Form::Ipv6 => address::ipv6(value, bits),
            Form::Frag => {
                let (value, mask) = (value as u8 & bits as u8 & 3, bits as u8 & 3);
                let found = FRAGMENTS.iter().find(|&&(_, m, v)| (m, v) == (mask, value));
                found.map_or("<error>", |(name, ..)| name).to_owned()
            }
            Form::PacketType => packet_type(value as u32, bits as u32),
        }
    }
}

fn with_mask(value: String, mask: Option<u128>) -> String {
    match mask {
        Some(mask) => format!("{value}/{}", hex(mask)),
        None => value,
    }
}
