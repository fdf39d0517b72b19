//! Encodes Nicira's actions.

use super::learn;
use super::subfield::to_ofs_nbits;
use crate::action::*;
use crate::error::NX_VENDOR;
use crate::version::Version;
use crate::wire::buf::Put;
use crate::wire::{nxm, property};
use flow::{FieldId, Subfield};
use units::OfPort;

/// Function that encodes the actions within an action.
pub(super) type WriteNested<'a> = &'a dyn Fn(&mut Vec<u8>, &[Action]);

/// Encodes an action: Nicira's header, the bytes that `body` writes, padding.
fn action(out: &mut Vec<u8>, subtype: u16, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.u16(0xffff).u16(0).u32(NX_VENDOR).u16(subtype);
    body(out);
    if out.len() - start < 16 {
        let missing = 16 - (out.len() - start);
        out.zeros(missing);
    }
    out.pad8(start);
    let len = out.len() - start;
    out.set16(start + 2, len as u16);
}

/// Encodes an action in Nicira's form. Writes nothing for an action that has no form in this version.
pub(super) fn put(out: &mut Vec<u8>, a: &Action, version: Version, nested: WriteNested) {
    let word = |o: &mut Vec<u8>, v: u32| {
        o.zeros(2).u32(v);
    };
    match a {
        Action::OutputReg { src, max_len } => output_reg(out, *src, *max_len),
        Action::OutputTrunc { port, max_len } => action(out, 39, |o| {
            o.u16(port.0).u32(*max_len);
        }),
        Action::Controller(c) => controller(out, c),
        Action::Group(id) => action(out, 40, |o| word(o, *id)),
        Action::Bundle(b) => bundle(out, b),
        Action::RegLoad { dst, value } => reg_load(out, *dst, *value),
        Action::RegMove { src, dst } => action(out, 6, |o| {
            o.u16(dst.n_bits).u16(src.ofs).u16(dst.ofs);
            nxm::put_header(o, *src, 0, false);
            nxm::put_header(o, *dst, 0, false);
        }),
        Action::StackPush(sf) => action(out, 27, |o| stack(o, *sf)),
        Action::StackPop(sf) => action(out, 28, |o| stack(o, *sf)),
        Action::DecTtl { ids, .. } if ids[..] == [0] && version == Version::V10 => action(out, 18, |_| ()),
        Action::DecTtl { ids, .. } => action(out, 21, |o| {
            o.u16(ids.len() as u16).zeros(4);
            ids.iter().for_each(|&id| {
                o.u16(id);
            });
        }),
        Action::SetMplsLabel(label) => action(out, 30, |o| word(o, *label)),
        Action::SetMplsTc(tc) => action(out, 31, |o| {
            o.u8(*tc);
        }),
        Action::SetMplsTtl(ttl) => action(out, 25, |o| {
            o.u8(*ttl);
        }),
        Action::DecMplsTtl => action(out, 26, |_| ()),
        Action::PushMpls(t) => action(out, 23, |o| {
            o.u16(*t);
        }),
        Action::PopMpls(t) => action(out, 24, |o| {
            o.u16(*t);
        }),
        Action::DeleteField(field) => action(out, 50, |o| {
            nxm::put_header(o, *field, 0, false);
            pad_field(o, *field, 14);
        }),
        Action::Encap(e) => encap(out, e),
        Action::Decap { packet_type } => action(out, 47, |o| word(o, *packet_type)),
        Action::DecNshTtl => action(out, 48, |_| ()),
        Action::SetTunnel { id, wide } if !*wide && *id <= u64::from(u32::MAX) => {
            action(out, 2, |o| word(o, *id as u32));
        }
        Action::SetTunnel { id, .. } => action(out, 9, |o| {
            o.zeros(6).u64(*id);
        }),
        Action::SetQueue(queue) => action(out, 4, |o| word(o, *queue)),
        Action::PopQueue => action(out, 5, |_| ()),
        Action::FinTimeout { idle, hard } => action(out, 19, |o| {
            o.u16(*idle).u16(*hard);
        }),
        Action::Resubmit { port, table, with_ct } => resubmit(out, *port, *table, *with_ct),
        // 1.0 has no instructions, so encode goto-table as a resubmit.
        Action::GotoTable(table) if version == Version::V10 => resubmit(out, None, Some(*table), false),
        Action::Learn(l) => {
            action(out, if learn::needs_learn2(l) { 45 } else { 16 }, |o| learn::encode(o, l))
        }
        Action::Conjunction { id, clause, n_clauses } => action(out, 34, |o| {
            o.u8(*clause).u8(*n_clauses).u32(*id);
        }),
        Action::Multipath(m) => action(out, 10, |o| {
            o.u16(m.fields as u16)
                .u16(m.basis)
                .zeros(2)
                .u16(m.algorithm as u16)
                .u16(m.max_link)
                .u32(m.arg)
                .zeros(2);
            o.u16(to_ofs_nbits(m.dst)).u32(nxm::u32_header(m.dst).unwrap_or(0));
        }),
        Action::Note(data) => action(out, 8, |o| {
            o.bytes(data);
        }),
        Action::Exit => action(out, 17, |_| ()),
        Action::Sample(s) => sample(out, s),
        Action::Ct(c) => ct(out, c, nested),
        Action::Nat(n) => nat(out, n),
        Action::CtClear => action(out, 43, |_| ()),
        Action::Clone(list) => action(out, 42, |o| {
            o.zeros(6);
            nested(o, list);
        }),
        Action::CheckPktLarger { len, dst } => action(out, 49, |o| {
            o.u16(*len).u16(dst.ofs);
            nxm::put_header(o, *dst, 0, false);
            pad_field(o, *dst, 10);
        }),
        Action::DebugSlow => action(out, 254, |_| ()),
        Action::DebugRecirc => action(out, 255, |_| ()),
        Action::WriteMetadata { value, mask } => action(out, 22, |o| {
            o.zeros(6).u64(*value).u64(*mask);
        }),
        _ => {}
    }
}

/// Pads a field header to `padded_len` bytes.
fn pad_field(out: &mut Vec<u8>, sf: Subfield, padded_len: usize) {
    let used = if nxm::u32_header(sf).is_some() { 4 } else { 8 };
    out.zeros(padded_len - used);
}

/// Encodes a write to a field: as 64-bit loads, or as `load2` if the field has no 32-bit header.
pub(super) fn put_field(out: &mut Vec<u8>, field: FieldId, value: u128, mask: u128) {
    if nxm::u32_header(Subfield::whole(field)).is_none() {
        return action(out, 33, |o| {
            nxm::put_entry(o, field, 0, value, mask);
        });
    }
    let mut ofs = 0;
    while ofs < 128 && mask >> ofs != 0 {
        ofs += (mask >> ofs).trailing_zeros();
        let run = (mask >> ofs).trailing_ones().min(64);
        let part = value >> ofs & (1u128 << run).wrapping_sub(1);
        if let Some(dst) = Subfield::new(field, ofs as u16, run as u16) {
            put_reg_load(out, dst, part as u64);
        }
        ofs += run;
    }
}

/// Encodes a write to a field of tunnel options. The same form is used for all of these fields.
pub(super) fn put_tlv(out: &mut Vec<u8>, t: &SetTlv) {
    action(out, 33, |o| nxm::put_tlv(o, t.field.field, 0, &t.value, t.mask.as_deref()));
}

fn put_reg_load(out: &mut Vec<u8>, dst: Subfield, value: u64) {
    action(out, 7, |o| {
        o.u16(to_ofs_nbits(dst)).u32(nxm::u32_header(dst).unwrap_or(0)).u64(value);
    });
}

fn reg_load(out: &mut Vec<u8>, dst: Subfield, value: u128) {
    put_field(out, dst.field, value << dst.ofs, dst.field_mask());
}

fn output_reg(out: &mut Vec<u8>, src: Subfield, max_len: u16) {
    match nxm::u32_header(src) {
        Some(header) => action(out, 15, |o| {
            o.u16(to_ofs_nbits(src)).u32(header).u16(max_len).zeros(6);
        }),
        None => action(out, 32, |o| {
            o.u16(to_ofs_nbits(src)).u16(max_len);
            nxm::put_header(o, src, 0, false);
            pad_field(o, src, 10);
        }),
    }
}

fn controller(out: &mut Vec<u8>, c: &Controller) {
    if c.userdata.is_empty() && !c.pause && c.meter == 0 {
        return action(out, 20, |o| {
            o.u16(c.max_len).u16(c.controller_id).u8(c.reason).zeros(1);
        });
    }
    action(out, 37, |o| {
        o.zeros(6);
        if c.max_len != 0xffff {
            property::put_u16(o, 0, c.max_len);
        }
        if c.controller_id != 0 {
            property::put_u16(o, 1, c.controller_id);
        }
        if c.reason != 1 {
            property::put_u8(o, 2, c.reason);
        }
        if !c.userdata.is_empty() {
            property::put(o, 3, &c.userdata);
        }
        if c.pause {
            property::put(o, 4, &[]);
        }
        if c.meter != 0 {
            property::put(o, 5, &c.meter.to_be_bytes());
        }
    });
}

fn bundle(out: &mut Vec<u8>, b: &Bundle) {
    action(out, if b.dst.is_some() { 13 } else { 12 }, |o| {
        o.u16(b.algorithm as u16).u16(b.fields as u16).u16(b.basis).u32(2).u16(b.members.len() as u16);
        match b.dst {
            Some(dst) => o.u16(to_ofs_nbits(dst)).u32(nxm::u32_header(dst).unwrap_or(0)),
            None => o.zeros(6),
        };
        o.zeros(4);
        b.members.iter().for_each(|p| {
            o.u16(p.0);
        });
    });
}

fn stack(out: &mut Vec<u8>, sf: Subfield) {
    out.u16(sf.ofs);
    nxm::put_header(out, sf, 0, false);
    out.u16(sf.n_bits);
    pad_field(out, sf, 10);
}

fn resubmit(out: &mut Vec<u8>, port: Option<OfPort>, table: Option<u8>, with_ct: bool) {
    let port = port.unwrap_or(OfPort::IN_PORT);
    match (table, with_ct) {
        (None, false) => action(out, 1, |o| {
            o.u16(port.0);
        }),
        _ => action(out, if with_ct { 44 } else { 14 }, |o| {
            o.u16(port.0).u8(table.unwrap_or(0xff));
        }),
    }
}

fn sample(out: &mut Vec<u8>, s: &Sample) {
    use NumberOrField::Number;
    let subtype = match (s.obs_domain, s.obs_point) {
        (Number(_), Number(_)) if s.direction != SampleDirection::Default => 41,
        (Number(_), Number(_)) if s.sampling_port != OfPort::NONE => 38,
        (Number(_), Number(_)) => 29,
        _ => 51,
    };
    let number = |o: &mut Vec<u8>, v: NumberOrField| match (v, subtype) {
        (Number(n), 51) => {
            o.u32(0).u32(n);
        }
        (Number(n), _) => {
            o.u32(n);
        }
        (NumberOrField::Field(sf), _) => {
            o.u32(nxm::u32_header(sf).unwrap_or(0)).u16(to_ofs_nbits(sf)).zeros(2);
        }
    };
    action(out, subtype, |o| {
        o.u16(s.probability).u32(s.collector_set_id);
        number(o, s.obs_domain);
        number(o, s.obs_point);
        if subtype != 29 {
            o.u16(s.sampling_port.0).u8(s.direction as u8).zeros(5);
        }
    });
}

fn ct(out: &mut Vec<u8>, c: &Ct, nested: WriteNested) {
    action(out, 35, |o| {
        o.u16(u16::from(c.commit) | u16::from(c.force) << 1);
        match c.zone {
            NumberOrField::Number(zone) => o.u32(0).u16(zone as u16),
            NumberOrField::Field(sf) => o.u32(nxm::u32_header(sf).unwrap_or(0)).u16(to_ofs_nbits(sf)),
        };
        o.u8(c.recirc_table.unwrap_or(0xff)).zeros(3).u16(c.alg);
        nested(o, &c.actions);
    });
}

fn nat(out: &mut Vec<u8>, n: &Nat) {
    let bit = |on: bool, at: u16| if on { 1u16 << at } else { 0 };
    let flags = bit(n.src, 0) | bit(n.dst, 1) | bit(n.persistent, 2) | bit(n.hash, 3) | bit(n.random, 4);
    let (mut present, mut body) = (0, Vec::new());
    let mut part = |at: u16, bytes: &[u8]| {
        if bytes.iter().any(|&b| b != 0) {
            present |= 1 << at;
            body.extend_from_slice(bytes);
        }
    };
    match n.range {
        NatRange::None => {}
        NatRange::V4(min, max) => {
            part(0, &min.octets());
            part(1, &max.octets());
        }
        NatRange::V6(min, max) => {
            part(2, &min.octets());
            part(3, &max.octets());
        }
    }
    if n.range != NatRange::None {
        part(4, &n.ports.0.to_be_bytes());
        part(5, &n.ports.1.to_be_bytes());
    }
    action(out, 36, |o| {
        o.zeros(2).u16(flags).u16(present).bytes(&body);
    });
}

fn encap(out: &mut Vec<u8>, e: &Encap) {
    action(out, 46, |o| {
        o.u16(e.header_size).u32(e.packet_type);
        for p in &e.properties {
            let start = o.len();
            match p {
                EncapProperty::NshMdType(t) => o.u16(4).u8(1).u8(5).u8(*t),
                EncapProperty::NshTlv { class, kind, data } => o
                    .u16(4)
                    .u8(2)
                    .u8(8 + data.len().next_multiple_of(8) as u8)
                    .u16(*class)
                    .u8(*kind)
                    .u8(data.len() as u8)
                    .bytes(data),
            };
            o.pad8(start);
        }
    });
}
