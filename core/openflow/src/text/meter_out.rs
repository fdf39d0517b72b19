//! Prints meters.

use super::flow_out::duration_text;
use super::port_out::bits_text;
use crate::meter::*;
use std::fmt::Write;

/// Prints `meter=5`, `meter=all`.
pub(super) fn meter_id_text(meter: u32, separator: char) -> String {
    let name = match meter {
        n if n <= METER_MAX => n.to_string(),
        METER_SLOWPATH => "slowpath".to_owned(),
        METER_CONTROLLER => "controller".to_owned(),
        METER_ALL => "all".to_owned(),
        _ => "unknown".to_owned(),
    };
    format!("meter{separator}{name}")
}

fn band_text(b: &MeterBand, flags: u16) -> String {
    let kind = if b.dscp_remark.is_some() { "dscp_remark" } else { "drop" };
    let mut text = format!("\ntype={kind} rate={}", b.rate);
    if flags & meter_flags::BURST != 0 {
        let _ = write!(text, " burst_size={}", b.burst);
    }
    if let Some(level) = b.dscp_remark {
        let _ = write!(text, " prec_level={level}");
    }
    text
}

pub(super) fn meter_config_text(c: &MeterConfig) -> String {
    let names = [
        (meter_flags::KBPS, "kbps "),
        (meter_flags::PKTPS, "pktps "),
        (meter_flags::BURST, "burst "),
        (meter_flags::STATS, "stats "),
    ];
    let mut text = meter_id_text(c.meter, '=') + " ";
    text.extend(names.iter().filter(|(bit, _)| c.flags & bit != 0).map(|(_, name)| *name));
    let unknown = c.flags & !names.iter().fold(0, |all, (bit, _)| all | bit);
    if unknown != 0 {
        let _ = write!(text, "flags:{unknown:#x} ");
    }
    text += "bands=";
    text.extend(c.bands.iter().map(|b| band_text(b, c.flags)));
    text + "\n"
}

pub(super) fn meter_mod_text(m: &MeterMod) -> String {
    let command = match m.command {
        MeterCommand::Add => "ADD",
        MeterCommand::Modify => "MOD",
        MeterCommand::Delete => "DEL",
    };
    format!(" {command} {}", meter_config_text(&m.config))
}

pub(super) fn meter_stats_text(s: &MeterStats) -> String {
    let mut text = format!(
        "{} flow_count:{} packet_in_count:{} byte_in_count:{} duration:{} bands:\n",
        meter_id_text(s.meter, ':'),
        s.flow_count,
        s.packets,
        s.bytes,
        duration_text(s.duration)
    );
    for (i, (packets, bytes)) in s.bands.iter().enumerate() {
        let _ = writeln!(text, "{i}: packet_count:{packets} byte_count:{bytes}");
    }
    text
}

pub(super) fn meter_features_text(f: &MeterFeatures) -> String {
    // Band types are numbered from 1.
    format!(
        "\nmax_meter:{} max_bands:{} max_color:{}\nband_types: {}\ncapabilities: {}\n",
        f.max_meters,
        f.max_bands,
        f.max_color,
        bits_text(f.band_types >> 1, &["drop", "dscp_remark"]),
        bits_text(f.capabilities, &["kbps", "pktps", "burst", "stats"])
    )
}
