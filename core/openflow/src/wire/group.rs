//! Groups.

use super::action::{Context, actions, put_actions};
use super::buf::{Put, Reader};
use super::frame::MESSAGE_MAX;
use super::{nxm, property};
use crate::error::OfError;
use crate::flow_mod::{Duration, GROUP_ANY};
use crate::group::*;
use crate::version::Version;
use flow::Subfield;
use units::OfPort;

// Types of properties.
const WEIGHT: u16 = 0;
const WATCH_PORT: u16 = 1;
const WATCH_GROUP: u16 = 2;
const EXPERIMENTER: u16 = 0xffff;
/// Netronome's vendor number; Netronome defined the property of the selection method.
const NTR_VENDOR: u32 = 0x0000_154d;
/// The vendor number that Open vSwitch 2.4 sent instead of `NTR_VENDOR`.
const NTR_OLD: u32 = 0x0000_1540;
/// Length of the headers of a multipart message in bytes, since OpenFlow 1.1.
const MULTIPART_HEADER: usize = 16;
/// Length of the statistics of a group without buckets in bytes, since OpenFlow 1.3.
const STATS_LEN: usize = 40;
/// Length of the statistics of a bucket in bytes.
const BUCKET_STATS_LEN: usize = 16;
/// Netronome's number of the property of the selection method.
const SELECTION_METHOD: u32 = 1;

fn kind(raw: u8) -> Result<GroupType, OfError> {
    use GroupType::*;
    [All, Select, Indirect, FastFailover].get(usize::from(raw)).copied().ok_or(OfError::GmfcBadType)
}

fn command(raw: u16, old: bool) -> Result<GroupCommand, OfError> {
    use GroupCommand::*;
    let all = [Add, Modify, Delete, InsertBucket, RemoveBucket, AddOrModify];
    let found = all.into_iter().find(|&c| c as u16 == raw);
    found.filter(|c| !old || !matches!(c, InsertBucket | RemoveBucket)).ok_or(OfError::GmfcBadCommand)
}

/// Returns whether groups of the version have the layout of 1.5. Nicira's form for 1.0 has this layout, too.
fn has_layout_15(version: Version) -> bool {
    version >= Version::V15 || version == Version::V10
}

fn bucket_11(r: &mut Reader, cx: Context, id: u32) -> Result<Bucket, OfError> {
    let mut peek = *r;
    let len = usize::from(peek.u16()?);
    let bad = |_| OfError::GmfcBadBucket;
    let mut r = r.sub(len).map_err(bad)?;
    r.skip(2).map_err(bad)?;
    let weight = r.u16().map_err(bad)?;
    let watch_port = OfPort::from_u32(r.u32().map_err(bad)?).ok_or(OfError::GmfcBadWatch)?;
    let watch_group = r.u32().map_err(bad)?;
    r.skip(4).map_err(bad)?;
    Ok(Bucket { id, weight, watch_port, watch_group, actions: bucket_actions(r.rest(), cx)? })
}

fn bucket_actions(bytes: &[u8], cx: Context) -> Result<Vec<crate::Action>, OfError> {
    let list = actions(bytes, cx)?;
    super::check::verify_actions(&list, cx.version)?;
    Ok(list)
}

fn bucket_15(r: &mut Reader, cx: Context, group: GroupType) -> Result<Bucket, OfError> {
    let mut peek = *r;
    let len = usize::from(peek.u16()?);
    let bad = |_| OfError::GmfcBadBucket;
    let mut r = r.sub(len).map_err(bad)?;
    r.skip(2).map_err(bad)?;
    let (actions_len, id) = (usize::from(r.u16().map_err(bad)?), r.u32().map_err(bad)?);
    let actions = bucket_actions(r.take(actions_len).map_err(bad)?, cx)?;
    let mut b = Bucket { id, actions, weight: u16::from(group == GroupType::Select), ..Bucket::default() };
    while !r.is_empty() {
        let (kind, mut p) = property::pull(&mut r)?;
        match kind {
            WEIGHT => b.weight = p.u16()?,
            WATCH_PORT => b.watch_port = OfPort::from_u32(p.u32()?).ok_or(OfError::GmfcBadWatch)?,
            WATCH_GROUP => b.watch_group = p.u32()?,
            _ => return Err(OfError::BpcBadType),
        }
    }
    Ok(b)
}

fn buckets(r: &mut Reader, cx: Context, group: GroupType) -> Result<Vec<Bucket>, OfError> {
    let mut list = Vec::new();
    while !r.is_empty() {
        list.push(match has_layout_15(cx.version) {
            true => bucket_15(r, cx, group)?,
            false => bucket_11(r, cx, list.len() as u32)?,
        });
    }
    let mut ids: Vec<u32> = list.iter().map(|b| b.id).collect();
    ids.sort_unstable();
    let has_duplicate_id = ids.windows(2).any(|two| two[0] == two[1]);
    if has_duplicate_id || ids.last().is_some_and(|id| *id > BUCKET_MAX) {
        return Err(OfError::GmfcBadBucket);
    }
    Ok(list)
}

fn put_bucket(out: &mut Vec<u8>, b: &Bucket, group: GroupType, version: Version) {
    let start = out.len();
    if !has_layout_15(version) {
        out.u16(0).u16(b.weight).u32(b.watch_port.to_u32()).u32(b.watch_group).zeros(4);
        put_actions(out, &b.actions, version);
    } else {
        out.u16(0).u16(0).u32(b.id);
        let at = out.len();
        put_actions(out, &b.actions, version);
        let len = out.len() - at;
        out.set16(start + 2, len as u16);
        if group == GroupType::Select || b.weight > 1 {
            property::put_u16(out, WEIGHT, b.weight);
        }
        if b.watch_port != OfPort::NONE {
            property::put(out, WATCH_PORT, &b.watch_port.to_u32().to_be_bytes());
        }
        if b.watch_group != GROUP_ANY {
            property::put(out, WATCH_GROUP, &b.watch_group.to_be_bytes());
        }
    }
    let len = out.len() - start;
    out.set16(start, len as u16);
}

/// Decodes the selection method of a select group. Commands that change single buckets must not contain it.
fn selection(r: &mut Reader, group: GroupType, command: GroupCommand) -> Result<Selection, OfError> {
    let sets = matches!(command, GroupCommand::Add | GroupCommand::Modify | GroupCommand::AddOrModify);
    let mut s = Selection::default();
    while !r.is_empty() {
        let (kind, mut p) = property::pull(r)?;
        if kind != EXPERIMENTER {
            return Err(OfError::BpcBadType);
        }
        if !matches!(p.u32()?, NTR_VENDOR | NTR_OLD) || p.u32()? != SELECTION_METHOD {
            return Err(OfError::BpcBadExperimenter);
        }
        if group != GroupType::Select || !sets {
            return Err(OfError::BpcBadValue);
        }
        p.skip(4)?;
        (s.method, s.param) = (p.text(16)?, p.u64()?);
        let takes_fields = match s.method.as_str() {
            "hash" => true,
            "dp_hash" => false,
            _ => return Err(OfError::BpcBadValue),
        };
        if !takes_fields && !p.is_empty() {
            return Err(OfError::BpcBadValue);
        }
        while !p.is_empty() {
            let (field, mask, _) = nxm::number_entry(&mut p, false)?;
            s.fields.push((field, mask));
        }
    }
    Ok(s)
}

fn put_selection(out: &mut Vec<u8>, s: &Selection) {
    if s.method.is_empty() {
        return;
    }
    let mut body = Vec::new();
    body.u32(NTR_VENDOR).u32(SELECTION_METHOD).zeros(4).text(&s.method, 16).u64(s.param);
    for &(field, mask) in &s.fields {
        // Only the low 16 bytes of a wider field are hashed.
        let whole = Subfield::whole(field);
        let sf = Subfield { n_bytes: whole.n_bytes.min(16), ..whole };
        nxm::put_header(&mut body, sf, Version::V15.wire(), false);
        body.number(mask, sf.n_bytes.into());
    }
    property::put(out, EXPERIMENTER, &body);
}

/// Checks that only commands that insert or remove buckets refer to a bucket (OpenFlow 1.5.1 §7.3.4.3).
fn check_command_bucket(gm: &GroupMod) -> Result<(), OfError> {
    let bucket = gm.command_bucket;
    let one = bucket <= BUCKET_MAX || bucket == BUCKET_FIRST || bucket == BUCKET_LAST;
    let is_valid = match gm.command {
        GroupCommand::InsertBucket => one,
        GroupCommand::RemoveBucket => one || bucket == BUCKET_ALL,
        _ => bucket == BUCKET_ALL,
    };
    if is_valid { Ok(()) } else { Err(OfError::GmfcBadBucket) }
}

pub(super) fn decode_mod(r: &mut Reader, cx: Context) -> Result<GroupMod, OfError> {
    let new = has_layout_15(cx.version);
    let raw = r.u16()?;
    let raw_kind = r.u8()?;
    r.skip(1)?;
    let mut gm = GroupMod { group: r.u32()?, command_bucket: BUCKET_ALL, ..GroupMod::default() };
    gm.command = command(raw, !new)?;
    let bytes = if new {
        let len = usize::from(r.u16()?);
        r.skip(2)?;
        gm.command_bucket = r.u32()?;
        check_command_bucket(&gm)?;
        r.take(len)?
    } else {
        r.take(r.len())?
    };
    let deletes = matches!(gm.command, GroupCommand::Delete | GroupCommand::RemoveBucket);
    gm.kind =
        if gm.command == GroupCommand::Delete { kind(raw_kind).unwrap_or_default() } else { kind(raw_kind)? };
    gm.buckets = buckets(&mut Reader::new(bytes, OfError::GmfcBadBucket), cx, gm.kind)?;
    gm.selection = selection(r, gm.kind, gm.command)?;
    let reserved = gm.group > GROUP_MAX && !(gm.group == GROUP_ALL && deletes);
    if reserved {
        return Err(OfError::GmfcInvalidGroup);
    }
    Ok(gm)
}

pub(super) fn encode_mod(out: &mut Vec<u8>, gm: &GroupMod, version: Version) {
    out.u16(gm.command as u16).u8(gm.kind as u8).zeros(1).u32(gm.group);
    let mut list = Vec::new();
    gm.buckets.iter().for_each(|b| put_bucket(&mut list, b, gm.kind, version));
    if has_layout_15(version) {
        out.u16(list.len() as u16).zeros(2).u32(gm.command_bucket).bytes(&list);
        put_selection(out, &gm.selection);
    } else {
        out.bytes(&list);
    }
}

pub(super) fn decode_desc(r: &mut Reader, cx: Context) -> Result<GroupDesc, OfError> {
    let mut peek = *r;
    let len = usize::from(peek.u16()?);
    let mut r = r.sub(len)?;
    r.skip(2)?;
    let kind = kind(r.u8()?)?;
    r.skip(1)?;
    let mut g = GroupDesc { group: r.u32()?, kind, ..GroupDesc::default() };
    let mut body = r;
    if has_layout_15(cx.version) {
        let len = usize::from(r.u16()?);
        r.skip(6)?;
        body = r.sub(len)?;
        g.selection = selection(&mut r, g.kind, GroupCommand::Add)?;
    }
    g.buckets = buckets(&mut body, cx, kind)?;
    Ok(g)
}

pub(super) fn encode_desc(out: &mut Vec<u8>, g: &GroupDesc, version: Version) {
    put_desc(out, g.group, g.kind, &g.buckets, &g.selection, version);
}

fn put_desc(
    out: &mut Vec<u8>,
    group: u32,
    kind: GroupType,
    buckets: &[Bucket],
    selection: &Selection,
    version: Version,
) {
    let start = out.len();
    out.u16(0).u8(kind as u8).zeros(1).u32(group);
    let mut list = Vec::new();
    buckets.iter().for_each(|b| put_bucket(&mut list, b, kind, version));
    if has_layout_15(version) {
        out.u16(list.len() as u16).zeros(6).bytes(&list);
        put_selection(out, selection);
    } else {
        out.bytes(&list);
    }
    let len = out.len() - start;
    out.set16(start, len as u16);
}

/// Whether the description of a group fits into one message, and its statistics into another. Checked for
/// OpenFlow 1.3 to 1.5, the versions that current tools use.
///
/// A reply cannot continue a group in the next message, so a longer group would make every list of groups fail. The longest group has
/// 4,092 buckets without actions; buckets with a few actions take 60 to 120 bytes, so that 500 to 1,000 of them fit. Some actions are
/// longer in OpenFlow 1.0 to 1.2. These versions are not checked, because that would refuse groups that later versions can list.
pub fn group_fits(kind: GroupType, buckets: &[Bucket], selection: &Selection) -> bool {
    let fits = |record: usize| MULTIPART_HEADER + record <= MESSAGE_MAX;
    // Check the number of buckets first: this bounds the time of the encoding below.
    fits(STATS_LEN + buckets.len() * BUCKET_STATS_LEN)
        && [Version::V13, Version::V14, Version::V15].into_iter().all(|version| {
            let mut out = Vec::new();
            put_desc(&mut out, 0, kind, buckets, selection, version);
            fits(out.len())
        })
}

/// Returns whether statistics of a group contain the time since it was added.
fn has_duration(version: Version) -> bool {
    version >= Version::V13 || version == Version::V10
}

pub(super) fn decode_stats(r: &mut Reader, version: Version) -> Result<GroupStats, OfError> {
    let mut peek = *r;
    let len = usize::from(peek.u16()?);
    let mut r = r.sub(len)?;
    r.skip(4)?;
    let mut s = GroupStats { group: r.u32()?, ref_count: r.u32()?, ..GroupStats::default() };
    r.skip(4)?;
    (s.packets, s.bytes) = (r.u64()?, r.u64()?);
    s.duration = Duration { sec: u32::MAX, nsec: u32::MAX };
    if has_duration(version) {
        s.duration = Duration { sec: r.u32()?, nsec: r.u32()? };
    }
    while !r.is_empty() {
        s.buckets.push((r.u64()?, r.u64()?));
    }
    Ok(s)
}

pub(super) fn encode_stats(out: &mut Vec<u8>, s: &GroupStats, version: Version) {
    let start = out.len();
    out.zeros(4).u32(s.group).u32(s.ref_count).zeros(4).u64(s.packets).u64(s.bytes);
    if has_duration(version) {
        out.u32(s.duration.sec).u32(s.duration.nsec);
    }
    s.buckets.iter().for_each(|&(p, b)| {
        out.u64(p).u64(b);
    });
    let len = out.len() - start;
    out.set16(start, len as u16);
}

pub(super) fn decode_features(r: &mut Reader) -> Result<GroupFeatures, OfError> {
    let mut f = GroupFeatures { types: r.u32()?, capabilities: r.u32()?, ..GroupFeatures::default() };
    for v in f.max_groups.iter_mut().chain(&mut f.actions) {
        *v = r.u32()?;
    }
    Ok(f)
}

pub(super) fn encode_features(out: &mut Vec<u8>, f: &GroupFeatures) {
    out.u32(f.types).u32(f.capabilities);
    f.max_groups.iter().chain(&f.actions).for_each(|&v| {
        out.u32(v);
    });
}
