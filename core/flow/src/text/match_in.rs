//! Parses the items of a match: `field=value/mask`, a short protocol name, or bits of a field.

use super::numbers::parse_integer;
use super::{NameMap, NoNames, TextError, protocol};
use crate::field::{FieldId, Prereq, Subfield, Usable};
use crate::flow::Flow;
use crate::matching::Match;

impl Match {
    /// Restricts the match to Ethernet packets, unless it already matches the packet type.
    pub fn require_ethernet(&mut self) {
        if self.mask.packet_type == 0 {
            self.set(FieldId::PacketType, 0);
        }
    }

    /// Restricts the match to Ethernet packets if the field has a prerequisite.
    fn require_for(&mut self, field: FieldId) {
        if field.info().prereq != Prereq::None {
            self.require_ethernet();
        }
    }

    /// Matches a field by the value and mask in `text`; returns the protocols that can express the match. An empty text
    /// matches no bits of the field, or only the presence of a tunnel option.
    pub fn parse_field(
        &mut self,
        field: FieldId,
        text: &str,
        names: &dyn NameMap,
    ) -> Result<Usable, TextError> {
        if let Some(index) = field.tlv_index() {
            return self.parse_tlv(index, field.parse_tlv(if text.is_empty() { "0/0" } else { text })?);
        }
        let (value, mask) = field.parse_masked(if text.is_empty() { "0/0" } else { text }, names)?;
        self.set_masked(field, value, mask);
        self.require_for(field);
        Ok(usable(field, mask))
    }

    /// Allocates the slots of a field of tunnel options in the match, and matches the field.
    fn parse_tlv(
        &mut self,
        index: usize,
        (value, mask): (Vec<u8>, Option<Vec<u8>>),
    ) -> Result<Usable, TextError> {
        let allocated = self.allocate_tlv(index, &value, mask.as_deref());
        allocated.map(|()| Usable::NxmOxm).map_err(|e| TextError(e.to_string()))
    }

    /// Parses a subfield such as `reg0[0..3]=5`: adds its bits to the match on the field.
    fn parse_subfield(&mut self, name: &str, text: &str) -> Result<Usable, TextError> {
        let sf = Subfield::parse(name).map_err(|e| TextError::new(e.to_string()))?;
        let n_bytes = sf.field.info().n_bytes.min(16);
        let number = parse_integer(text, n_bytes)
            .ok_or_else(|| TextError::new(format!("{name}: cannot parse integer value: {text}")))?;
        if number & !sf.ones() != 0 {
            let value = sf.field.format(number, None, &NoNames);
            let bits = sf.n_bits;
            return Err(TextError::new(format!("{name}: value {value} does not fit into {bits} bits")));
        }
        if let Some(index) = sf.field.tlv_index() {
            let len = usize::from(sf.ofs + sf.n_bits).div_ceil(8);
            return self.parse_tlv_bits(index, sf, len, number);
        }
        let (value, mask) = self.get(sf.field);
        let mask = mask | sf.field_mask();
        self.set_masked(sf.field, value & !sf.field_mask() | number << sf.ofs, mask);
        self.require_for(sf.field);
        Ok(usable(sf.field, mask))
    }

    /// Matches bits of a field of tunnel options. `len`: the length in bytes that the field needs for these bits.
    fn parse_tlv_bits(
        &mut self,
        index: usize,
        sf: Subfield,
        len: usize,
        number: u128,
    ) -> Result<Usable, TextError> {
        let mut bits = Flow::ZERO;
        bits.layout.allocate(index, len);
        let mut mask = bits;
        sf.set(&mut bits, number);
        sf.unwildcard(&mut mask);
        self.parse_tlv(index, (bits.tlv(index).to_vec(), Some(mask.tlv(index).to_vec())))
    }

    /// Applies a key and a value of a list to the match. The key is a short protocol name, `eth`, a field, or bits of a field;
    /// `None` for any other key.
    pub fn parse_key(
        &mut self,
        key: &str,
        value: &str,
        names: &dyn NameMap,
    ) -> Option<Result<Usable, TextError>> {
        if let Some(p) = protocol(key) {
            self.set(FieldId::EthType, u128::from(p.dl_type));
            if p.nw_proto != 0 {
                self.set(FieldId::IpProto, u128::from(p.nw_proto));
            }
            self.require_ethernet();
            return Some(Ok(Usable::Any));
        }
        if key == "eth" {
            self.set(FieldId::PacketType, 0);
            return Some(Ok(Usable::Any));
        }
        match FieldId::from_name(key) {
            Some(field) => Some(self.parse_field(field, value, names)),
            None if key.contains('[') => Some(self.parse_subfield(key, value)),
            None => None,
        }
    }
}

/// The protocols that can match the field under this mask.
pub(crate) fn usable(field: FieldId, mask: u128) -> Usable {
    let info = field.info();
    let [exact, cidr, bitwise] = info.usable;
    let mask = mask & field.ones();
    if mask == 0 {
        return Usable::Any;
    }
    let is_cidr = (mask | !field.ones()).leading_ones() + mask.trailing_zeros() == 128;
    match mask {
        m if m == field.ones() => exact,
        _ if cidr == bitwise || is_cidr => cidr,
        _ => bitwise,
    }
}
