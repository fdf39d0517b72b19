//! Ports, port mods and port statistics.

use super::buf::{Put, Reader};
use super::property;
use crate::error::OfError;
use crate::flow_mod::Duration;
use crate::port::*;
use crate::stats::{PortStats, UNKNOWN};
use crate::version::Version;
use units::OfPort;

/// Decodes configuration bits. The bits for spanning tree exist in 1.0 only.
fn config(raw: u32, version: Version) -> PortConfig {
    let v10 = version == Version::V10;
    PortConfig {
        port_down: raw & 1 != 0,
        no_stp: v10 && raw & 2 != 0,
        no_recv: raw & 4 != 0,
        no_recv_stp: v10 && raw & 8 != 0,
        no_flood: v10 && raw & 16 != 0,
        no_fwd: raw & 32 != 0,
        no_packet_in: raw & 64 != 0,
    }
}

fn config_bits(c: PortConfig, version: Version) -> u32 {
    let bit = |on: bool, b: u32| if on { b } else { 0 };
    let all = bit(c.port_down, 1) | bit(c.no_recv, 4) | bit(c.no_fwd, 32) | bit(c.no_packet_in, 64);
    match version {
        Version::V10 => all | bit(c.no_stp, 2) | bit(c.no_recv_stp, 8) | bit(c.no_flood, 16),
        _ => all,
    }
}

fn state(raw: u32, version: Version) -> PortState {
    let link_down = raw & 1 != 0;
    if version != Version::V10 {
        return PortState { link_down, blocked: raw & 2 != 0, live: raw & 4 != 0, stp: StpState::Listen };
    }
    let stp = [StpState::Listen, StpState::Learn, StpState::Forward, StpState::Block];
    PortState { link_down, stp: stp[(raw >> 8 & 3) as usize], ..PortState::default() }
}

fn state_bits(s: PortState, version: Version) -> u32 {
    let bit = |on: bool, b: u32| if on { b } else { 0 };
    match version {
        Version::V10 => bit(s.link_down, 1) | (s.stp as u32) << 8,
        _ => bit(s.link_down, 1) | bit(s.blocked, 2) | bit(s.live, 4),
    }
}

/// Converts feature bits from 1.0. OpenFlow 1.0 has no bits for speeds above 10 Gbit/s, so its bits for other features are four positions
/// lower.
fn features_from_10(raw: u32) -> u32 {
    raw & 0x7f | (raw & 0xf80) << 4
}

/// The highest speed among the features in kbit/s; 0 if there is none.
fn features_speed(f: u32) -> u32 {
    match f {
        f if f & features::FD_10GB != 0 => 10_000_000,
        f if f & (features::FD_1GB | features::HD_1GB) != 0 => 1_000_000,
        f if f & (features::FD_100MB | features::HD_100MB) != 0 => 100_000,
        f if f & (features::FD_10MB | features::HD_10MB) != 0 => 10_000,
        _ => 0,
    }
}

fn features_to_10(f: u32) -> u32 {
    f & 0x7f | f >> 4 & 0xf80
}

pub(super) fn decode(r: &mut Reader, version: Version) -> Result<Port, OfError> {
    match version {
        Version::V10 => {
            let mut p =
                Port { number: OfPort(r.u16()?), hw_addr: r.mac()?, name: r.text(16)?, ..Port::default() };
            p.config = config(r.u32()?, version);
            p.state = state(r.u32()?, version);
            for f in [&mut p.current, &mut p.advertised, &mut p.supported, &mut p.peer] {
                *f = features_from_10(r.u32()?);
            }
            // Messages of 1.0 contain no speeds; derive them from the features.
            (p.current_speed, p.max_speed) = (features_speed(p.current), features_speed(p.supported));
            Ok(p)
        }
        Version::V11 | Version::V12 | Version::V13 => {
            let mut p = head_11(r, |r| r.skip(4))?;
            p.config = config(r.u32()?, version);
            p.state = state(r.u32()?, version);
            ethernet(&mut p, r)?;
            Ok(p)
        }
        _ => decode_14(r, version),
    }
}

fn head_11(r: &mut Reader, pad: impl Fn(&mut Reader) -> Result<(), OfError>) -> Result<Port, OfError> {
    let number = OfPort::from_u32(r.u32()?).ok_or(OfError::BrcBadPort)?;
    pad(r)?;
    let hw_addr = r.mac()?;
    r.skip(2)?;
    Ok(Port { number, hw_addr, name: r.text(16)?, ..Port::default() })
}

fn ethernet(p: &mut Port, r: &mut Reader) -> Result<(), OfError> {
    for f in [
        &mut p.current,
        &mut p.advertised,
        &mut p.supported,
        &mut p.peer,
        &mut p.current_speed,
        &mut p.max_speed,
    ] {
        *f = r.u32()?;
    }
    Ok(())
}

fn decode_14(r: &mut Reader, version: Version) -> Result<Port, OfError> {
    let mut peek = *r;
    peek.skip(4)?;
    let len = usize::from(peek.u16()?);
    let mut r = r.sub(len)?;
    let number = OfPort::from_u32(r.u32()?).ok_or(OfError::BrcBadPort)?;
    r.skip(4)?;
    let hw_addr = r.mac()?;
    r.skip(2)?;
    let (c, s) = {
        let mut tail = r;
        tail.skip(16)?;
        (tail.u32()?, tail.u32()?)
    };
    let mut p = Port { number, hw_addr, name: r.text(16)?, ..Port::default() };
    r.skip(8)?;
    (p.config, p.state) = (config(c, version), state(s, version));
    while !r.is_empty() {
        let (kind, mut body) = property::pull(&mut r)?;
        if kind == 0 {
            body.skip(4)?;
            ethernet(&mut p, &mut body)?;
        }
    }
    Ok(p)
}

pub(super) fn encode(out: &mut Vec<u8>, p: &Port, version: Version) {
    let (c, s) = (config_bits(p.config, version), state_bits(p.state, version));
    let features = [p.current, p.advertised, p.supported, p.peer];
    match version {
        Version::V10 => {
            out.u16(p.number.0).bytes(&p.hw_addr.0).text(&p.name, 16).u32(c).u32(s);
            for f in features {
                out.u32(features_to_10(f));
            }
            return;
        }
        Version::V11 | Version::V12 | Version::V13 => {
            out.u32(p.number.to_u32()).zeros(4).bytes(&p.hw_addr.0).zeros(2).text(&p.name, 16).u32(c).u32(s);
        }
        _ => {
            out.u32(p.number.to_u32())
                .u16(72)
                .zeros(2)
                .bytes(&p.hw_addr.0)
                .zeros(2)
                .text(&p.name, 16)
                .u32(c)
                .u32(s);
            out.u16(0).u16(32).zeros(4);
        }
    }
    for v in features.into_iter().chain([p.current_speed, p.max_speed]) {
        out.u32(v);
    }
}

pub(super) fn decode_status(r: &mut Reader, version: Version) -> Result<PortStatus, OfError> {
    let reason = match r.u8()? {
        0 => PortReason::Add,
        1 => PortReason::Delete,
        2 => PortReason::Modify,
        _ => return Err(OfError::NxbrcBadReason),
    };
    r.skip(7)?;
    Ok(PortStatus { reason, port: decode(r, version)? })
}

pub(super) fn encode_status(out: &mut Vec<u8>, ps: &PortStatus, version: Version) {
    out.u8(ps.reason as u8).zeros(7);
    encode(out, &ps.port, version);
}

pub(super) fn decode_mod(r: &mut Reader, version: Version) -> Result<PortMod, OfError> {
    let mut pm = PortMod::default();
    if version == Version::V10 {
        (pm.number, pm.hw_addr) = (OfPort(r.u16()?), r.mac()?);
    } else {
        pm.number = OfPort::from_u32(r.u32()?).ok_or(OfError::BrcBadPort)?;
        r.skip(4)?;
        pm.hw_addr = r.mac()?;
        r.skip(2)?;
    }
    let (c, mask) = (r.u32()?, r.u32()?);
    let known = if version == Version::V10 { 0x7f } else { 0x65 };
    (pm.config, pm.mask) = (config(c & known, version), config(mask & known, version));
    match version {
        Version::V10 => {
            pm.advertise = features_from_10(r.u32()?);
            r.skip(4)?;
        }
        Version::V11 | Version::V12 | Version::V13 => {
            pm.advertise = r.u32()?;
            r.skip(4)?;
        }
        _ => {
            while !r.is_empty() {
                let (kind, mut body) = property::pull(r)?;
                if kind != 0 {
                    return Err(OfError::BpcBadType);
                }
                pm.advertise = body.u32()?;
            }
        }
    }
    Ok(pm)
}

pub(super) fn encode_mod(out: &mut Vec<u8>, pm: &PortMod, version: Version) {
    let (c, mask) = (config_bits(pm.config, version), config_bits(pm.mask, version));
    if version == Version::V10 {
        out.u16(pm.number.0).bytes(&pm.hw_addr.0).u32(c).u32(mask).u32(features_to_10(pm.advertise)).zeros(4);
        return;
    }
    out.u32(pm.number.to_u32()).zeros(4).bytes(&pm.hw_addr.0).zeros(2).u32(c).u32(mask);
    match version {
        Version::V11 | Version::V12 | Version::V13 => {
            out.u32(pm.advertise).zeros(4);
        }
        _ if pm.advertise != 0 => property::put(out, 0, &pm.advertise.to_be_bytes()),
        _ => {}
    }
}

pub(super) fn decode_request(r: &mut Reader, version: Version) -> Result<OfPort, OfError> {
    let port = match version {
        Version::V10 => {
            let port = OfPort(r.u16()?);
            r.skip(6)?;
            return Ok(port);
        }
        _ => OfPort::from_u32(r.u32()?).ok_or(OfError::BrcBadPort)?,
    };
    r.skip(4)?;
    Ok(port)
}

pub(super) fn encode_request(out: &mut Vec<u8>, port: OfPort, version: Version) {
    match version {
        Version::V10 => out.u16(port.0).zeros(6),
        _ => out.u32(port.to_u32()).zeros(4),
    };
}

/// The counters in wire order of 1.0 to 1.3.
fn counters(s: &mut PortStats) -> [&mut u64; 12] {
    [
        &mut s.rx_packets,
        &mut s.tx_packets,
        &mut s.rx_bytes,
        &mut s.tx_bytes,
        &mut s.rx_dropped,
        &mut s.tx_dropped,
        &mut s.rx_errors,
        &mut s.tx_errors,
        &mut s.rx_frame_errors,
        &mut s.rx_over_errors,
        &mut s.rx_crc_errors,
        &mut s.collisions,
    ]
}

/// Intel's vendor number; Intel defined the following two properties of port statistics.
const INTEL: u32 = 0x0000_aa01;
const RFC2819: u32 = 1;
const CUSTOM: u32 = 2;

pub(super) fn decode_stats(r: &mut Reader, version: Version) -> Result<PortStats, OfError> {
    let mut s = PortStats::default();
    if version >= Version::V14 {
        return decode_stats_14(r, s);
    }
    if version == Version::V10 {
        s.port = OfPort(r.u16()?);
        r.skip(6)?;
    } else {
        s.port = OfPort::from_u32(r.u32()?).ok_or(OfError::BrcBadPort)?;
        r.skip(4)?;
    }
    for c in counters(&mut s) {
        *c = r.u64()?;
    }
    if version == Version::V13 {
        s.duration = Duration { sec: r.u32()?, nsec: r.u32()? };
    }
    Ok(s)
}

fn decode_stats_14(r: &mut Reader, mut s: PortStats) -> Result<PortStats, OfError> {
    let mut peek = *r;
    let len = usize::from(peek.u16()?);
    let mut r = r.sub(len)?;
    r.skip(4)?;
    s.port = OfPort::from_u32(r.u32()?).ok_or(OfError::BrcBadPort)?;
    s.duration = Duration { sec: r.u32()?, nsec: r.u32()? };
    for c in &mut counters(&mut s)[..8] {
        **c = r.u64()?;
    }
    while !r.is_empty() {
        let (kind, mut p) = property::pull(&mut r)?;
        match kind {
            0 => {
                p.skip(4)?;
                for c in &mut counters(&mut s)[8..] {
                    **c = p.u64()?;
                }
            }
            0xffff if p.u32()? == INTEL => intel(&mut s, &mut p)?,
            _ => {}
        }
    }
    Ok(s)
}

fn intel(s: &mut PortStats, p: &mut Reader) -> Result<(), OfError> {
    match p.u32()? {
        RFC2819 => {
            p.skip(4)?;
            let mut all = Box::new([0; 21]);
            for c in all.iter_mut() {
                *c = p.u64()?;
            }
            s.rfc2819 = Some(all);
        }
        CUSTOM => {
            p.skip(2)?;
            let n = p.u16()?;
            for _ in 0..n {
                let len = usize::from(p.u8()?);
                s.custom.push((p.label(len)?, p.u64()?));
            }
        }
        _ => {}
    }
    Ok(())
}

pub(super) fn encode_stats(out: &mut Vec<u8>, s: &PortStats, version: Version) {
    let mut s = s.clone();
    let (port, duration) = (s.port, s.duration);
    match version {
        Version::V10 => out.u16(port.0).zeros(6),
        Version::V11 | Version::V12 | Version::V13 => out.u32(port.to_u32()).zeros(4),
        _ => return encode_stats_14(out, &mut s),
    };
    for c in counters(&mut s) {
        out.u64(*c);
    }
    if version == Version::V13 {
        out.u32(duration.sec).u32(duration.nsec);
    }
}

fn encode_stats_14(out: &mut Vec<u8>, s: &mut PortStats) {
    let start = out.len();
    out.zeros(4).u32(s.port.to_u32()).u32(s.duration.sec).u32(s.duration.nsec);
    let all = counters(s);
    for c in &all[..8] {
        out.u64(**c);
    }
    let errors: Vec<u64> = all[8..].iter().map(|c| **c).collect();
    out.u16(0).u16(40).zeros(4);
    for c in errors {
        out.u64(c);
    }
    if let Some(all) = &s.rfc2819 {
        let mut body = Vec::new();
        body.u32(INTEL).u32(RFC2819).zeros(4);
        all.iter().for_each(|&c| {
            body.u64(c);
        });
        property::put(out, 0xffff, &body);
    }
    let known: Vec<_> = s.custom.iter().filter(|c| c.1 != UNKNOWN).collect();
    if !known.is_empty() {
        let mut body = Vec::new();
        body.u32(INTEL).u32(CUSTOM).zeros(2).u16(known.len() as u16);
        for (name, v) in known {
            let len = name.len().min(63);
            body.u8(len as u8).bytes(&name.as_bytes()[..len]).u64(*v);
        }
        property::put(out, 0xffff, &body);
    }
    let len = out.len() - start;
    out.set16(start, len as u16);
}
