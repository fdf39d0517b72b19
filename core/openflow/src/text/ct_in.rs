//! Parses `ct(…)` and `nat(…)`.

use super::arguments::{error, integer, subfield, u16_value};
use crate::action::{Action, Ct, Nat, NatRange, NumberOrField};
use flow::text::{NameMap, TextError, next_key_value, table_from_text};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Function that parses a list of actions within another action.
pub(super) type Nested<'a> = &'a dyn Fn(&str) -> Result<Vec<Action>, TextError>;

/// The arguments of `ct`.
pub(super) fn ct(value: &str, names: &dyn NameMap, nested: Nested<'_>) -> Result<Ct, TextError> {
    let mut c = Ct::default();
    let mut exec = Vec::new();
    let mut rest = value;
    while let Some((key, value)) = next_key_value(&mut rest) {
        match key {
            "commit" => c.commit = true,
            "force" => c.force = true,
            "table" => match table_from_text(value, names) {
                None => return error(format!("unknown table {value}")),
                Some(255) => return error("invalid table 0xff"),
                table => c.recirc_table = table,
            },
            "zone" => c.zone = zone(value)?,
            "alg" => c.alg = alg(value)?,
            "nat" => c.actions.push(Action::Nat(Box::new(nat(value)?))),
            "exec" => exec.extend(nested(value)?),
            _ => return error(format!("invalid argument to \"ct\" action: `{key}'")),
        }
    }
    if c.force && !c.commit {
        return error("\"force\" flag requires \"commit\" flag.");
    }
    // `nat` is put first in the list, because in the text it precedes `exec`.
    let (nats, others): (Vec<Action>, Vec<Action>) =
        exec.into_iter().partition(|a| matches!(a, Action::Nat(_)));
    c.actions.extend(nats.into_iter().chain(others));
    Ok(c)
}

fn zone(text: &str) -> Result<NumberOrField, TextError> {
    match integer(text) {
        Some(n) if n <= u64::from(u16::MAX) => Ok(NumberOrField::Number(n as u32)),
        Some(_) => error(format!("invalid zone \"{text}\"")),
        None => Ok(NumberOrField::Field(subfield(text)?)),
    }
}

fn alg(text: &str) -> Result<u16, TextError> {
    match text {
        "ftp" => Ok(21),
        "tftp" => Ok(69),
        other => u16_value(other, "alg"),
    }
}

/// The arguments of `nat`.
pub(super) fn nat(value: &str) -> Result<Nat, TextError> {
    let mut n = Nat::default();
    let mut rest = value;
    while let Some((key, value)) = next_key_value(&mut rest) {
        match key {
            "src" | "dst" => {
                n.src |= key == "src";
                n.dst |= key == "dst";
                if n.src && n.dst {
                    return error("May only specify one of \"src\" or \"dst\".");
                }
                range(value, &mut n)?;
            }
            "persistent" => n.persistent = true,
            "hash" => n.hash = true,
            "random" => n.random = true,
            _ => return error(format!("invalid key \"{key}\" in \"nat\" argument")),
        }
    }
    if n.hash && n.random {
        return error("Both \"hash\" and \"random\" are not allowed.");
    }
    let plain = !n.src && !n.dst;
    for (flag, name) in [(n.persistent, "persistent"), (n.hash, "hash"), (n.random, "random")] {
        if plain && flag {
            return error(format!("Flags allowed only with \"src\" or \"dst\": \"{name}\"."));
        }
    }
    Ok(n)
}

/// Parses `first[-last][:port[-port]]`; an IPv6 address needs brackets if ports follow.
fn range(text: &str, n: &mut Nat) -> Result<(), TextError> {
    if text.is_empty() {
        return Ok(());
    }
    let bad = || TextError(format!("garbage ({text}) after nat range"));
    let (addresses, ports) = match (text.rfind(']'), text.matches(':').count()) {
        (Some(end), _) => match text[end + 1..].strip_prefix(':') {
            Some(ports) => (&text[..=end], Some(ports)),
            None => (text, None),
        },
        (None, 1) => text.split_once(':').map(|(a, p)| (a, Some(p))).ok_or_else(bad)?,
        (None, _) => (text, None),
    };
    let (first, last) = addresses.split_once('-').unwrap_or((addresses, ""));
    let trim = |s: &str| s.trim_matches(['[', ']']).to_owned();
    let (first, last) = (trim(first), trim(last));
    n.range = match first.parse::<Ipv4Addr>() {
        Ok(a) => {
            let b = if last.is_empty() { a } else { last.parse().map_err(|_| bad())? };
            NatRange::V4(a, upper(a, b, Ipv4Addr::UNSPECIFIED)?)
        }
        Err(_) => {
            let a = first.parse::<Ipv6Addr>().map_err(|_| bad())?;
            let b = if last.is_empty() { a } else { last.parse().map_err(|_| bad())? };
            NatRange::V6(a, upper(a, b, Ipv6Addr::UNSPECIFIED)?)
        }
    };
    if let Some(ports) = ports {
        let (low, high) = ports.split_once('-').unwrap_or((ports, ""));
        let low = low.parse::<u16>().map_err(|_| bad())?;
        let high = if high.is_empty() { low } else { high.parse().map_err(|_| bad())? };
        // Port 0 means "not given" in the action, so it cannot start a range.
        if low == 0 && high != 0 {
            return error("invalid nat range: ports begin with 1");
        }
        n.ports = (low, upper(low, high, 0)?);
    }
    Ok(())
}

/// The last value of a range; `none` if the range is a single value.
fn upper<T: Ord>(first: T, last: T, none: T) -> Result<T, TextError> {
    if last == first || last == none {
        return Ok(none);
    }
    if last < first { error("invalid nat range: minimum is above maximum") } else { Ok(last) }
}
