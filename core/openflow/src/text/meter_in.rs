//! Parses meters in the syntax of `ovs-ofctl add-meter` and related commands.

use super::arguments::{error, u8_value, u32_value};
use crate::meter::*;
use flow::text::TextError;

/// Separators between words, and between a word and its value.
const BLANKS: [char; 5] = [',', ' ', '\t', '\r', '\n'];

/// Parses a meter mod. Without a command, the text only selects the meter of a statistics request.
pub fn parse_meter_mod(text: &str, command: Option<MeterCommand>) -> Result<MeterMod, TextError> {
    let whole = matches!(command, Some(MeterCommand::Add | MeterCommand::Modify));
    let (head, bands) = match text.split_once("band").filter(|_| whole) {
        Some((head, rest)) => (head, rest.split_once('=').map(|(_, bands)| bands)),
        None => (text, None),
    };
    if whole && bands.is_none() {
        return error("must specify bands");
    }
    let mut config = MeterConfig::default();
    read_head(head, whole, &mut config)?;
    if config.meter == 0 {
        return error("must specify 'meter'");
    }
    if whole && config.flags == 0 {
        return error("meter must specify either 'kbps' or 'pktps'");
    }
    if let Some(bands) = bands {
        config.bands = read_bands(bands)?;
        check(&config)?;
    }
    Ok(MeterMod { command: command.unwrap_or_default(), config })
}

/// The next word; `rest` becomes the text after it.
fn word<'a>(rest: &mut &'a str, ends: &[char]) -> Option<&'a str> {
    *rest = rest.trim_start_matches(ends);
    let (word, left) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
    *rest = left.get(1..).unwrap_or("");
    (!word.is_empty()).then_some(word)
}

fn name<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let [a, b, c, d, e] = BLANKS;
    word(rest, &['=', a, b, c, d, e])
}

fn value<'a>(rest: &mut &'a str, name: &str) -> Result<&'a str, TextError> {
    word(rest, &BLANKS).map_or_else(|| error(format!("field {name} missing value")), Ok)
}

fn read_head(mut text: &str, takes_flags: bool, config: &mut MeterConfig) -> Result<(), TextError> {
    while let Some(name) = name(&mut text) {
        let flag = match name {
            "kbps" => meter_flags::KBPS,
            "pktps" => meter_flags::PKTPS,
            "burst" => meter_flags::BURST,
            "stats" => meter_flags::STATS,
            _ => 0,
        };
        if takes_flags && flag != 0 {
            config.flags |= flag;
            continue;
        }
        let value = value(&mut text, name)?;
        if name != "meter" {
            return error(format!("unknown keyword {name}"));
        }
        config.meter = match value {
            "all" => METER_ALL,
            "controller" => METER_CONTROLLER,
            "slowpath" => METER_SLOWPATH,
            number => u32_value(number)?,
        };
        let reserved = value.starts_with(|c: char| c.is_ascii_lowercase());
        if !reserved && !(1..=METER_MAX).contains(&config.meter) {
            return error("invalid value for meter");
        }
    }
    Ok(())
}

fn read_bands(mut text: &str) -> Result<Vec<MeterBand>, TextError> {
    let mut bands: Vec<MeterBand> = Vec::new();
    while let Some(name) = name(&mut text) {
        let value = value(&mut text, name)?;
        if name == "type" {
            let dscp_remark = match value {
                "drop" => None,
                "dscp_remark" => Some(0),
                _ => return error(format!("field {name} unknown value {value}")),
            };
            bands.push(MeterBand { dscp_remark, rate: 0, burst: 0 });
            continue;
        }
        let Some(band) = bands.last_mut() else { return error("band must start with the 'type' keyword") };
        match name {
            "rate" => band.rate = u32_value(value)?,
            "burst_size" => band.burst = u32_value(value)?,
            "prec_level" => {
                let level = u8_value(value, name)?;
                match &mut band.dscp_remark {
                    Some(now) => *now = level,
                    None if level == 0 => {}
                    None => return error("Only 'dscp_remark' band may have 'prec_level'"),
                }
            }
            _ => return error(format!("unknown keyword {name}")),
        }
    }
    Ok(bands)
}

fn check(config: &MeterConfig) -> Result<(), TextError> {
    if config.bands.is_empty() {
        return error("meter must have bands");
    }
    let bursts = config.flags & meter_flags::BURST != 0;
    for band in &config.bands {
        if band.dscp_remark == Some(0) {
            return error("'dscp_remark' band must have 'prec_level'");
        }
        if band.rate == 0 {
            return error("band must have 'rate'");
        }
        if bursts && band.burst == 0 {
            return error("band must have 'burst_size' when 'burst' flag is set");
        }
        if !bursts && band.burst != 0 {
            return error("band may have 'burst_size' only when 'burst' flag is set");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(text: &str) -> Result<MeterMod, String> {
        parse_meter_mod(text, Some(MeterCommand::Add)).map_err(|e| e.0)
    }

    #[test]
    fn printed_meters_are_parsed() {
        let m = add(
            "meter=5 kbps burst stats bands=type=drop rate=100 burst_size=50,type=dscp_remark,rate=7 burst_size=1 prec_level=2",
        );
        let m = m.unwrap();
        assert_eq!((m.config.meter, m.config.flags, m.config.bands.len()), (5, 13, 2));
        assert_eq!(m.config.bands[1], MeterBand { dscp_remark: Some(2), rate: 7, burst: 1 });
        let text = super::super::meter_out::meter_config_text(&m.config);
        assert_eq!(add(&text), Ok(m));
        assert_eq!(parse_meter_mod("meter=all", None).map(|m| m.config.meter), Ok(METER_ALL));
    }

    #[test]
    fn errors_name_the_wrong_part() {
        for (text, why) in [
            ("meter=1", "must specify bands"),
            ("kbps bands=type=drop rate=1", "must specify 'meter'"),
            ("meter=0 kbps bands=type=drop rate=1", "invalid value for meter"),
            ("meter=1 bands=type=drop rate=1", "meter must specify either 'kbps' or 'pktps'"),
            ("meter=1 kbps bands=", "meter must have bands"),
            ("meter=1 kbps bands=rate=1", "band must start with the 'type' keyword"),
            ("meter=1 kbps bands=type=drop", "band must have 'rate'"),
            (
                "meter=1 kbps burst bands=type=drop rate=1",
                "band must have 'burst_size' when 'burst' flag is set",
            ),
            ("meter=1 kbps x=1 bands=type=drop rate=1", "unknown keyword x"),
            ("meter", "must specify bands"),
        ] {
            assert_eq!(add(text).unwrap_err(), why, "{text}");
        }
        assert_eq!(parse_meter_mod("1", None).unwrap_err().0, "field 1 missing value");
    }
}
