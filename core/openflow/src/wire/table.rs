//! Table mods, table descriptions and table features.

use super::buf::{Put, Reader};
use super::{nxm, property};
use crate::error::OfError;
use crate::table::*;
use crate::version::Version;
use flow::{FieldId, Subfield};

const MISS_CONTROLLER: u32 = 0;
const MISS_CONTINUE: u32 = 1;
const MISS_DROP: u32 = 2;
const EVICTION: u32 = 1 << 2;
const VACANCY: u32 = 1 << 3;
/// `OFPIT13_METER`, as a bit.
const METER: u32 = 1 << 6;

fn miss(raw: u32) -> Result<TableMiss, OfError> {
    Ok(match raw & 3 {
        MISS_CONTROLLER => TableMiss::Controller,
        MISS_CONTINUE => TableMiss::Continue,
        MISS_DROP => TableMiss::Drop,
        _ => return Err(OfError::TmfcBadConfig),
    })
}

fn config_14(t: &mut TableConfig, raw: u32) {
    t.eviction = Some(raw & EVICTION != 0);
    t.vacancy_events = Some(raw & VACANCY != 0);
}

/// Decodes properties. Unknown properties are ignored in a description and refused in a table mod.
fn properties(t: &mut TableConfig, r: &mut Reader, is_mod: bool) -> Result<(), OfError> {
    while !r.is_empty() {
        let (kind, mut p) = property::pull(r)?;
        match kind {
            2 => t.eviction_flags = Some(p.u32()?),
            3 => t.vacancy = Some(vacancy(&mut p, is_mod)?),
            _ if is_mod => return Err(OfError::BrcBadType),
            _ => {}
        }
    }
    Ok(())
}

/// Decodes thresholds; a table mod must not contain the current vacancy.
fn vacancy(p: &mut Reader, is_mod: bool) -> Result<Vacancy, OfError> {
    if p.len() != 4 {
        return Err(OfError::BpcBadLen);
    }
    let v = Vacancy { down: p.u8()?, up: p.u8()?, now: p.u8()? };
    if is_mod && (v.down > v.up || v.up > 100 || v.now != 0) {
        return Err(OfError::BpcBadValue);
    }
    Ok(v)
}

pub(super) fn decode_mod(r: &mut Reader, version: Version) -> Result<TableConfig, OfError> {
    let mut t = TableConfig { table: r.u8()?, ..TableConfig::default() };
    r.skip(3)?;
    let config = r.u32()?;
    match version {
        Version::V10 | Version::V11 | Version::V12 => t.miss = miss(config)?,
        Version::V13 => {}
        _ => {
            // As in Open vSwitch, unknown bits are ignored.
            config_14(&mut t, config);
            properties(&mut t, r, true)?;
        }
    }
    Ok(t)
}

fn config_bits(t: &TableConfig, version: Version) -> u32 {
    match (version, t.miss) {
        (Version::V11 | Version::V12, TableMiss::Continue) => MISS_CONTINUE,
        (Version::V11 | Version::V12, TableMiss::Drop) => MISS_DROP,
        (Version::V14 | Version::V15, _) => {
            let bit = |on: Option<bool>, b: u32| if on == Some(true) { b } else { 0 };
            bit(t.eviction, EVICTION) | bit(t.vacancy_events, VACANCY)
        }
        _ => 0,
    }
}

fn put_properties(out: &mut Vec<u8>, t: &TableConfig) {
    if let Some(flags) = t.eviction_flags {
        property::put(out, 2, &flags.to_be_bytes());
    }
    if let Some(v) = t.vacancy {
        property::put(out, 3, &[v.down, v.up, v.now, 0]);
    }
}

pub(super) fn encode_mod(out: &mut Vec<u8>, t: &TableConfig, version: Version) {
    out.u8(t.table).zeros(3).u32(config_bits(t, version));
    if version >= Version::V14 {
        put_properties(out, t);
    }
}

pub(super) fn decode_desc(r: &mut Reader) -> Result<TableConfig, OfError> {
    let mut peek = *r;
    let len = usize::from(peek.u16()?);
    let mut r = r.sub(len)?;
    r.skip(2)?;
    let mut t = TableConfig { table: r.u8()?, ..TableConfig::default() };
    r.skip(1)?;
    config_14(&mut t, r.u32()?);
    properties(&mut t, &mut r, false)?;
    Ok(t)
}

pub(super) fn decode_status(r: &mut Reader) -> Result<TableStatus, OfError> {
    let reason = r.u8()?;
    r.skip(7)?;
    Ok(TableStatus { reason, desc: decode_desc(r)? })
}

pub(super) fn encode_status(out: &mut Vec<u8>, s: &TableStatus) {
    out.u8(s.reason).zeros(7);
    encode_desc(out, &s.desc);
}

pub(super) fn encode_desc(out: &mut Vec<u8>, t: &TableConfig) {
    let start = out.len();
    out.u16(0).u8(t.table).zeros(1).u32(config_bits(t, Version::V14));
    put_properties(out, t);
    let len = out.len() - start;
    out.set16(start, len as u16);
}

/// Decodes a list of types, each with a length of four bytes; returns them as bits.
fn bitmap(mut p: Reader) -> Result<u32, OfError> {
    let mut bits = 0;
    while p.len() >= 4 {
        let (kind, len) = (p.u16()?, usize::from(p.u16()?));
        p.skip(len.saturating_sub(4).min(p.len()))?;
        bits |= 1u32.checked_shl(u32::from(kind)).unwrap_or(0);
    }
    Ok(bits)
}

/// Decodes field headers. Returns each field once, with a flag that tells whether a header of the field has the mask bit. Unknown fields
/// are ignored.
fn fields(mut p: Reader) -> Result<Vec<(FieldId, bool)>, OfError> {
    let mut list: Vec<(FieldId, bool)> = Vec::new();
    // The place of each field in `list`. A reply describes up to 254 tables with seven lists of 150 fields each.
    let mut places = vec![None; FieldId::all().len()];
    while p.len() >= 4 {
        let bits = p.u32()?;
        let vendor = if bits >> 16 == 0xffff { p.u32()? } else { 0 };
        let header = u64::from(vendor) << 32 | u64::from(bits);
        let Some(field) = FieldId::from_nxm_header(header) else { continue };
        let masked = bits & 0x100 != 0;
        let place: usize = *places[field.index()].get_or_insert(list.len());
        match list.get_mut(place) {
            Some((_, mask)) => *mask |= masked,
            None => list.push((field, masked)),
        }
    }
    Ok(list)
}

fn plain(p: Reader) -> Result<Vec<FieldId>, OfError> {
    Ok(fields(p)?.into_iter().map(|f| f.0).collect())
}

pub(super) fn decode_features(r: &mut Reader, version: Version) -> Result<TableFeatures, OfError> {
    let mut peek = *r;
    let len = usize::from(peek.u16()?);
    let mut r = r.sub(len)?;
    r.skip(2)?;
    let mut f = TableFeatures { table: r.u8()?, ..TableFeatures::default() };
    let command = r.u8()?;
    if version >= Version::V15 {
        f.command = TableCommand::from_wire(command).ok_or(OfError::TffcBadCommand)?;
    }
    r.skip(4)?;
    f.name = r.text(32)?;
    (f.metadata_match, f.metadata_write) = (r.u64()?, r.u64()?);
    // In OpenFlow 1.3 this word is reserved (§7.3.5.5).
    let capabilities = if version >= Version::V14 { r.u32()? } else { r.skip(4).map(|()| 0)? };
    f.supports_eviction = capabilities & EVICTION != 0;
    f.supports_vacancy_events = capabilities & VACANCY != 0;
    f.max_entries = r.u32()?;
    f.keeps_properties = r.is_empty();
    let mut present = 0u32;
    while !r.is_empty() {
        let (kind, p) = property::pull(&mut r)?;
        present |= 1u32.checked_shl(u32::from(kind)).unwrap_or(0);
        feature(&mut f, kind, p, version)?;
    }
    miss_as_others(&mut f, present);
    Ok(f)
}

/// For each property of the table-miss flow that is not in the message, copies the property of other flows. `present`: bit mask of the
/// properties in the message, by number.
fn miss_as_others(f: &mut TableFeatures, present: u32) {
    let (miss, others) = (&mut f.miss, &f.nonmiss);
    let is_absent = |kind: u32| present & 1 << kind == 0;
    if is_absent(1) {
        miss.instructions = others.instructions;
    }
    if is_absent(3) {
        miss.next_tables.clone_from(&others.next_tables);
    }
    if is_absent(5) {
        miss.write_actions = others.write_actions;
    }
    if is_absent(7) {
        miss.apply_actions = others.apply_actions;
    }
    if is_absent(13) {
        miss.write_set_fields.clone_from(&others.write_set_fields);
    }
    if is_absent(15) {
        miss.apply_set_fields.clone_from(&others.apply_set_fields);
    }
}

/// Removes instructions that the version does not have: in OpenFlow 1.5 meter is an action.
fn instructions(bits: u32, version: Version) -> u32 {
    if version >= Version::V15 { bits & !METER } else { bits }
}

fn feature(f: &mut TableFeatures, kind: u16, p: Reader, version: Version) -> Result<(), OfError> {
    let side = if kind % 2 == 1 { &mut f.miss } else { &mut f.nonmiss };
    match kind {
        0 | 1 => side.instructions = instructions(bitmap(p)?, version),
        2 | 3 => side.next_tables = p.rest().to_vec(),
        4 | 5 => side.write_actions = bitmap(p)?,
        6 | 7 => side.apply_actions = bitmap(p)?,
        8 => {
            let list = fields(p)?;
            f.mask = list.iter().filter(|f| f.1).map(|f| f.0).collect();
            f.matching = list.into_iter().map(|f| f.0).collect();
        }
        10 => f.wildcard = plain(p)?,
        12 | 13 => side.write_set_fields = plain(p)?,
        14 | 15 => side.apply_set_fields = plain(p)?,
        _ => {}
    }
    Ok(())
}

fn put_bitmap(out: &mut Vec<u8>, kind: u16, bits: u32) {
    let mut body = Vec::new();
    (0..32u16).filter(|b| bits >> b & 1 != 0).for_each(|b| {
        body.u16(b).u16(4);
    });
    property::put(out, kind, &body);
}

/// Cache of encoded field lists. Most tables have the same lists, and a reply describes up to 254 tables with
/// 7 lists of 150 fields each.
struct FieldLists<'a> {
    version: Version,
    /// A list, the fields of it that may be masked, and the encoding of both.
    encoded: Vec<(&'a [FieldId], &'a [FieldId], Vec<u8>)>,
}

impl<'a> FieldLists<'a> {
    /// Maximum number of lists in the cache, because it is searched linearly.
    const KEPT_MAX: usize = 8;

    fn put(&mut self, out: &mut Vec<u8>, kind: u16, list: &'a [FieldId], masked: &'a [FieldId]) {
        let known = self.encoded.iter().position(|known| (known.0, known.1) == (list, masked));
        let at = known.unwrap_or_else(|| {
            if self.encoded.len() == FieldLists::KEPT_MAX {
                self.encoded.clear();
            }
            let mut body = Vec::new();
            for &f in list {
                let version = self.version.wire();
                nxm::put_header(&mut body, Subfield::whole(f), version, masked.contains(&f));
            }
            self.encoded.push((list, masked, body));
            self.encoded.len() - 1
        });
        property::put(out, kind, &self.encoded[at].2);
    }

    fn put_side(&mut self, out: &mut Vec<u8>, f: &'a InstructionFeatures, miss: u16) {
        put_bitmap(out, miss, instructions(f.instructions, self.version));
        property::put(out, 2 + miss, &f.next_tables);
        put_bitmap(out, 4 + miss, f.write_actions);
        self.put(out, 12 + miss, &f.write_set_fields, &[]);
        put_bitmap(out, 6 + miss, f.apply_actions);
        self.put(out, 14 + miss, &f.apply_set_fields, &[]);
    }
}

/// Encodes the features of several tables.
pub(super) fn encode_all_features(all: &[TableFeatures], version: Version) -> Vec<Vec<u8>> {
    let mut lists = FieldLists { version, encoded: Vec::new() };
    let encode = |f| {
        let mut out = Vec::new();
        encode_features(&mut out, f, &mut lists);
        out
    };
    all.iter().map(encode).collect()
}

fn encode_features<'a>(out: &mut Vec<u8>, f: &'a TableFeatures, lists: &mut FieldLists<'a>) {
    let (start, version) = (out.len(), lists.version);
    let bit = |on: bool, b: u32| if on && version >= Version::V14 { b } else { 0 };
    let capabilities = bit(f.supports_eviction, EVICTION) | bit(f.supports_vacancy_events, VACANCY);
    let command = if version >= Version::V15 { f.command as u8 } else { 0 };
    out.u16(0).u8(f.table).u8(command).zeros(4).text(&f.name, 32).u64(f.metadata_match).u64(f.metadata_write);
    out.u32(capabilities).u32(f.max_entries);
    if !f.keeps_properties {
        // Properties of the table miss could be left out if they equal the properties of other flows. As in Open vSwitch, they are
        // always sent.
        lists.put_side(out, &f.nonmiss, 0);
        lists.put_side(out, &f.miss, 1);
        lists.put(out, 8, &f.matching, &f.mask);
        lists.put(out, 10, &f.wildcard, &[]);
    }
    let len = out.len() - start;
    out.set16(start, len as u16);
}
