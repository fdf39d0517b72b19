//! Parses `encap(…)` and `decap(…)`.

use super::arguments::{error, u8_value, u16_value};
use crate::action::{Encap, EncapProperty, PACKET_TYPE_NEXT};
use flow::text::{TextError, next_key_value};

/// Number of name spaces of packet types (`OFPHTN_*`).
const NAME_SPACES: u16 = 5;

/// Parses the argument of `encap`: a header, with properties in parentheses.
pub(super) fn encap(value: &str) -> Result<Encap, TextError> {
    let mut rest = value;
    let Some((header, inside)) = next_key_value(&mut rest) else {
        return error(format!("Missing encap hdr: {value}"));
    };
    let packet_type = match header {
        "ethernet" => 0,
        "nsh" => 0x0001_894f,
        "mpls" => 0x0001_8847,
        "mpls_mc" => 0x0001_8848,
        _ => return error(format!("Encap hdr not supported: {inside}")),
    };
    let (mut properties, mut rest) = (Vec::new(), inside);
    while let Some((key, value)) = next_key_value(&mut rest) {
        properties.push(property(header, key, value)?);
    }
    Ok(Encap { packet_type, header_size: 0, properties })
}

fn property(header: &str, key: &str, value: &str) -> Result<EncapProperty, TextError> {
    match (header, key) {
        ("nsh", "md_type" | "tlv") if value.is_empty() => error("Value missing for encap property"),
        ("nsh", "md_type") => match u8_value(value, "md_type")? {
            kind @ (1 | 2) => Ok(EncapProperty::NshMdType(kind)),
            _ => error("invalid md_type"),
        },
        ("nsh", "tlv") => tlv(value).map_or_else(|| error(format!("Invalid NSH TLV header: {value}")), Ok),
        _ => error(format!("Invalid property: {key}")),
    }
}

/// Parses `0xCLASS,TYPE,0xDATA`.
fn tlv(text: &str) -> Option<EncapProperty> {
    let mut parts = text.splitn(3, ',');
    let class = u16::from_str_radix(parts.next()?.strip_prefix("0x")?, 16).ok()?;
    let kind = parts.next()?.parse().ok()?;
    let data = packet::hex::parse(parts.next()?.strip_prefix("0x")?)?;
    let fits = (1..=EncapProperty::TLV_MAX).contains(&data.len());
    fits.then_some(EncapProperty::NshTlv { class, kind, data })
}

/// Parses the argument of `decap`: the type of the remaining packet.
pub(super) fn decap(value: &str) -> Result<u32, TextError> {
    let mut rest = value;
    match next_key_value(&mut rest) {
        None => Ok(PACKET_TYPE_NEXT),
        Some(("packet_type", inside)) => packet_type(inside),
        Some((key, _)) => error(format!("Invalid decap argument: {key}")),
    }
}

fn packet_type(inside: &str) -> Result<u32, TextError> {
    let mut rest = inside;
    let mut next = |name| match next_key_value(&mut rest) {
        Some((key, value)) if key == name => u16_value(value, name),
        _ => error(format!("Missing packet_type attribute {name}")),
    };
    let ns = next("ns")?;
    if ns >= NAME_SPACES {
        return error(format!("Unsupported ns value: {ns}"));
    }
    Ok(u32::from(ns) << 16 | u32::from(next("type")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn errors_name_the_wrong_part() {
        let of_encap = |text| encap(text).unwrap_err().0;
        for (text, why) in [
            (",", "Missing encap hdr: ,"),
            ("x(y)", "Encap hdr not supported: y"),
            ("nsh(type=1)", "Invalid property: type"),
            ("ethernet(md_type=1)", "Invalid property: md_type"),
            ("nsh(md_type)", "Value missing for encap property"),
            ("nsh(md_type=3)", "invalid md_type"),
            ("nsh(tlv(,,))", "Invalid NSH TLV header: ,,"),
            ("nsh(tlv(0x1,2,0x123))", "Invalid NSH TLV header: 0x1,2,0x123"),
        ] {
            assert_eq!(of_encap(text), why);
        }
        let of_decap = |text| decap(text).unwrap_err().0;
        assert_eq!(of_decap("packet_type(x)"), "Missing packet_type attribute ns");
        assert_eq!(of_decap("packet_type(ns=99)"), "Unsupported ns value: 99");
        assert_eq!(of_decap("packet_type(ns=0)"), "Missing packet_type attribute type");
        assert_eq!(of_decap("foo=bar"), "Invalid decap argument: foo");
    }

    #[test]
    fn packet_types() {
        assert_eq!(decap(""), Ok(PACKET_TYPE_NEXT));
        assert_eq!(decap("packet_type(ns=1,type=0x8847)"), Ok(0x1_8847));
    }

    proptest! {
        #[test]
        fn never_panics(text in "[a-z_]{0,8}\\(?[-a-z0-9=(),x\\PC]{0,40}") {
            let _ = (encap(&text), decap(&text), encap(&format!("nsh({text})")));
        }
    }
}
