//! Meters.

use super::buf::{Put, Reader};
use crate::error::OfError;
use crate::flow_mod::Duration;
use crate::meter::*;

fn band(r: &mut Reader) -> Result<MeterBand, OfError> {
    let (kind, len) = (r.u16()?, r.u16()?);
    let (rate, burst) = (r.u32()?, r.u32()?);
    let rest = usize::from(len).checked_sub(12).ok_or(OfError::MmfcBadBand)?;
    let mut rest = r.sub(rest)?;
    let dscp_remark = match kind {
        1 => None,
        2 => Some(rest.u8()?),
        _ => return Err(OfError::MmfcBadBand),
    };
    if len != 16 {
        return Err(OfError::MmfcBadBand);
    }
    Ok(MeterBand { dscp_remark, rate, burst })
}

fn bands(r: &mut Reader) -> Result<Vec<MeterBand>, OfError> {
    let mut list = Vec::new();
    while !r.is_empty() {
        list.push(band(r)?);
    }
    Ok(list)
}

fn put_bands(out: &mut Vec<u8>, list: &[MeterBand]) {
    for b in list {
        out.u16(if b.dscp_remark.is_some() { 2 } else { 1 }).u16(16).u32(b.rate).u32(b.burst);
        out.u8(b.dscp_remark.unwrap_or(0)).zeros(3);
    }
}

pub(super) fn decode_mod(r: &mut Reader) -> Result<MeterMod, OfError> {
    let command = match r.u16()? {
        0 => MeterCommand::Add,
        1 => MeterCommand::Modify,
        2 => MeterCommand::Delete,
        _ => return Err(OfError::MmfcBadCommand),
    };
    let mut config = MeterConfig { flags: r.u16()?, meter: r.u32()?, bands: Vec::new() };
    if command == MeterCommand::Delete {
        config.flags = 0;
        return Ok(MeterMod { command, config });
    }
    let unit = config.flags & (meter_flags::KBPS | meter_flags::PKTPS);
    if unit == meter_flags::KBPS | meter_flags::PKTPS {
        return Err(OfError::MmfcBadFlags);
    }
    config.bands = bands(r)?;
    Ok(MeterMod { command, config })
}

pub(super) fn encode_mod(out: &mut Vec<u8>, m: &MeterMod) {
    out.u16(m.command as u16).u16(m.config.flags).u32(m.config.meter);
    put_bands(out, &m.config.bands);
}

pub(super) fn decode_config(r: &mut Reader) -> Result<MeterConfig, OfError> {
    let mut peek = *r;
    let len = usize::from(peek.u16()?);
    let mut r = r.sub(len)?;
    r.skip(2)?;
    Ok(MeterConfig { flags: r.u16()?, meter: r.u32()?, bands: bands(&mut r)? })
}

pub(super) fn encode_config(out: &mut Vec<u8>, c: &MeterConfig) {
    out.u16((8 + 16 * c.bands.len()) as u16).u16(c.flags).u32(c.meter);
    put_bands(out, &c.bands);
}

pub(super) fn decode_stats(r: &mut Reader) -> Result<MeterStats, OfError> {
    let mut s = MeterStats { meter: r.u32()?, ..MeterStats::default() };
    let len = usize::from(r.u16()?);
    let mut r = r.sub(len.checked_sub(6).ok_or(OfError::BrcBadLen)?)?;
    r.skip(6)?;
    (s.flow_count, s.packets, s.bytes) = (r.u32()?, r.u64()?, r.u64()?);
    s.duration = Duration { sec: r.u32()?, nsec: r.u32()? };
    while !r.is_empty() {
        s.bands.push((r.u64()?, r.u64()?));
    }
    Ok(s)
}

pub(super) fn encode_stats(out: &mut Vec<u8>, s: &MeterStats) {
    out.u32(s.meter).u16((40 + 16 * s.bands.len()) as u16).zeros(6);
    out.u32(s.flow_count).u64(s.packets).u64(s.bytes).u32(s.duration.sec).u32(s.duration.nsec);
    s.bands.iter().for_each(|&(p, b)| {
        out.u64(p).u64(b);
    });
}

pub(super) fn decode_features(r: &mut Reader) -> Result<MeterFeatures, OfError> {
    let mut f = MeterFeatures {
        max_meters: r.u32()?,
        band_types: r.u32()?,
        capabilities: r.u32()?,
        ..MeterFeatures::default()
    };
    (f.max_bands, f.max_color) = (r.u8()?, r.u8()?);
    r.skip(2)?;
    Ok(f)
}

pub(super) fn encode_features(out: &mut Vec<u8>, f: &MeterFeatures) {
    out.u32(f.max_meters).u32(f.band_types).u32(f.capabilities).u8(f.max_bands).u8(f.max_color).zeros(2);
}
