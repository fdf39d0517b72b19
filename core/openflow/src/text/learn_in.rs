//! Parses `learn(…)`.

use super::arguments::{arrow, error, field, subfield, table_value, u16_value, u32_value, u64_value};
use crate::action::{Learn, LearnSource, LearnSpec, LearnTarget};
use flow::text::{NameMap, TextError, next_key_value, parse_integer};
use flow::{FieldId, Subfield};

/// Parses the arguments of `learn`.
pub(super) fn learn(value: &str, names: &dyn NameMap) -> Result<Learn, TextError> {
    let mut l = Learn::default();
    let mut rest = value;
    while let Some((key, value)) = next_key_value(&mut rest) {
        match key {
            "table" => l.table = table_value(value, names)?,
            "priority" => l.priority = u16_value(value, key)?,
            "idle_timeout" => l.idle_timeout = u16_value(value, key)?,
            "hard_timeout" => l.hard_timeout = u16_value(value, key)?,
            "fin_idle_timeout" => l.fin_idle_timeout = u16_value(value, key)?,
            "fin_hard_timeout" => l.fin_hard_timeout = u16_value(value, key)?,
            "cookie" => l.cookie = u64_value(value)?,
            "send_flow_rem" => l.send_flow_rem = true,
            "delete_learned" => l.delete_learned = true,
            "limit" => l.limit = u32_value(value)?,
            "result_dst" => {
                let dst = subfield(value)?;
                if dst.n_bits != 1 {
                    return error("result_dst in 'learn' action must be a single bit");
                }
                l.result_dst = Some(dst);
            }
            _ => l.specs.push(spec(key, value, names)?),
        }
    }
    if l.table == 255 {
        return error(format!("{value}: table id 255 not valid for `learn' action"));
    }
    Ok(l)
}

fn spec(key: &str, value: &str, names: &dyn NameMap) -> Result<LearnSpec, TextError> {
    match key {
        "load" => load(value),
        "output" => {
            let src = subfield(value)?;
            Ok(LearnSpec { n_bits: src.n_bits, src: LearnSource::Field(src), dst: LearnTarget::Output })
        }
        _ => matching(key, value, names),
    }
}

fn load(value: &str) -> Result<LearnSpec, TextError> {
    let (text, dst) = arrow(value, value)?;
    let dst = subfield(dst)?;
    let n_bits = dst.n_bits;
    if let Some(number) = parse_integer(text, 16) {
        return Ok(LearnSpec {
            n_bits,
            src: LearnSource::Value(fit(number, dst, value)?),
            dst: LearnTarget::Load(dst),
        });
    }
    let src = subfield(text)?;
    same_width(src, dst, value)?;
    Ok(LearnSpec { n_bits, src: LearnSource::Field(src), dst: LearnTarget::Load(dst) })
}

/// Parses e.g. `NXM_OF_ETH_SRC[]`, `NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[]`, `eth_type=0x800`, `reg0[0..3]=5`.
fn matching(key: &str, value: &str, names: &dyn NameMap) -> Result<LearnSpec, TextError> {
    let whole = || if value.is_empty() { key.to_owned() } else { format!("{key}={value}") };
    let dst = match field(key).filter(|_| !key.contains('[')) {
        Some(f) => Subfield::whole(f),
        None => Subfield::parse(key).or_else(|_| error(format!("{}: unknown keyword {key}", whole())))?,
    };
    let n_bits = dst.n_bits;
    let of = |src| LearnSpec { n_bits, src, dst: LearnTarget::Match(dst) };
    if value.is_empty() {
        return Ok(of(LearnSource::Field(dst)));
    }
    if let Ok(src) = Subfield::parse(value) {
        same_width(src, dst, &whole())?;
        return Ok(of(LearnSource::Field(src)));
    }
    if dst == Subfield::whole(dst.field) {
        let value = if dst.field == FieldId::PacketType { packet_type(value) } else { value };
        return Ok(of(LearnSource::Value(dst.field.parse_exact(value, names)?)));
    }
    let number = parse_integer(value, 16);
    let number =
        number.map_or_else(|| error(format!("{}: cannot parse integer value: {value}", whole())), Ok)?;
    Ok(of(LearnSource::Value(fit(number, dst, &whole())?)))
}

/// The value of a packet type, which has the syntax of a match: `packet_type=packet_type=(1,2)`,
/// `packet_type=eth`.
fn packet_type(value: &str) -> &str {
    if value == "eth" { "(0,0)" } else { value.strip_prefix("packet_type=").unwrap_or(value) }
}

fn fit(number: u128, dst: Subfield, whole: &str) -> Result<u128, TextError> {
    if number & !dst.ones() != 0 {
        return error(format!("{whole}: value {number:#x} does not fit into {} bits", dst.n_bits));
    }
    Ok(number)
}

fn same_width(src: Subfield, dst: Subfield, whole: &str) -> Result<(), TextError> {
    if src.n_bits != dst.n_bits {
        return error(format!(
            "{whole}: bit widths of {src} ({}) and {dst} ({}) differ",
            src.n_bits, dst.n_bits
        ));
    }
    Ok(())
}
