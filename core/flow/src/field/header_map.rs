//! Finds the field of an NXM or OXM header.
//!
//! A header has 64 bits: the experimenter (0 if there is none), the class (16 bits), the field's number (7 bits), the has-mask bit
//! and the length (8 bits); see OpenFlow 1.5, section 7.2.3.2. Each field of each flow of a message is looked
//! up here, so three classes without experimenter (NXM 0, NXM 1, OpenFlow basic) have arrays. All other
//! headers are in a hash map.

use super::table::{NXM0, NXM1, OXM};
use super::{FieldId, FieldInfo};
use std::collections::HashMap;

/// The classes that have an array; none of them has an experimenter.
const CLASSES: [u64; 3] = [NXM0.1 as u64, NXM1.1 as u64, OXM.1 as u64];
/// Number of fields that a class can have.
const NUMBERS: usize = 128;

pub(super) struct HeaderMap {
    /// The field of each class and number: [`NUMBERS`] for each class.
    of_classes: [Option<FieldId>; CLASSES.len() * NUMBERS],
    /// Fields with other headers, by experimenter, class and number.
    others: HashMap<u64, FieldId>,
}

impl HeaderMap {
    pub(super) fn of(fields: &'static [FieldInfo]) -> HeaderMap {
        let mut map = HeaderMap { of_classes: [None; CLASSES.len() * NUMBERS], others: HashMap::new() };
        for field in fields {
            for header in field.headers {
                match index(header.bits) {
                    Some(index) => map.of_classes[index] = Some(field.id),
                    None => _ = map.others.insert(kind(header.bits), field.id),
                }
            }
        }
        map
    }

    pub(super) fn get(&self, header: u64) -> Option<FieldId> {
        match index(header) {
            Some(index) => self.of_classes[index],
            None => self.others.get(&kind(header)).copied(),
        }
    }
}

/// The header without the has-mask bit and the length.
fn kind(header: u64) -> u64 {
    header >> 9
}

/// The index of a header in [`HeaderMap::of_classes`]; `None` if its class has no array.
fn index(header: u64) -> Option<usize> {
    let kind = kind(header);
    let class = CLASSES.iter().position(|class| *class == kind >> 7)?;
    Some(class * NUMBERS + (kind % NUMBERS as u64) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_bit_and_the_length_are_ignored() {
        for (id, header) in FieldId::all().flat_map(|f| f.info().headers.iter().map(move |h| (f, h))) {
            assert_eq!(FieldId::from_nxm_header(header.bits | 0x1ff), Some(id), "{}", header.name);
        }
    }

    #[test]
    fn other_headers_have_no_field() {
        for header in [0x7fff_0000, 0x2_0000, 0x8000_fe00, 0xffff_0000, 1 << 63, u64::MAX] {
            assert_eq!(FieldId::from_nxm_header(header), None, "{header:#x}");
        }
    }
}
