//! Parses tunnel option maps and connection filters from arguments of `ovs-ofctl`.

use super::arguments::{error, integer, u8_value, u16_value};
use crate::session::{CtFlush, CtTuple, TlvMap};
use flow::text::{TextError, next_key_value};
use std::net::IpAddr;

/// Parses `{class=0xffff,type=0,len=4}->tun_metadata0`; several are separated by commas.
pub fn parse_tlv_maps(text: &str) -> Result<Vec<TlvMap>, TextError> {
    let mut rest = text;
    let mut maps = Vec::new();
    while !rest.is_empty() {
        rest = rest.strip_prefix(',').unwrap_or(rest);
        let (map, left) = tlv_map(rest).ok_or_else(|| TextError("invalid tlv mapping".to_owned()))?;
        maps.push(map);
        rest = left;
    }
    Ok(maps)
}

fn tlv_map(text: &str) -> Option<(TlvMap, &str)> {
    let (class, rest) = text.strip_prefix("{class=")?.split_once(",type=")?;
    let (kind, rest) = rest.split_once(",len=")?;
    let (len, rest) = rest.split_once("}->tun_metadata")?;
    let (index, rest) =
        rest.split_at(rest.find(|c: char| !c.is_ascii_hexdigit() && c != 'x').unwrap_or(rest.len()));
    let map = TlvMap {
        class: integer(class)?.try_into().ok()?,
        kind: integer(kind)?.try_into().ok()?,
        len: integer(len)?.try_into().ok()?,
        index: integer(index)?.try_into().ok()?,
    };
    Some((map, rest))
}

/// Parses `[zone=N] [mark=V[/M]] [labels=V[/M]] [ORIGINAL [REPLY]]`, one per argument.
pub fn parse_ct_flush(args: &[String]) -> Result<CtFlush, TextError> {
    let mut flush = CtFlush::default();
    let mut rest = args.iter().map(String::as_str).peekable();
    let mut part = |prefix: &str| rest.next_if(|a| a.starts_with(prefix)).map(|a| &a[prefix.len()..]);
    if let Some(zone) = part("zone=") {
        flush.zone = Some(zone.parse().map_err(|_| TextError("failed to parse zone".to_owned()))?);
    }
    if let Some(text) = part("mark=") {
        flush.mark = Some(masked(text).ok_or_else(|| TextError("failed to parse mark".to_owned()))?);
    }
    if let Some(text) = part("labels=") {
        flush.labels = Some(masked(text).ok_or_else(|| TextError("failed to parse labels".to_owned()))?);
    }
    let mut protocol = 0;
    for tuple in [&mut flush.original, &mut flush.reply] {
        if let Some(text) = rest.next() {
            read_tuple(text, tuple, &mut protocol)?;
        }
    }
    flush.ip_proto = protocol;
    if rest.next().is_some() { error("invalid arguments") } else { Ok(flush) }
}

/// Parses a value and its mask. Without a mask in the text, the mask has all bits.
fn masked<T: TryFrom<u128>>(text: &str) -> Option<(T, T)> {
    let number = |text: &str| -> Option<T> {
        let value = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(hex) => u128::from_str_radix(hex, 16).ok()?,
            None => text.parse().ok()?,
        };
        T::try_from(value).ok()
    };
    let all = u128::MAX >> (128 - 8 * size_of::<T>());
    match text.split_once('/') {
        Some((value, mask)) => Some((number(value)?, number(mask)?)),
        None => Some((number(text)?, T::try_from(all).ok()?)),
    }
}

fn read_tuple(text: &str, tuple: &mut CtTuple, protocol: &mut u8) -> Result<(), TextError> {
    let mut rest = text;
    while let Some((key, value)) = next_key_value(&mut rest) {
        if value.is_empty() {
            return error(format!("field {key} missing value"));
        }
        let failed = |_| TextError(format!("failed to parse field {key}"));
        match key {
            "ct_nw_src" | "ct_ipv6_src" => address(key, value, &mut tuple.src, tuple.dst)?,
            "ct_nw_dst" | "ct_ipv6_dst" => address(key, value, &mut tuple.dst, tuple.src)?,
            "ct_nw_proto" => *protocol = u8_value(value, key).map_err(failed)?,
            "ct_tp_src" => tuple.src_port = Some(u16_value(value, key).map_err(failed)?),
            "ct_tp_dst" => tuple.dst_port = Some(u16_value(value, key).map_err(failed)?),
            "icmp_type" | "icmp_code" | "icmp_id" if !matches!(protocol, 1 | 58) => {
                return error("invalid L4 fields");
            }
            "icmp_type" => tuple.icmp_type = Some(u8_value(value, key).map_err(failed)?),
            "icmp_code" => tuple.icmp_code = Some(u8_value(value, key).map_err(failed)?),
            "icmp_id" => tuple.icmp_id = Some(u16_value(value, key).map_err(failed)?),
            _ => return error(format!("invalid conntrack tuple field: {key}")),
        }
    }
    match *protocol {
        0 if tuple.src_port.is_some() || tuple.dst_port.is_some() => error("port is set without protocol"),
        _ => Ok(()),
    }
}

fn address(key: &str, value: &str, to: &mut Option<IpAddr>, other: Option<IpAddr>) -> Result<(), TextError> {
    if to.is_some() {
        return error(format!("{key} is set multiple times"));
    }
    let wants_v4 = key.starts_with("ct_nw_");
    if other.is_some_and(|other| other.is_ipv4() != wants_v4) {
        return error(format!("the L3 protocol does not match {value}"));
    }
    let parsed: Option<IpAddr> = value.parse().ok();
    let parsed = parsed.filter(|a| a.is_ipv4() == wants_v4);
    *to = Some(parsed.ok_or_else(|| TextError(format!("failed to parse field {key}")))?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_of_options() {
        let maps = parse_tlv_maps(
            "{class=0xffff,type=1,len=4}->tun_metadata0,{class=2,type=0x3,len=8}->tun_metadata63",
        );
        let second = TlvMap { class: 2, kind: 3, len: 8, index: 63 };
        assert_eq!(maps.unwrap()[1], second);
        for wrong in ["x", "{class=0x1ffff,type=0,len=4}->tun_metadata0", "{class=1}->tun_metadata0"] {
            assert_eq!(parse_tlv_maps(wrong).unwrap_err().0, "invalid tlv mapping");
        }
    }

    #[test]
    fn connections_to_flush() {
        let flush = |args: &[&str]| parse_ct_flush(&args.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>());
        let m = flush(&["zone=5", "mark=0x1/0xf", "ct_nw_src=10.0.0.1,ct_nw_proto=6,ct_tp_dst=80"]).unwrap();
        assert_eq!((m.zone, m.mark, m.ip_proto, m.original.dst_port), (Some(5), Some((1, 15)), 6, Some(80)));
        assert_eq!(flush(&["labels=3"]).unwrap().labels, Some((3, u128::MAX)));
        for (args, why) in [
            (&["zone=x"][..], "failed to parse zone"),
            (&["nonsense"], "field nonsense missing value"),
            (&["nonsense=1"], "invalid conntrack tuple field: nonsense"),
            (&["ct_tp_src=1"], "port is set without protocol"),
            (&["icmp_id=1"], "invalid L4 fields"),
            (&["ct_nw_src=1.1.1.1,ct_ipv6_dst=::1"], "the L3 protocol does not match ::1"),
            (&["", "", ""], "invalid arguments"),
        ] {
            assert_eq!(flush(args).unwrap_err().0, why);
        }
        let text = |args: &[&str]| crate::text::ct_flush_text(&flush(args).unwrap());
        assert_eq!(text(&["zone=6", "mark=3/0", "labels=3/0"]), None);
        assert_eq!(
            text(&["mark=0x1/0xf", "labels=0", "ct_nw_src=10.0.0.1,ct_nw_proto=6,ct_tp_dst=80"]).unwrap(),
            "mark=0x1/0xf labels=0 'ct_nw_src=10.0.0.1,ct_nw_dst=::,ct_tp_src=0,ct_tp_dst=80,ct_nw_proto=6' \
             'ct_nw_src=::,ct_nw_dst=::,ct_tp_src=0,ct_tp_dst=0'"
        );
        assert_eq!(
            text(&["", "ct_ipv6_dst=::1,ct_nw_proto=58,icmp_type=128"]).unwrap(),
            "'ct_ipv6_src=::,ct_ipv6_dst=::,icmp_id=0,icmp_type=0,icmp_code=0,ct_nw_proto=58' \
             'ct_ipv6_src=::,ct_ipv6_dst=::1,icmp_id=0,icmp_type=128,icmp_code=0'"
        );
    }
}
