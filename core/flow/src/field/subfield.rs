//! Subfields: a range of bits of a field, such as `NXM_NX_REG0[0..15]`.

use super::bits::low_bits;
use super::table::FieldId;
use crate::flow::Flow;
use std::fmt;
use thiserror::Error;

/// `n_bits` bits of a field, from bit `ofs` upwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subfield {
    /// The field.
    pub field: FieldId,
    /// Lowest bit.
    pub ofs: u16,
    /// Number of bits.
    pub n_bits: u16,
    /// Size of the complete field on the wire in bytes. For a field of tunnel options the controller configures it.
    pub n_bytes: u8,
}

/// Why a text is not a subfield. Scripts compare the error texts.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum SubfieldError {
    #[error("{text}: unknown field `{name}'")]
    Unknown { text: String, name: String },
    #[error("{text}: syntax error expecting [] or [<bit>] or [<start>..<end>]")]
    Syntax { text: String },
    #[error("{text}: starting bit {start} is after ending bit {end}")]
    Order { text: String, start: i64, end: i64 },
    #[error("{text}: starting bit {start} is not valid because field is only {n_bits} bits wide")]
    Start { text: String, start: i64, n_bits: u16 },
    #[error("{text}: ending bit {end} is not valid because field is only {n_bits} bits wide")]
    End { text: String, end: i64, n_bits: u16 },
    #[error("unexpected input following field syntax")]
    Trailing,
}

/// The low 128 bits of a number, which is given in wire order.
fn number(bytes: &[u8]) -> u128 {
    let low = bytes.last_chunk().copied().unwrap_or_else(|| {
        let mut all = [0; 16];
        all[16 - bytes.len()..].copy_from_slice(bytes);
        all
    });
    u128::from_be_bytes(low)
}

/// First and last bit between brackets (`[]`: none, `[3]`: both are 3, `[0..3]`), and the rest of the text.
fn brackets(s: &str) -> Option<(Option<(i64, i64)>, &str)> {
    let (inside, rest) = s.strip_prefix('[')?.split_once(']')?;
    if inside.is_empty() {
        return Some((None, rest));
    }
    let (start, end) = match inside.split_once("..") {
        Some((a, b)) => (a, b),
        None => (inside, inside),
    };
    let number = |s: &str| s.trim_start().parse::<i64>().ok();
    Some((Some((number(start)?, number(end)?)), rest))
}

impl Subfield {
    /// The subfield with all bits of a field.
    pub fn whole(field: FieldId) -> Subfield {
        let info = field.info();
        Subfield { field, ofs: 0, n_bits: info.n_bits, n_bytes: info.n_bytes }
    }

    /// Bits `ofs..ofs + n_bits`; `None` if the field does not have these bits, or if `n_bits` is 0.
    pub fn new(field: FieldId, ofs: u16, n_bits: u16) -> Option<Subfield> {
        Subfield::whole(field).part(ofs, n_bits)
    }

    /// Bits `ofs..ofs + n_bits` of the field, as a subfield with the same wire size; `None` if the field does not have these
    /// bits, or if `n_bits` is 0.
    pub fn part(self, ofs: u16, n_bits: u16) -> Option<Subfield> {
        let end = ofs.checked_add(n_bits)?;
        (n_bits > 0 && end <= self.field.info().n_bits).then_some(Subfield { ofs, n_bits, ..self })
    }

    /// Splits the subfield into parts of at most 128 bits, the lowest first.
    pub fn parts(self) -> impl Iterator<Item = Subfield> {
        (0..self.n_bits.div_ceil(128)).map(move |i| Subfield {
            ofs: self.ofs + 128 * i,
            n_bits: (self.n_bits - 128 * i).min(128),
            ..self
        })
    }

    /// The value of the subfield with all bits set.
    pub fn ones(self) -> u128 {
        low_bits(u32::from(self.n_bits))
    }

    /// The bits of the subfield as a mask of the field's value.
    pub fn field_mask(self) -> u128 {
        self.ones().checked_shl(self.ofs.into()).unwrap_or(0)
    }

    /// The value in a flow; only the low 128 bits of a wider subfield (see [`Subfield::parts`]).
    pub fn get(self, flow: &Flow) -> u128 {
        if let Some(index) = self.field.tlv_index() {
            return flow.tlv_bits(index, self.ofs.into(), self.n_bits.into());
        }
        self.field.get(flow) >> self.ofs & self.ones()
    }

    /// Writes the value into a flow.
    pub fn set(self, flow: &mut Flow, value: u128) {
        if let Some(index) = self.field.tlv_index() {
            return flow.set_tlv_bits(index, self.ofs.into(), self.n_bits.into(), value);
        }
        self.field.set_masked(flow, value << self.ofs, self.field_mask());
    }

    /// The value in a flow as bytes, the most significant first; the subfield may have any width.
    pub fn bytes(self, flow: &Flow) -> Vec<u8> {
        if self.n_bits <= 128 {
            let unused = 16 - usize::from(self.n_bits.div_ceil(8));
            return self.get(flow).to_be_bytes()[unused..].to_vec();
        }
        let of_part = |p: Subfield| {
            let bytes = p.get(flow).to_le_bytes();
            bytes.into_iter().take(usize::from(p.n_bits.div_ceil(8)))
        };
        let mut out: Vec<u8> = self.parts().flat_map(of_part).collect();
        out.reverse();
        out
    }

    /// Writes a value, given as bytes, into a flow; only the low bits of a value that is too long.
    pub fn set_bytes(self, flow: &mut Flow, value: &[u8]) {
        if self.n_bits <= 128 {
            return self.set(flow, number(value));
        }
        let mut chunks = value.rchunks(16);
        for part in self.parts() {
            let bytes = chunks.next().unwrap_or_default();
            part.set(flow, number(bytes));
        }
    }

    /// Adds the bits of the subfield to a mask.
    pub fn unwildcard(self, mask: &mut Flow) {
        if self.field.tlv_index().is_some() {
            return self.parts().for_each(|part| part.set(mask, u128::MAX));
        }
        self.field.add_to_mask(mask, self.field_mask());
    }

    /// Parses a subfield at the front of a text. Also returns the rest of the text.
    pub fn parse_prefix(text: &str) -> Result<(Subfield, &str), SubfieldError> {
        let own = || text.to_owned();
        let name_len = text.find(['[', '-']).unwrap_or(text.len());
        let (name, rest) = text.split_at(name_len);
        let bare = name.strip_suffix("_W").filter(|n| !n.is_empty()).unwrap_or(name);
        let field = FieldId::from_nxm_name(bare)
            .or_else(|| FieldId::from_name(name))
            .ok_or_else(|| SubfieldError::Unknown { text: own(), name: name.to_owned() })?;
        let n_bits = field.info().n_bits;
        let (range, rest) = match rest.starts_with('[') {
            true => brackets(rest).ok_or_else(|| SubfieldError::Syntax { text: own() })?,
            false => (None, rest),
        };
        let (start, end) = range.unwrap_or((0, i64::from(n_bits) - 1));
        if start > end {
            return Err(SubfieldError::Order { text: own(), start, end });
        }
        if start >= i64::from(n_bits) || start < 0 {
            return Err(SubfieldError::Start { text: own(), start, n_bits });
        }
        if end >= i64::from(n_bits) {
            return Err(SubfieldError::End { text: own(), end, n_bits });
        }
        let n_bits = (end - start + 1) as u16;
        Ok((Subfield { ofs: start as u16, n_bits, ..Subfield::whole(field) }, rest))
    }

    /// Parses a text that is a subfield.
    pub fn parse(text: &str) -> Result<Subfield, SubfieldError> {
        match Subfield::parse_prefix(text)? {
            (sf, "") => Ok(sf),
            _ => Err(SubfieldError::Trailing),
        }
    }
}

impl fmt::Display for Subfield {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.field.info();
        f.write_str(self.field.nxm_header(0).map_or(info.name, |h| h.name))?;
        match (self.ofs, self.n_bits) {
            (0, n) if n == info.n_bits => f.write_str("[]"),
            (ofs, 1) => write!(f, "[{ofs}]"),
            (ofs, n) => write!(f, "[{}..{}]", ofs, ofs + (n - 1)),
        }
    }
}
