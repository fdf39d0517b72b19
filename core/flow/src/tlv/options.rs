//! Options as they stand in a header, and their way to fields and back.

use super::{OPTIONS_MAX, Tlv, TlvTable};
use crate::flow::Flow;
use thiserror::Error;

/// A packet with an option of such a type must be dropped by who does not know it (RFC 8926 §3.5).
const CRITICAL: u8 = 0x80;
/// Bytes before an option's data: class, type, length in units of four bytes.
const HEADER: usize = 4;

/// One option of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlvOption<'a> {
    /// Who defines it.
    pub class: u16,
    /// Which of theirs.
    pub kind: u8,
    /// What it says.
    pub data: &'a [u8],
}

/// Options that a switch cannot take in: cut off, of another length than it was told, or critical and unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("Invalid Geneve tunnel metadata")]
pub struct OptionsError;

/// Splits the first option off.
fn split(bytes: &[u8]) -> Result<(TlvOption<'_>, &[u8]), OptionsError> {
    let (&[class_high, class_low, kind, len], rest) =
        bytes.split_first_chunk::<HEADER>().ok_or(OptionsError)?;
    let (data, rest) = rest.split_at_checked(usize::from(len & 0x1f) * 4).ok_or(OptionsError)?;
    Ok((TlvOption { class: u16::from_be_bytes([class_high, class_low]), kind, data }, rest))
}

impl Tlv {
    /// As `dpif` has them; `None`: more than a header can have.
    pub fn from_options(options: &[u8]) -> Option<Tlv> {
        let mut out = Tlv { present: options.len() as u64, ..Tlv::NONE };
        out.data.get_mut(..options.len()).filter(|_| options.len() <= OPTIONS_MAX)?.copy_from_slice(options);
        Some(out)
    }

    /// The options, of the form that `dpif` has.
    pub fn options(&self) -> &[u8] {
        let len = usize::try_from(self.present).unwrap_or(OPTIONS_MAX).min(OPTIONS_MAX);
        &self.data[..len]
    }
}

impl Flow {
    /// The options are as they stand in a header: fields cannot be read.
    pub fn has_raw_options(&self) -> bool {
        self.tlv.present != 0 && self.layout.is_empty()
    }
}

impl TlvTable {
    /// Puts the options of a `dpif` flow to their fields' places. Those of no field are left out.
    pub fn to_fields(&self, raw: &Tlv, flow: &mut Flow) -> Result<(), OptionsError> {
        (flow.tlv, flow.layout) = (Tlv::NONE, *self.layout());
        let mut rest = raw.options();
        while !rest.is_empty() {
            let (option, after) = split(rest)?;
            match self.field_of(option.class, option.kind) {
                Some((_, m)) if usize::from(m.len) != option.data.len() => return Err(OptionsError),
                Some((index, _)) => flow.set_tlv(index, option.data),
                None if option.kind & CRITICAL != 0 => return Err(OptionsError),
                None => {}
            }
            rest = after;
        }
        Ok(())
    }

    /// The options of a flow's fields, as a header has them. Fields that are mapped no more are left out.
    pub fn to_options(&self, flow: &Flow) -> Vec<u8> {
        let mut out = Vec::new();
        for (index, m) in self.iter().filter(|(i, _)| flow.has_tlv(*i)) {
            out.extend_from_slice(&m.class.to_be_bytes());
            out.extend_from_slice(&[m.kind, m.len / 4]);
            out.extend_from_slice(&super::TlvValue::of_len(&flow.tlv(index), usize::from(m.len)));
        }
        out
    }

    /// The mask of a `dpif` flow with these options, from one of fields. How many bytes there are always counts; which
    /// options they are counts if any field is looked at, as one that is absent may stand anywhere.
    pub fn to_options_mask(&self, raw: &Tlv, mask: &Flow) -> Tlv {
        let mut out = Tlv { present: u64::MAX, ..Tlv::NONE };
        if mask.tlv.present == 0 {
            return out;
        }
        let (mut at, mut rest) = (0, raw.options());
        while let Ok((option, after)) = split(rest) {
            // Three bits of the length's byte are reserved.
            out.data[at..at + HEADER].copy_from_slice(&[0xff, 0xff, 0xff, 0x1f]);
            at += HEADER;
            if let Some((index, _)) = self.field_of(option.class, option.kind) {
                let bits = super::TlvValue::of_len(&mask.tlv(index), option.data.len());
                out.data[at..at + option.data.len()].copy_from_slice(&bits);
            }
            at += option.data.len();
            rest = after;
        }
        out
    }
}
