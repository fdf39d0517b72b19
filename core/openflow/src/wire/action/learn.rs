//! The `learn` action on the wire.

use super::subfield::{source, target};
use crate::action::{Action, Learn, LearnSource, LearnSpec, LearnTarget};
use crate::error::OfError;
use crate::wire::buf::{Put, Reader};
use crate::wire::nxm;
use flow::Subfield;

const SEND_FLOW_REM: u16 = 1;
const DELETE_LEARNED: u16 = 2;
const WRITE_RESULT: u16 = 4;

// Bits in the header of a part of the match or actions; the low ten bits are the number of bits.
const FROM_VALUE: u16 = 1 << 13;
const TO_LOAD: u16 = 1 << 11;
const TO_OUTPUT: u16 = 2 << 11;
const TO_MASK: u16 = 3 << 11;

pub(super) fn decode(mut r: Reader, is_learn2: bool) -> Result<Action, OfError> {
    let mut learn = Learn {
        idle_timeout: r.u16()?,
        hard_timeout: r.u16()?,
        priority: r.u16()?,
        cookie: r.u64()?,
        ..Learn::default()
    };
    let flags = r.u16()?;
    learn.table = r.u8()?;
    r.zeros(1, OfError::BacBadArgument)?;
    (learn.fin_idle_timeout, learn.fin_hard_timeout) = (r.u16()?, r.u16()?);
    let allowed = SEND_FLOW_REM | DELETE_LEARNED | if is_learn2 { WRITE_RESULT } else { 0 };
    if learn.table == 0xff || flags & !allowed != 0 {
        return Err(OfError::BacBadArgument);
    }
    learn.send_flow_rem = flags & SEND_FLOW_REM != 0;
    learn.delete_learned = flags & DELETE_LEARNED != 0;
    if is_learn2 {
        learn.limit = r.u32()?;
        let ofs = r.u16()?;
        r.zeros(2, OfError::NxbacMustBeZero)?;
        if flags & WRITE_RESULT != 0 {
            learn.result_dst = Some(target(nxm::field_header(&mut r)?, ofs, 1)?);
        } else if ofs != 0 {
            return Err(OfError::BacBadArgument);
        }
    }
    learn.specs = specs(&mut r)?;
    Ok(Action::Learn(Box::new(learn)))
}

fn specs(r: &mut Reader) -> Result<Vec<LearnSpec>, OfError> {
    let mut list = Vec::new();
    while r.len() >= 2 {
        let header = r.u16()?;
        if header == 0 {
            break;
        }
        let n_bits = header & 0x3ff;
        let value = header & FROM_VALUE != 0;
        let src = if value {
            let bytes = 2 * usize::from(n_bits.div_ceil(16));
            let used = r.take(bytes)?;
            if n_bits > 128 {
                return Err(OfError::BacBadSetLen);
            }
            LearnSource::Value(used.iter().fold(0, |v, &b| v << 8 | u128::from(b)))
        } else {
            LearnSource::Field(subfield(r, n_bits)?)
        };
        let dst = match header & TO_MASK {
            0 => LearnTarget::Match(subfield(r, n_bits)?),
            TO_LOAD => LearnTarget::Load(subfield(r, n_bits)?),
            TO_OUTPUT if !value => LearnTarget::Output,
            _ => return Err(OfError::BacBadArgument),
        };
        list.push(LearnSpec { n_bits, src, dst });
    }
    if r.all_zero() { Ok(list) } else { Err(OfError::BacBadArgument) }
}

fn subfield(r: &mut Reader, n_bits: u16) -> Result<Subfield, OfError> {
    let field = nxm::field_header(r)?;
    source(field, r.u16()?, n_bits)
}

/// Returns whether the action can only be encoded in the newer form, `NXAST_LEARN2`.
pub(super) fn needs_learn2(learn: &Learn) -> bool {
    learn.limit != 0 || learn.result_dst.is_some()
}

pub(super) fn encode(out: &mut Vec<u8>, learn: &Learn) {
    let flag = |on: bool, bit: u16| if on { bit } else { 0 };
    let flags = flag(learn.send_flow_rem, SEND_FLOW_REM)
        | flag(learn.delete_learned, DELETE_LEARNED)
        | flag(learn.result_dst.is_some(), WRITE_RESULT);
    out.u16(learn.idle_timeout).u16(learn.hard_timeout).u16(learn.priority).u64(learn.cookie);
    out.u16(flags).u8(learn.table).zeros(1).u16(learn.fin_idle_timeout).u16(learn.fin_hard_timeout);
    if needs_learn2(learn) {
        out.u32(learn.limit).u16(learn.result_dst.map_or(0, |sf| sf.ofs)).zeros(2);
        if let Some(sf) = learn.result_dst {
            nxm::put_header(out, sf, 0, false);
        }
    }
    for spec in &learn.specs {
        let from = if matches!(spec.src, LearnSource::Value(_)) { FROM_VALUE } else { 0 };
        let to = match spec.dst {
            LearnTarget::Match(_) => 0,
            LearnTarget::Load(_) => TO_LOAD,
            LearnTarget::Output => TO_OUTPUT,
        };
        out.u16(spec.n_bits | from | to);
        match &spec.src {
            LearnSource::Field(sf) => put_subfield(out, *sf),
            LearnSource::Value(v) => {
                out.number(*v, 2 * usize::from(spec.n_bits.div_ceil(16)));
            }
        }
        if let LearnTarget::Match(sf) | LearnTarget::Load(sf) = spec.dst {
            put_subfield(out, sf);
        }
    }
}

fn put_subfield(out: &mut Vec<u8>, sf: Subfield) {
    nxm::put_header(out, sf, 0, false);
    out.u16(sf.ofs);
}
