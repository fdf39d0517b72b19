//! NXM and OXM: matches and fields as type-length-value entries.

use super::buf::{Put, Reader};
use super::field_order::for_each_matched;
use crate::action::SetTlv;
use crate::error::OfError;
use crate::version::Version;
use flow::field::{Maskable, Prereq};
use flow::tlv::{FIELD_BYTES_MAX, TlvMatchError};
use flow::{FieldId, Match, Subfield};

const HAS_MASK: u64 = 1 << 8;
/// `NXM_NX_COOKIE`, allowed in the match of Nicira's flow mods and flow statistics requests.
const COOKIE: u64 = 0x0001_3c08;
const MASKED_COOKIE: u64 = 0x0001_3d10;

/// Cookie and mask found in a match.
pub(crate) type Cookie = Option<(u64, u64)>;

/// The kind of message part that contains an entry. It determines the errors that are reported.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryContext {
    Match,
    Action,
}

pub(crate) struct Header {
    bits: u64,
    /// The field; `None`: the cookie.
    pub field: Option<FieldId>,
}

impl Header {
    pub fn masked(&self) -> bool {
        self.bits & HAS_MASK != 0
    }

    /// Number of bytes that follow the header.
    fn payload_len(&self) -> usize {
        let vendor = if self.bits >> 32 != 0 { 4 } else { 0 };
        ((self.bits & 0xff) as usize).saturating_sub(vendor)
    }
}

/// The 64-bit header: the first 32 bits, and the vendor that follows them if the class is that of
/// experimenters.
fn header_with_vendor(bits: u32, r: &mut Reader) -> Result<u64, OfError> {
    let vendor = if bits >> 16 == 0xffff { r.u32()? } else { 0 };
    Ok(u64::from(vendor) << 32 | u64::from(bits))
}

/// Decodes a header. For an unknown field the reader is past the header, and the error contains the length of the
/// payload: `Err(_, Some(length))`.
fn header_or_len(
    r: &mut Reader,
    cookie: bool,
    context: EntryContext,
) -> Result<Header, (OfError, Option<usize>)> {
    let (unknown, bad_len) = match context {
        EntryContext::Match => (OfError::BmcBadField, OfError::BmcBadField),
        EntryContext::Action => (OfError::BacBadSetType, OfError::BacBadSetLen),
    };
    let short = |_| (OfError::BmcBadLen, None);
    let first = r.u32().map_err(short)?;
    let bits = header_with_vendor(first, r).map_err(short)?;
    let exact = if bits & HAS_MASK == 0 { bits } else { bits & !(HAS_MASK | 0xff) | half_len(bits) };
    if cookie && exact == COOKIE {
        return Ok(Header { bits, field: None });
    }
    let least = if bits >> 32 != 0 { 4 } else { 0 };
    if bits & 0xff < least {
        return Err((OfError::BmcBadLen, None));
    }
    let header = Header { bits, field: None };
    let field = FieldId::from_nxm_header(bits).ok_or((unknown, Some(header.payload_len())))?;
    let fits = match field.tlv_index() {
        Some(_) => exact & 0xff <= FIELD_BYTES_MAX as u64,
        None => field.info().headers.iter().any(|h| h.bits == exact),
    };
    // Value and mask have the same length, so the sum of their lengths is even.
    let is_odd = bits & HAS_MASK != 0 && (bits & 0xff) % 2 != 0;
    if !fits || is_odd {
        return Err((bad_len, Some(header.payload_len())));
    }
    Ok(Header { bits, field: Some(field) })
}

/// The length in the header of an entry without a mask, computed from the header of the same entry with a mask.
fn half_len(bits: u64) -> u64 {
    let vendor = if bits >> 32 != 0 { 4 } else { 0 };
    ((bits & 0xff).saturating_sub(vendor)) / 2 + vendor
}

/// The complete field of a header, with the length in the header.
fn whole(field: FieldId, len: u64) -> Subfield {
    let n_bytes = if field.tlv_index().is_some() { len as u8 } else { field.info().n_bytes };
    Subfield { n_bytes, ..Subfield::whole(field) }
}

/// Decodes a header without a value, in an action; it must not have the mask bit.
pub(crate) fn field_header(r: &mut Reader) -> Result<Subfield, OfError> {
    let h = header_or_len(r, false, EntryContext::Match).map_err(|e| e.0)?;
    if h.masked() {
        return Err(OfError::BmcBadMask);
    }
    h.field.map(|f| whole(f, h.bits & 0xff)).ok_or(OfError::BmcBadField)
}

/// The field of a 32-bit header inside a fixed structure; its mask bit is ignored.
pub(crate) fn field_of_u32(bits: u32) -> Result<Subfield, OfError> {
    if bits >> 16 == 0xffff {
        return Err(OfError::BacBadSetType);
    }
    let field = FieldId::from_nxm_header(u64::from(bits)).ok_or(OfError::BacBadSetType)?;
    let len = len_without_mask(u64::from(bits));
    let known = match field.tlv_index() {
        Some(_) => len <= FIELD_BYTES_MAX as u64,
        None => field.info().headers.iter().any(|h| h.bits & 0xff == len),
    };
    if known { Ok(whole(field, len)) } else { Err(OfError::BacBadSetType) }
}

fn len_without_mask(bits: u64) -> u64 {
    if bits & HAS_MASK != 0 { half_len(bits) } else { bits & 0xff }
}

fn payload(h: &Header, n_bytes: usize, r: &mut Reader) -> Result<(u128, u128), OfError> {
    let short = |_| OfError::BmcBadLen;
    let value = r.number(n_bytes).map_err(short)?;
    if !h.masked() {
        return Ok((value, u128::MAX));
    }
    let mask = r.number(n_bytes).map_err(short)?;
    if value & !mask != 0 {
        return Err(OfError::BmcBadWildcards);
    }
    Ok((value, mask))
}

/// The value and mask of a field of tunnel options, with the header's length.
fn payload_bytes(h: &Header, r: &mut Reader) -> Result<(Vec<u8>, Option<Vec<u8>>), OfError> {
    let short = |_| OfError::BmcBadLen;
    if !h.masked() {
        return Ok((r.take(h.payload_len()).map_err(short)?.to_vec(), None));
    }
    let n_bytes = h.payload_len() / 2;
    let value = r.take(n_bytes).map_err(short)?.to_vec();
    let mask = r.take(h.payload_len() - n_bytes).map_err(short)?[..n_bytes].to_vec();
    if value.iter().zip(&mask).any(|(v, m)| v & !m != 0) {
        return Err(OfError::BmcBadWildcards);
    }
    Ok((value, Some(mask)))
}

/// A value that an action writes.
pub(crate) enum Entry {
    /// Field, value, mask (all ones if not given).
    Number(FieldId, u128, u128),
    /// A field of tunnel options.
    Tlv(SetTlv),
}

/// Decodes an entry in an action.
pub(crate) fn entry(r: &mut Reader, may_mask: bool) -> Result<Entry, OfError> {
    let h = header_or_len(r, false, EntryContext::Action).map_err(|e| e.0)?;
    let field = h.field.ok_or(OfError::BacBadSetType)?;
    let entry = match field.tlv_index() {
        Some(_) => {
            let (value, mask) = payload_bytes(&h, r)?;
            Entry::Tlv(SetTlv { field: whole(field, value.len() as u64), value, mask })
        }
        None => {
            let (value, mask) = payload(&h, usize::from(field.info().n_bytes), r)?;
            Entry::Number(field, value, if h.masked() { mask & field.ones() } else { field.ones() })
        }
    };
    if h.masked() && !may_mask { Err(OfError::BmcBadMask) } else { Ok(entry) }
}

/// Decodes an entry in an action as a number; a field of tunnel options must be at most 16 bytes wide.
pub(crate) fn number_entry(r: &mut Reader, may_mask: bool) -> Result<(FieldId, u128, u128), OfError> {
    match entry(r, may_mask)? {
        Entry::Number(field, value, mask) => Ok((field, value, mask)),
        Entry::Tlv(t) if t.value.len() > 16 => Err(OfError::BacBadSetLen),
        Entry::Tlv(t) => {
            let number = |bytes: &[u8]| bytes.iter().fold(0, |v, b| v << 8 | u128::from(*b));
            Ok((t.field.field, number(&t.value), t.mask.as_deref().map_or(u128::MAX, number)))
        }
    }
}

/// Decodes the entries of a match, `bytes` without padding, into `m`, which must match all packets before the call. (A
/// match is large, so it is not returned by value.) Without `strict`, unknown fields and missing prerequisites
/// are accepted, as necessary for the metadata of a packet-in.
pub(crate) fn decode(
    bytes: &[u8],
    allow_cookie: bool,
    strict: bool,
    m: &mut Match,
) -> Result<Cookie, OfError> {
    let mut r = Reader::new(bytes, OfError::BmcBadLen);
    let mut cookie = None;
    while !r.is_empty() {
        let h = match header_or_len(&mut r, allow_cookie, EntryContext::Match) {
            Ok(h) => h,
            // If the entry of an unknown field is truncated, report the truncation and not the unknown field.
            Err((OfError::BmcBadField, Some(len))) => {
                r.skip(len)?;
                if strict {
                    return Err(OfError::BmcBadField);
                }
                continue;
            }
            Err((e, _)) => return Err(e),
        };
        let Some(field) = h.field else {
            let (value, mask) = payload(&h, 8, &mut r)?;
            if cookie.replace((value as u64, mask as u64)).is_some() {
                return Err(OfError::BmcDupField);
            }
            continue;
        };
        if let Some(index) = field.tlv_index() {
            let (value, mask) = payload_bytes(&h, &mut r)?;
            m.allocate_tlv(index, &value, mask.as_deref()).map_err(|e| match e {
                TlvMatchError::AlreadyMatched(_) => OfError::BmcDupField,
                TlvMatchError::Space { .. } => OfError::BmcBadValue,
            })?;
            continue;
        }
        let (value, mask) = payload(&h, usize::from(field.info().n_bytes), &mut r)?;
        add(m, field, value, mask, strict)?;
    }
    Ok(cookie)
}

fn add(m: &mut Match, field: FieldId, value: u128, mask: u128, strict: bool) -> Result<(), OfError> {
    let mask = if mask == u128::MAX { field.ones() } else { mask };
    let width = u32::from(field.info().n_bytes) * 8;
    let full = if width >= 128 { u128::MAX } else { (1 << width) - 1 };
    let whole = mask & full == full || mask & field.ones() == field.ones();
    if field.info().maskable == Maskable::Whole && !whole && mask != 0 {
        return Err(OfError::BmcBadMask);
    }
    if !field.is_value_valid(value) {
        return Err(OfError::BmcBadValue);
    }
    if strict && !field.prereqs_ok_match(m) {
        return Err(OfError::BmcBadPrereq);
    }
    if !field.is_all_zero(&m.mask) {
        return Err(OfError::BmcDupField);
    }
    if mask & field.ones() != 0 {
        m.set_masked(field, value, mask & field.ones());
    }
    if field.info().prereq != Prereq::None {
        need_ethernet(m);
    }
    Ok(())
}

/// Restricts the match to Ethernet packets, unless it matches the packet type. Only for matches that have packet fields.
pub(crate) fn need_ethernet(m: &mut Match) {
    if m.mask.packet_type == 0 {
        m.set(FieldId::PacketType, 0);
    }
}

/// Decodes a match with type, length and padding (`struct ofp_match` of 1.2 and later).
pub(crate) fn pull_oxm(r: &mut Reader, strict: bool, m: &mut Match) -> Result<(), OfError> {
    let mut head = *r;
    let short = |_| OfError::BmcBadLen;
    let (kind, len) = (head.u16().map_err(short)?, usize::from(head.u16().map_err(short)?));
    if len < 4 {
        return Err(OfError::BmcBadLen);
    }
    if kind != 1 {
        return Err(OfError::BmcBadType);
    }
    let bytes = r.take(len.next_multiple_of(8)).map_err(short)?;
    decode(bytes.get(4..len).ok_or(OfError::BmcBadLen)?, false, strict, m).map(drop)
}

/// Decodes a match in Nicira's form: `len` bytes and padding.
pub(crate) fn pull_nxm(r: &mut Reader, len: usize, cookie: bool, m: &mut Match) -> Result<Cookie, OfError> {
    let bytes = r.take(len.next_multiple_of(8)).map_err(|_| OfError::BmcBadLen)?;
    decode(bytes.get(..len).ok_or(OfError::BmcBadLen)?, cookie, true, m)
}

/// The bits of the header of a field, including the length.
fn header_bits(sf: Subfield, version: u8) -> Option<u64> {
    let bits = sf.field.nxm_header(version)?.bits;
    Some(if sf.field.tlv_index().is_some() { bits & !0xff | u64::from(sf.n_bytes) } else { bits })
}

/// Encodes the header of a field in a version (0 is NXM). Writes nothing for a field that has no header in
/// the version.
pub(crate) fn put_header(out: &mut Vec<u8>, sf: Subfield, version: u8, masked: bool) {
    let Some(mut bits) = header_bits(sf, version) else { return };
    let vendor = bits >> 32;
    if masked {
        bits = bits & !0xff | HAS_MASK | ((bits & 0xff) + u64::from(sf.n_bytes));
    }
    out.u32(bits as u32);
    if vendor != 0 {
        out.u32(vendor as u32);
    }
}

/// The 32-bit NXM header of a field, if the field has such a header.
pub(crate) fn u32_header(sf: Subfield) -> Option<u32> {
    header_bits(sf, 0).and_then(|bits| u32::try_from(bits).ok())
}

pub(crate) fn put_entry(out: &mut Vec<u8>, field: FieldId, version: u8, value: u128, mask: u128) {
    let n = usize::from(field.info().n_bytes);
    let masked = mask & field.ones() != field.ones();
    put_header(out, Subfield::whole(field), version, masked);
    out.number(value, n);
    if masked {
        out.number(mask, n);
    }
}

/// Encodes the entry of a field of tunnel options.
pub(crate) fn put_tlv(out: &mut Vec<u8>, field: FieldId, version: u8, value: &[u8], mask: Option<&[u8]>) {
    put_header(out, whole(field, value.len() as u64), version, mask.is_some());
    out.bytes(value).bytes(mask.unwrap_or_default());
}

/// Encodes the entries of a match without padding; `version` 0 is NXM.
pub(crate) fn put_raw(out: &mut Vec<u8>, m: &Match, version: u8, cookie: (u64, u64)) {
    let start = out.len();
    let (packet_type, type_mask) = m.get(FieldId::PacketType);
    let ethernet = type_mask == FieldId::PacketType.ones() && packet_type == 0;
    if type_mask != 0 && !ethernet {
        put_entry(out, FieldId::PacketType, version, packet_type, type_mask);
    }
    let mut implied = false;
    for_each_matched(m, version, |field| {
        implied |= field.info().prereq != Prereq::None;
        put_matched(out, m, field, version);
    });
    if cookie.1 != 0 {
        let masked = cookie.1 != u64::MAX;
        out.u32(if masked { MASKED_COOKIE } else { COOKIE } as u32);
        out.u64(cookie.0 & cookie.1);
        if masked {
            out.u64(cookie.1);
        }
    }
    if ethernet && !implied {
        let mut first = Vec::new();
        put_entry(&mut first, FieldId::PacketType, version, packet_type, type_mask);
        out.splice(start..start, first);
    }
}

/// Encodes the entry of a matched field.
fn put_matched(out: &mut Vec<u8>, m: &Match, field: FieldId, version: u8) {
    if let Some(t) = field.tlv_index().and_then(|index| m.tlv(index)) {
        let mask = (!t.is_exact()).then_some(&t.mask[..]);
        return put_tlv(out, field, version, &t.value, mask);
    }
    let (value, mask) = m.get(field);
    match field {
        // As in Open vSwitch, an entry of `ip_frag` whose mask has both bits of the field is encoded without a mask, while the entry
        // of tunnel flags always has a mask, although both fields use only some bits of their bytes.
        FieldId::IpFrag if mask & 3 == 3 => put_entry(out, field, version, value & 3, field.ones()),
        FieldId::IpFrag => {
            put_header(out, Subfield::whole(field), version, true);
            out.u8(value as u8 & 3).u8(mask as u8 & 3);
        }
        FieldId::TunFlags => {
            put_header(out, Subfield::whole(field), version, true);
            out.u16(value as u16).u16(mask as u16);
        }
        _ if field.info().maskable == Maskable::Whole => put_entry(out, field, version, value, field.ones()),
        _ => put_entry(out, field, version, value, mask),
    }
}

/// Encodes a match in Nicira's form with padding; returns its length without padding.
pub(crate) fn put_nxm(out: &mut Vec<u8>, m: &Match, cookie: (u64, u64)) -> u16 {
    let start = out.len();
    put_raw(out, m, 0, cookie);
    let len = out.len() - start;
    out.pad8(start);
    len as u16
}

/// Encodes a match of 1.2 and later with its header and padding.
pub(crate) fn put_oxm(out: &mut Vec<u8>, m: &Match, version: Version) {
    let start = out.len();
    out.u16(1).u16(0);
    put_raw(out, m, version.wire(), (0, 0));
    let len = out.len() - start;
    out.set16(start + 2, len as u16);
    out.pad8(start);
}
