//! OXS: counters as type-length-value entries (OpenFlow 1.5 §7.2.4).

use super::buf::{Put, Reader};
use crate::error::OfError;
use crate::flow_mod::Duration;

/// Class of the standard's entries (`OFPXSC_OPENFLOW_BASIC`).
const CLASS: u16 = 0x8002;

/// The counters of a flow, or sums over flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stats {
    pub duration: Duration,
    pub idle_age: Option<u32>,
    pub flows: Option<u32>,
    pub packets: u64,
    pub bytes: u64,
}

impl Default for Stats {
    fn default() -> Stats {
        Stats {
            duration: Duration::default(),
            idle_age: None,
            flows: None,
            packets: u64::MAX,
            bytes: u64::MAX,
        }
    }
}

pub(super) fn pull(r: &mut Reader) -> Result<Stats, OfError> {
    let mut head = *r;
    head.skip(2)?;
    let len = usize::from(head.u16()?);
    let mut body = r.sub(len.next_multiple_of(8).min(r.len()))?;
    let mut body = body.sub(len)?;
    body.skip(4)?;
    let mut stats = Stats::default();
    while !body.is_empty() {
        let (class, field, len) = (body.u16()?, body.u8()? >> 1, usize::from(body.u8()?));
        let mut v = body.sub(len)?;
        match (class, field) {
            (CLASS, 0) => stats.duration = Duration { sec: v.u32()?, nsec: v.u32()? },
            (CLASS, 1) => stats.idle_age = Some(v.u32()?),
            (CLASS, 3) => stats.flows = Some(v.u32()?),
            (CLASS, 4) => stats.packets = v.u64()?,
            (CLASS, 5) => stats.bytes = v.u64()?,
            _ => {}
        }
    }
    Ok(stats)
}

pub(super) fn put(out: &mut Vec<u8>, s: &Stats) {
    let start = out.len();
    out.u16(0).u16(0);
    let header = |o: &mut Vec<u8>, field: u8, len: u8| {
        o.u16(CLASS).u8(field << 1).u8(len);
    };
    if s.flows.is_none() {
        header(out, 0, 8);
        out.u32(s.duration.sec).u32(s.duration.nsec);
    }
    if let Some(age) = s.idle_age {
        header(out, 1, 8);
        out.u32(age).u32(0);
    }
    if let Some(flows) = s.flows {
        header(out, 3, 4);
        out.u32(flows);
    }
    for (field, v) in [(4, s.packets), (5, s.bytes)] {
        if v != u64::MAX {
            header(out, field, 8);
            out.u64(v);
        }
    }
    let len = out.len() - start;
    out.set16(start + 2, len as u16);
    out.pad8(start);
}
