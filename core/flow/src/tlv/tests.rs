//! Compares layout and access with a map of byte strings; converts options to fields and back.

use super::*;
use crate::flow::Flow;
use crate::{FieldId, Match, Subfield};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn table(lens: &[(usize, u8)]) -> TlvTable {
    let mut t = TlvTable::default();
    for &(index, len) in lens {
        t.add(index, Mapping { class: 0xffff, kind: index as u8, len }).unwrap();
    }
    t
}

#[test]
fn a_table_refuses_what_it_cannot_hold() {
    let mut t = table(&[(0, 4), (1, 8)]);
    let option = |kind, len| Mapping { class: 0xffff, kind, len };
    assert_eq!(t.add(0, option(9, 4)), Err(TlvError::AlreadyMapped));
    assert_eq!(t.add(2, option(1, 4)), Err(TlvError::Duplicate));
    assert_eq!(t.add(64, option(9, 4)), Err(TlvError::Index));
    assert_eq!(t.add(2, option(9, 6)), Err(TlvError::Length));
    t.add(2, option(2, 124)).unwrap();
    assert_eq!(t.add(3, option(3, 124)), Err(TlvError::Full));
    t.add(3, option(3, 4)).unwrap();
    t.add(4, option(4, 112)).unwrap();
    // The free slots are not adjacent.
    t.remove(3);
    t.add(3, option(3, 8)).unwrap();
    assert_eq!(t.add(5, option(5, 4)), Err(TlvError::Full));
    t.add(5, option(5, 0)).unwrap();
    assert!(t.layout().has(5) && t.layout().len(5) == 0 && t.layout().used() == ALL_FIELDS_BYTES_MAX);
}

#[test]
fn options_become_fields_and_fields_options() {
    let t = table(&[(0, 4), (1, 8)]);
    let raw =
        Tlv::from_options(&[0xff, 0xff, 1, 2, 1, 2, 3, 4, 5, 6, 7, 8, 0xff, 0xff, 0, 1, 0, 0, 0, 9]).unwrap();
    let mut flow = Flow::ZERO;
    t.to_fields(&raw, &mut flow).unwrap();
    assert_eq!(FieldId::TunMetadata0.get(&flow), 9);
    assert_eq!(&flow.tlv(1)[..], [1, 2, 3, 4, 5, 6, 7, 8]);
    // The options are in the order of their fields, whatever their order was before.
    let options = t.to_options(&flow);
    assert_eq!(options, [0xff, 0xff, 0, 1, 0, 0, 0, 9, 0xff, 0xff, 1, 2, 1, 2, 3, 4, 5, 6, 7, 8]);
    let mut mask = Flow { layout: flow.layout, ..Flow::ZERO };
    assert_eq!(t.to_options_mask(&raw, &mask).data, [0; ALL_FIELDS_BYTES_MAX]);
    Subfield::new(FieldId::TunMetadata0, 0, 4).unwrap().unwildcard(&mut mask);
    let bits = t.to_options_mask(&raw, &mask);
    assert_eq!(bits.present, u64::MAX);
    assert_eq!(bits.data[..5], [0xff, 0xff, 0xff, 0x1f, 0]);
    assert_eq!(bits.data[12..20], [0xff, 0xff, 0xff, 0x1f, 0, 0, 0, 0xf]);
}

#[test]
fn options_that_cannot_be_taken_in() {
    let t = table(&[(0, 4)]);
    let take = |bytes: &[u8]| t.to_fields(&Tlv::from_options(bytes).unwrap(), &mut Flow::ZERO.clone());
    assert_eq!(take(&[0, 0, 5, 1, 0, 0, 0, 0]), Ok(()), "unknown, and may be");
    assert_eq!(take(&[0, 0, 0x85, 1, 0, 0, 0, 0]), Err(OptionsError), "unknown and critical");
    assert_eq!(take(&[0xff, 0xff, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]), Err(OptionsError), "longer than told");
    assert_eq!(take(&[0xff, 0xff, 0, 1, 0, 0]), Err(OptionsError), "cut off");
    assert!(Tlv::from_options(&[0; 253]).is_none());
}

#[test]
fn a_match_is_laid_out_as_the_switch_is() {
    let mut m = Match::CATCHALL;
    m.allocate_tlv(7, &[0xb], Some(&[0xf])).unwrap();
    m.allocate_tlv(2, &[1, 2, 3, 4, 5], None).unwrap();
    m.allocate_tlv(9, &[], Some(&[])).unwrap();
    assert_eq!(m.with_tlv_layout(table(&[(2, 8)]).layout()).to_string(), "tun_metadata2=0x102030405");
    let t = table(&[(9, 4), (1, 12), (2, 8), (7, 4)]);
    let there = m.with_tlv_layout(t.layout());
    assert_eq!(there.to_string(), "tun_metadata2=0x102030405,tun_metadata7=0xb/0xf,tun_metadata9");
    let mut flow = Flow { layout: *t.layout(), ..Flow::ZERO };
    flow.set_tlv(7, &[0x1b]);
    flow.set_tlv(2, &[1, 2, 3, 4, 5]);
    assert!(!there.matches(&flow), "an option is absent");
    flow.set_tlv(9, &[]);
    assert!(there.matches(&flow));
    flow.set_tlv(2, &[1, 0, 0, 1, 2, 3, 4, 5]);
    assert!(!there.matches(&flow));
}

#[test]
fn the_order_in_which_fields_are_placed_does_not_matter() {
    let (mut a, mut b) = (Match::CATCHALL, Match::CATCHALL);
    a.allocate_tlv(5, &[1, 2, 3, 4, 5], None).unwrap();
    a.allocate_tlv(2, &[], Some(&[0xf0])).unwrap();
    b.allocate_tlv(2, &[], Some(&[0xf0])).unwrap();
    b.allocate_tlv(5, &[1, 2, 3, 4, 5], None).unwrap();
    assert_eq!(a, b);
    let error = a.allocate_tlv(5, &[], None).unwrap_err().to_string();
    assert_eq!(error, "field tun_metadata5 set multiple times");
    let full = [7, 8].map(|i| a.allocate_tlv(i, &[1; 124], None).map_err(|e| e.to_string()));
    let text = "field tun_metadata8 exceeds maximum size for tunnel metadata (used 260, max 256)";
    assert_eq!(full, [Ok(()), Err(text.to_owned())]);
}

#[derive(Clone, Debug)]
enum Step {
    Map(usize, u8),
    Unmap(usize),
    Set(usize, Vec<u8>),
    Bits(usize, usize, usize, u128),
    Delete(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let index = || 0..6usize;
    prop_oneof![
        (index(), 0..32u8).prop_map(|(i, n)| Step::Map(i, 4 * n)),
        index().prop_map(Step::Unmap),
        (index(), prop::collection::vec(any::<u8>(), 0..130)).prop_map(|(i, v)| Step::Set(i, v)),
        (index(), 0..1000usize, 0..140usize, any::<u128>()).prop_map(|(i, o, n, v)| Step::Bits(i, o, n, v)),
        index().prop_map(Step::Delete),
    ]
}

/// Reference implementation with byte strings, the least significant byte first.
#[derive(Default)]
struct Reference {
    lens: BTreeMap<usize, usize>,
    values: BTreeMap<usize, Vec<u8>>,
}

impl Reference {
    fn set(&mut self, index: usize, value: &[u8]) {
        if let Some(&len) = self.lens.get(&index) {
            let mut low: Vec<u8> = value.iter().rev().copied().collect();
            low.resize(len, 0);
            self.values.insert(index, low);
        }
    }

    fn set_bits(&mut self, index: usize, ofs: usize, n_bits: usize, bits: u128) {
        let Some(&len) = self.lens.get(&index) else { return };
        let value = self.values.entry(index).or_insert_with(|| vec![0; len]);
        for i in (0..n_bits.min(128)).filter(|i| (ofs + i) / 8 < len) {
            let one = 1 << ((ofs + i) % 8);
            let byte = &mut value[(ofs + i) / 8];
            *byte = if bits >> i & 1 != 0 { *byte | one } else { *byte & !one };
        }
    }
}

proptest! {
    #[test]
    fn fields_are_strings_of_bytes(steps in prop::collection::vec(step(), 0..40)) {
        let (mut flow, mut reference) = (Flow::ZERO, Reference::default());
        for step in steps {
            match step {
                Step::Map(i, len) => {
                    let fits = !reference.lens.contains_key(&i)
                        && reference.lens.values().sum::<usize>() + usize::from(len) <= ALL_FIELDS_BYTES_MAX;
                    prop_assert_eq!(flow.layout.allocate(i, len.into()), fits);
                    if fits {
                        reference.lens.insert(i, len.into());
                    }
                }
                Step::Unmap(i) => {
                    // A field is unmapped only when no flow has it.
                    flow.delete_tlv(i);
                    flow.layout.release(i);
                    reference.lens.remove(&i); reference.values.remove(&i);
                }
                Step::Set(i, v) => {
                    flow.set_tlv(i, &v);
                    reference.set(i, &v);
                }
                Step::Bits(i, ofs, n, v) => {
                    flow.set_tlv_bits(i, ofs, n, v);
                    reference.set_bits(i, ofs, n, v);
                }
                Step::Delete(i) => {
                    flow.delete_tlv(i);
                    reference.values.remove(&i);
                }
            }
            for i in 0..6 {
                let there: Option<Vec<u8>> = flow.has_tlv(i).then(|| flow.tlv(i).iter().rev().copied().collect());
                prop_assert_eq!(there.as_ref(), reference.values.get(&i), "field {}", i);
            }
        }
        if reference.values.is_empty() {
            prop_assert!(flow.tlv == Tlv::NONE);
        }
    }

    #[test]
    fn any_options_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..260)) {
        let t = table(&[(0, 4), (1, 8), (2, 0)]);
        let Some(raw) = Tlv::from_options(&bytes) else { return Ok(()) };
        let mut flow = Flow::ZERO;
        if t.to_fields(&raw, &mut flow).is_ok() {
            let mut again = Flow::ZERO;
            let written = Tlv::from_options(&t.to_options(&flow)).unwrap();
            t.to_fields(&written, &mut again).unwrap();
            prop_assert!(again == flow);
        }
        let _ = t.to_options_mask(&raw, &flow);
    }

    #[test]
    fn a_wide_subfield_is_the_sum_of_its_parts(ofs in 0..500u16, n_bits in 1..490u16) {
        let sf = Subfield::new(FieldId::TunMetadata3, ofs, n_bits).unwrap();
        prop_assert_eq!(sf.parts().map(|p| p.n_bits).sum::<u16>(), n_bits);
        let mut mask = Flow::ZERO;
        mask.layout.allocate(3, FIELD_BYTES_MAX);
        sf.unwildcard(&mut mask);
        let ones: u32 = mask.tlv(3).iter().map(|b| b.count_ones()).sum();
        prop_assert_eq!(ones, u32::from(n_bits));
        prop_assert_eq!(mask.tlv_bits(3, ofs.into(), 1), 1);
    }
}
