//! Conversion between the encoded options of a header and fields.

use super::{OPTIONS_MAX, Tlv, TlvTable};
use crate::flow::Flow;
use thiserror::Error;

/// The critical bit of an option type: a packet with an unknown critical option must be dropped (RFC 8926 §3.5).
const CRITICAL: u8 = 0x80;
/// Length in bytes of an option's header: class, type, length in units of four bytes.
const HEADER: usize = 4;

/// One option of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlvOption<'a> {
    /// Option class.
    pub class: u16,
    /// Option type.
    pub kind: u8,
    /// Option data.
    pub data: &'a [u8],
}

/// The options are invalid: an option is truncated, has another length than configured, or is critical and unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("Invalid Geneve tunnel metadata")]
pub struct OptionsError;

/// Splits off the first option.
fn split(bytes: &[u8]) -> Result<(TlvOption<'_>, &[u8]), OptionsError> {
    let (&[class_high, class_low, kind, len], rest) =
        bytes.split_first_chunk::<HEADER>().ok_or(OptionsError)?;
    let (data, rest) = rest.split_at_checked(usize::from(len & 0x1f) * 4).ok_or(OptionsError)?;
    Ok((TlvOption { class: u16::from_be_bytes([class_high, class_low]), kind, data }, rest))
}

impl Tlv {
    /// Stores encoded options in raw form, as flows of `dpif` contain them. `None` if they do not fit into a header.
    pub fn from_options(options: &[u8]) -> Option<Tlv> {
        let mut out = Tlv { present: options.len() as u64, ..Tlv::NONE };
        out.data.get_mut(..options.len()).filter(|_| options.len() <= OPTIONS_MAX)?.copy_from_slice(options);
        Some(out)
    }

    /// The encoded options; they must be in raw form.
    pub fn options(&self) -> &[u8] {
        let len = usize::try_from(self.present).unwrap_or(OPTIONS_MAX).min(OPTIONS_MAX);
        &self.data[..len]
    }
}

impl Flow {
    /// Returns whether the flow has raw options, so that their fields cannot be read.
    pub fn has_raw_options(&self) -> bool {
        self.tlv.present != 0 && self.layout.is_empty()
    }
}

impl TlvTable {
    /// Converts raw options to fields of `flow`. Options without a field are ignored, unless they are critical.
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

    /// Encodes the options for the fields of a flow. Fields that are no longer mapped are left out.
    pub fn to_options(&self, flow: &Flow) -> Vec<u8> {
        let mut out = Vec::new();
        for (index, m) in self.iter().filter(|(i, _)| flow.has_tlv(*i)) {
            out.extend_from_slice(&m.class.to_be_bytes());
            out.extend_from_slice(&[m.kind, m.len / 4]);
            out.extend_from_slice(&super::TlvValue::of_len(&flow.tlv(index), usize::from(m.len)));
        }
        out
    }

    /// Converts a mask of fields to the mask of a `dpif` flow with these raw options. The total length is always matched. If any
    /// field is matched, the class, type and length of every option are matched as well: they determine the positions of the
    /// fields, and that a field is absent.
    pub fn to_options_mask(&self, raw: &Tlv, mask: &Flow) -> Tlv {
        let mut out = Tlv { present: u64::MAX, ..Tlv::NONE };
        if mask.tlv.present == 0 {
            return out;
        }
        let (mut at, mut rest) = (0, raw.options());
        while let Ok((option, after)) = split(rest) {
            // Three bits of the length byte are reserved.
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
