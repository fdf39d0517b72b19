//! Match fields: the table of all fields, and common code that reads and writes any field of a [`Flow`].
//!
//! Values are numbers of up to 128 bits. Fields of tunnel options may be wider: here their value is the low 128 bits, and
//! `tlv` handles all bits. An address is the number that its bytes form in wire order. A field may have fewer or more
//! bits in a `Flow` than on the wire (`ct_state`, `ipv6_label`). A mask of all ones then sets all bits of the field in the
//! `Flow`, so that equal matches are equal flows.
//!
//! **Invariant**: fields are defined only in the table; no other code has a list of all fields.

mod bits;
mod header_map;
mod info;
mod location;
mod prereq;
mod subfield;
mod table;

pub(crate) use bits::low_bits;
pub use info::{Form, Header, Maskable, Prereq, Usable};
pub use subfield::Subfield;
pub use table::{FieldId, FieldInfo};

use crate::flow::{Flow, VLAN_CFI};
use crate::tlv::{FIELD_BYTES_MAX, FIELDS, TlvValue};
use header_map::HeaderMap;
use location::FieldLocation;
use std::collections::HashMap;
use std::sync::LazyLock;
use units::OfPort;

/// The value of `dl_vlan` that means "no tag".
pub(crate) const VLAN_NONE: u128 = 0xffff;

impl FieldId {
    /// All fields, in the order of the table.
    pub fn all() -> impl ExactSizeIterator<Item = FieldId> {
        table::FIELDS.iter().map(|f| f.id)
    }

    /// The row of the field in the table.
    pub fn info(self) -> &'static FieldInfo {
        &table::FIELDS[self as usize]
    }

    /// `reg<n>`
    pub fn reg(n: usize) -> Option<FieldId> {
        FieldId::numbered(FieldId::Reg0, n, 32)
    }

    /// `tun_metadata<n>`
    pub fn tun_metadata(n: usize) -> Option<FieldId> {
        FieldId::numbered(FieldId::TunMetadata0, n, FIELDS)
    }

    /// The index of a field of tunnel options; `None` for other fields.
    pub fn tlv_index(self) -> Option<usize> {
        (self as usize).checked_sub(FieldId::TunMetadata0 as usize).filter(|i| *i < FIELDS)
    }

    fn numbered(first: FieldId, n: usize, count: usize) -> Option<FieldId> {
        (n < count).then(|| table::FIELDS[first as usize + n].id)
    }

    /// Returns whether this is a field of a tunnel's outer header or of its options.
    pub fn is_tunnel(self) -> bool {
        (FieldId::TunId..=FieldId::TunMetadata63).contains(&self)
    }

    /// The index of the field in the table, for sets of fields.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The field with this name in text.
    pub fn from_name(name: &str) -> Option<FieldId> {
        static NAMED: LazyLock<HashMap<&str, FieldId>> = LazyLock::new(|| {
            let of = |f: &'static FieldInfo| [(f.name, f.id), (f.extra_name, f.id)];
            table::FIELDS.iter().flat_map(of).filter(|(name, _)| !name.is_empty()).collect()
        });
        NAMED.get(name).copied()
    }

    /// The field that an NXM or OXM header denotes. The has-mask bit and the length, which is doubled if there is a mask, are
    /// ignored.
    pub fn from_nxm_header(header: u64) -> Option<FieldId> {
        static HEADERS: LazyLock<HeaderMap> = LazyLock::new(|| HeaderMap::of(&table::FIELDS));
        HEADERS.get(header)
    }

    /// The field with this header name, as in `NXM_OF_IN_PORT`.
    pub fn from_nxm_name(name: &str) -> Option<FieldId> {
        table::FIELDS.iter().find(|f| f.headers.iter().any(|h| h.name == name)).map(|f| f.id)
    }

    /// The header of the field for this OpenFlow version; version 0 prefers NXM. `None` if the field has no header.
    pub fn nxm_header(self, of_version: u8) -> Option<&'static Header> {
        let headers = self.info().headers;
        headers.iter().rfind(|h| of_version >= h.of_version).or(headers.first())
    }

    /// Where a [`Flow`] contains the field.
    fn location(self) -> &'static FieldLocation {
        &table::LOCATIONS[self as usize]
    }

    /// The value in a flow. It has a meaning only if the prerequisites of the field are met.
    pub fn get(self, flow: &Flow) -> u128 {
        if let Some(index) = self.tlv_index() {
            return flow.tlv_bits(index, 0, 128);
        }
        let value = self.location().get(flow);
        match self {
            FieldId::InPortOxm | FieldId::ActsetOutput => u128::from(OfPort(value as u16).to_u32()),
            _ => value,
        }
    }

    /// Writes the value into a flow.
    pub fn set(self, flow: &mut Flow, value: u128) {
        self.set_without_tpid(flow, value);
        let tag = &mut flow.vlans[0];
        if tag.tpid == 0 && tag.tci != 0 {
            tag.tpid = 0x8100;
        }
    }

    /// Writes the value like `set`, but without setting the TPID of a VLAN tag; for the values of a match.
    pub(crate) fn set_without_tpid(self, flow: &mut Flow, value: u128) {
        if let Some(index) = self.tlv_index() {
            return flow.set_tlv(index, &value.to_be_bytes());
        }
        match self {
            FieldId::InPortOxm | FieldId::ActsetOutput => {
                if let Some(port) = u32::try_from(value).ok().and_then(OfPort::from_u32) {
                    self.location().set(flow, u128::from(port.0));
                }
            }
            FieldId::DlVlan if value == VLAN_NONE => flow.vlans[0].tci = 0,
            _ => self.location().set(flow, value),
        }
        let tag = matches!(self, FieldId::DlVlanPcp | FieldId::VlanPcp)
            || self == FieldId::DlVlan && value != VLAN_NONE;
        if tag {
            flow.vlans[0].tci |= VLAN_CFI;
        }
    }

    /// Returns whether the field is a part of the VLAN tag. A write to such a field may change other bits of the tag.
    const fn is_of_tag(self) -> bool {
        use FieldId::*;
        matches!(self, VlanTci | DlVlan | DlVlanPcp | VlanVid | VlanPcp)
    }

    /// Returns whether the flow contains the field's value unchanged, and a write has no other effect.
    const fn is_plain(self) -> bool {
        !self.is_of_tag() && !matches!(self, FieldId::InPortOxm | FieldId::ActsetOutput)
    }

    /// The words of a flow that a write to the field may change, as a bit set. `None` for parts of the VLAN tag, because a write
    /// has other effects, and for fields of tunnel options, because their location depends on the layout.
    pub fn words(self) -> Option<u128> {
        (!self.is_of_tag() && self.tlv_index().is_none()).then(|| self.location().words())
    }

    /// The words of a flow that may contain the field; all words for a field of tunnel options.
    pub(crate) fn possible_words(self) -> u128 {
        if self.tlv_index().is_some() { u128::MAX } else { self.location().words() }
    }

    /// Writes the bits of the value that are set in `mask`.
    #[inline]
    pub fn set_masked(self, flow: &mut Flow, value: u128, mask: u128) {
        let location = self.location();
        if location.is_plain() {
            return location.set_masked(flow, value, mask);
        }
        self.set_masked_general(flow, value, mask);
    }

    /// [`set_masked`](Self::set_masked) for fields that are not plain.
    fn set_masked_general(self, flow: &mut Flow, value: u128, mask: u128) {
        if let Some(index) = self.tlv_index() {
            let old = flow.tlv_bits(index, 0, 128);
            return flow.set_tlv_bits(index, 0, 128, old & !mask | value & mask);
        }
        let old = self.get(flow);
        self.set(flow, old & !mask | value & mask);
    }

    /// The field's bits in a mask, as a mask of the field's value.
    pub fn mask_of(self, mask: &Flow) -> u128 {
        if let Some(index) = self.tlv_index() {
            return mask.tlv_bits(index, 0, 128);
        }
        let bits = self.location().get(mask);
        match self {
            // A flow has only eight of the bits, so all ones in the flow are not all ones of the field.
            FieldId::CtState => bits,
            _ if bits == self.location().ones() => self.ones(),
            _ => bits & self.ones(),
        }
    }

    /// Writes the field's bits into a mask. All ones set all bits of the field in the `Flow`, even if it has more or fewer
    /// bits there.
    pub fn set_mask(self, mask: &mut Flow, bits: u128) {
        if let Some(index) = self.tlv_index() {
            return match bits {
                0 => mask.delete_tlv(index),
                u128::MAX => mask.set_tlv(index, &TlvValue::ones(FIELD_BYTES_MAX)),
                bits => mask.set_tlv(index, &bits.to_be_bytes()),
            };
        }
        let ones = self.ones();
        let fill = if bits & ones == ones { self.location().ones() } else { bits };
        self.location().set(mask, fill);
        let tag = matches!(self, FieldId::DlVlanPcp | FieldId::VlanPcp | FieldId::DlVlan);
        if tag && bits != 0 {
            mask.vlans[0].tci |= VLAN_CFI;
        }
    }

    /// Adds bits to a mask, as `set_mask` writes them.
    #[inline]
    pub fn add_to_mask(self, mask: &mut Flow, bits: u128) {
        let location = self.location();
        if location.is_plain() {
            return location.set_masked(mask, u128::MAX, bits);
        }
        self.add_to_mask_general(mask, bits);
    }

    /// [`add_to_mask`](Self::add_to_mask) for fields that are not plain.
    fn add_to_mask_general(self, mask: &mut Flow, bits: u128) {
        let all = self.mask_of(mask) | bits;
        self.set_mask(mask, all);
    }

    /// The mask of all bits of the field, in text and on the wire.
    pub fn ones(self) -> u128 {
        match self {
            FieldId::VlanVid => 0x1fff,
            FieldId::IpDscp => 0xfc,
            _ => low_bits(u32::from(self.info().n_bits)),
        }
    }

    /// Returns whether the mask has no bit of the field.
    pub fn is_all_zero(self, mask: &Flow) -> bool {
        if let Some(index) = self.tlv_index() {
            return !mask.has_tlv(index);
        }
        self.location().get(mask) == 0
    }

    /// Adds all bits of the field to a mask.
    pub fn unwildcard(self, mask: &mut Flow) {
        self.set_mask(mask, u128::MAX);
    }

    /// Returns whether a match may contain the value: it has no bits that the field does not have.
    pub fn is_value_valid(self, value: u128) -> bool {
        match self {
            FieldId::InPortOxm | FieldId::ActsetOutput => {
                u32::try_from(value).ok().and_then(OfPort::from_u32).is_some()
            }
            FieldId::ArpOp | FieldId::CtState => value & !0xff == 0,
            _ if self.checks_bits() => value & !self.ones() == 0,
            _ => value & !low_bits(8 * u32::from(self.info().n_bytes)) == 0,
        }
    }

    /// Returns whether unused bits of the wire form must be zero. They are not checked for the ERSPAN fields.
    fn checks_bits(self) -> bool {
        !matches!(
            self,
            FieldId::TunErspanIdx | FieldId::TunErspanVer | FieldId::TunErspanDir | FieldId::TunErspanHwid
        )
    }
}

#[cfg(test)]
mod tests;
