//! Instructions (OpenFlow 1.1 and later): encoded as a list of instructions, decoded to one list of actions
//! in order of execution.

use super::context::Context;
use super::decode::{action_set, actions};
use super::encode::put_actions_after;
use super::headers::Headers;
use crate::action::Action;
use crate::error::OfError;
use crate::version::Version;
use crate::wire::buf::{Put, Reader};
use flow::Match;

const GOTO_TABLE: u16 = 1;
const WRITE_METADATA: u16 = 2;
const WRITE_ACTIONS: u16 = 3;
const APPLY_ACTIONS: u16 = 4;
const CLEAR_ACTIONS: u16 = 5;
const METER: u16 = 6;

/// The instructions in their order of execution.
const ORDER: [u16; 6] = [METER, APPLY_ACTIONS, CLEAR_ACTIONS, WRITE_ACTIONS, WRITE_METADATA, GOTO_TABLE];

/// Decodes a flow's actions from the rest of a message: a list of instructions, or in 1.0 a list of actions.
pub(crate) fn instructions(bytes: &[u8], cx: Context) -> Result<Vec<Action>, OfError> {
    if cx.version == Version::V10 {
        if !bytes.len().is_multiple_of(8) {
            return Err(OfError::BrcBadLen);
        }
        return actions(bytes, cx);
    }
    let mut found: [Option<Reader>; 7] = [None; 7];
    let mut r = Reader::new(bytes, OfError::BicBadLen);
    while !r.is_empty() {
        let mut head = r;
        let (kind, len) = (head.u16()?, usize::from(head.u16()?));
        if len < 8 || len % 8 != 0 {
            return Err(OfError::BicBadLen);
        }
        let mut body = r.sub(len)?;
        body.skip(4)?;
        if kind == 0xffff {
            return Err(OfError::BicBadExperimenter);
        }
        let lacks_meter = kind == METER && (cx.version >= Version::V15 || cx.version < Version::V13);
        let slot = found.get_mut(usize::from(kind)).filter(|_| kind != 0 && !lacks_meter);
        let slot = slot.ok_or(OfError::BicUnknownInst)?;
        let wanted = match kind {
            WRITE_METADATA => 24,
            GOTO_TABLE | CLEAR_ACTIONS | METER => 8,
            _ => len,
        };
        if len != wanted {
            return Err(OfError::BicBadLen);
        }
        if slot.replace(body).is_some() {
            return Err(OfError::BicDupInst);
        }
    }
    let mut list = Vec::new();
    for kind in ORDER {
        if let Some(body) = found[usize::from(kind)] {
            decode_instruction(kind, body, cx, &mut list)?;
        }
    }
    Ok(list)
}

fn decode_instruction(kind: u16, mut r: Reader, cx: Context, list: &mut Vec<Action>) -> Result<(), OfError> {
    match kind {
        METER => list.push(Action::Meter(r.u32()?)),
        CLEAR_ACTIONS => list.push(Action::ClearActions),
        GOTO_TABLE => list.push(Action::GotoTable(r.u8()?)),
        WRITE_METADATA => {
            r.skip(4)?;
            list.push(Action::WriteMetadata { value: r.u64()?, mask: r.u64()? });
        }
        WRITE_ACTIONS => {
            r.skip(4)?;
            list.push(Action::WriteActions(action_set(r.rest(), cx)?));
        }
        _ => {
            r.skip(4)?;
            list.extend(actions(r.rest(), cx)?);
        }
    }
    Ok(())
}

/// Encodes the actions and instructions of a flow with this match.
pub(crate) fn put_instructions(out: &mut Vec<u8>, list: &[Action], matching: &Match, version: Version) {
    let first = Headers::of(matching);
    if version == Version::V10 {
        return put_actions_after(out, list, first, version);
    }
    let (mut applied, mut headers) = (false, first);
    for action in list {
        let before = headers;
        headers.change(action);
        let kind = match action {
            Action::Meter(_) if version == Version::V13 || version == Version::V14 => METER,
            Action::ClearActions => CLEAR_ACTIONS,
            Action::WriteActions(_) => WRITE_ACTIONS,
            Action::WriteMetadata { .. } => WRITE_METADATA,
            Action::GotoTable(_) => GOTO_TABLE,
            Action::Meter(_) if version < Version::V13 => continue,
            _ if applied => continue,
            _ => {
                applied = true;
                APPLY_ACTIONS
            }
        };
        let start = out.len();
        out.u16(kind).u16(0);
        match action {
            Action::Meter(id) if kind == METER => out.u32(*id),
            Action::GotoTable(table) => out.u8(*table).zeros(3),
            Action::WriteMetadata { value, mask } => out.zeros(4).u64(*value).u64(*mask),
            _ => out.zeros(4),
        };
        match action {
            Action::WriteActions(set) => put_actions_after(out, set, before, version),
            _ if kind == APPLY_ACTIONS => put_actions_after(out, list, first, version),
            _ => {}
        }
        let len = out.len() - start;
        out.set16(start + 2, len as u16);
    }
}
