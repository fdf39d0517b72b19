//! Adjusts fields of tunnel options in messages to the switch's table of such fields.
//!
//! A message contains the length that its sender assumes for a field. The switch's table ([`TlvTable`])
//! defines which fields are mapped and how long they are. Before a message is executed, its matches and
//! actions are adjusted to the table, or the message is refused. Replies use the lengths of the table.

use crate::action::{
    Action, Ct, Learn, LearnSource, LearnSpec, LearnTarget, Multipath, NumberOrField, Sample, SetTlv,
};
use crate::error::OfError;
use flow::tlv::{FIELD_BYTES_MAX, TlvValue, significant};
use flow::{FieldId, Flow, Match, Subfield, TlvTable};

/// Defines a function that calls `f` for each subfield in an action and its nested actions. The second argument of `f` tells
/// whether the subfield stands for the complete field, whatever the width of the field.
macro_rules! subfields {
    ($name:ident, $action:ty, $subfield:ty, $iter:ident, $as:ident) => {
        fn $name(action: $action, f: &mut impl FnMut($subfield, bool)) {
            match action {
                Action::OutputReg { src, .. } => f(src, false),
                Action::Bundle(b) => b.dst.$iter().for_each(|dst| f(dst, false)),
                Action::SetTlv(t) => {
                    let SetTlv { field, .. } = t.$as();
                    f(field, true);
                }
                Action::DeleteField(field) => f(field, true),
                Action::RegLoad { dst, .. } | Action::CheckPktLarger { dst, .. } => f(dst, false),
                Action::RegMove { src, dst } => {
                    f(src, false);
                    f(dst, false);
                }
                Action::StackPush(sf) | Action::StackPop(sf) => f(sf, false),
                Action::Multipath(m) => {
                    let Multipath { dst, .. } = m.$as();
                    f(dst, false);
                }
                Action::Sample(s) => {
                    let Sample { obs_domain, obs_point, .. } = s.$as();
                    for number in [obs_domain, obs_point] {
                        if let NumberOrField::Field(sf) = number {
                            f(sf, false);
                        }
                    }
                }
                Action::Learn(l) => {
                    let Learn { specs, result_dst, .. } = l.$as();
                    for LearnSpec { src, dst, .. } in specs.$iter() {
                        if let LearnSource::Field(sf) = src {
                            f(sf, false);
                        }
                        if let LearnTarget::Match(sf) | LearnTarget::Load(sf) = dst {
                            f(sf, false);
                        }
                    }
                    result_dst.$iter().for_each(|dst| f(dst, false));
                }
                Action::Ct(c) => {
                    let Ct { zone, actions, .. } = c.$as();
                    if let NumberOrField::Field(sf) = zone {
                        f(sf, false);
                    }
                    actions.$iter().for_each(|a| $name(a, f));
                }
                Action::Clone(list) | Action::WriteActions(list) => list.$iter().for_each(|a| $name(a, f)),
                _ => {}
            }
        }
    };
}

subfields!(each_subfield, &Action, &Subfield, iter, as_ref);
subfields!(each_subfield_mut, &mut Action, &mut Subfield, iter_mut, as_mut);

/// Bit mask of the tunnel option fields that the actions use.
pub fn option_fields_in(actions: &[Action]) -> u64 {
    let mut named = 0;
    for action in actions {
        each_subfield(action, &mut |sf, _| named |= sf.field.tlv_index().map_or(0, |i| 1 << i));
    }
    named
}

/// Adjusts actions to a switch's table.
///
/// # Errors
/// A field is not mapped, or is narrower than the action assumes.
pub fn adjust_actions(actions: &mut [Action], table: &TlvTable) -> Result<(), OfError> {
    if option_fields_in(actions) == 0 {
        return Ok(());
    }
    let mut result = Ok(());
    for action in actions.iter_mut() {
        each_subfield_mut(action, &mut |sf, whole| {
            if let (Ok(()), Some(index)) = (result, sf.field.tlv_index()) {
                result = adjust_subfield(sf, index, whole, table);
            }
        });
    }
    result?;
    actions.iter_mut().try_for_each(adjust_value)
}

fn adjust_subfield(sf: &mut Subfield, index: usize, whole: bool, table: &TlvTable) -> Result<(), OfError> {
    let mapping = table.mapping(index).ok_or(OfError::NxfmfcInvalidTlvField)?;
    sf.n_bytes = mapping.len;
    let fits = whole || sf.ofs + sf.n_bits <= 8 * u16::from(mapping.len);
    if fits { Ok(()) } else { Err(OfError::BacBadSetLen) }
}

/// Adjusts a value to write, after the length of its field has been set.
fn adjust_value(action: &mut Action) -> Result<(), OfError> {
    match action {
        Action::SetTlv(t) => {
            let len = usize::from(t.field.n_bytes);
            for bytes in std::iter::once(&mut t.value).chain(&mut t.mask) {
                if significant(bytes).len() > len {
                    return Err(OfError::BacBadSetLen);
                }
                *bytes = TlvValue::of_len(bytes, len).to_vec();
            }
            // A mask that covers the complete field is not needed.
            t.mask.take_if(|mask| mask.iter().all(|b| *b == 0xff));
            Ok(())
        }
        Action::Clone(list) | Action::WriteActions(list) => list.iter_mut().try_for_each(adjust_value),
        Action::Ct(ct) => ct.actions.iter_mut().try_for_each(adjust_value),
        _ => Ok(()),
    }
}

/// Adjusts a match to a switch's table.
///
/// # Errors
/// A field is not mapped, or is narrower than the match assumes.
pub fn adjust_match(m: &Match, table: &TlvTable) -> Result<Match, OfError> {
    for t in m.tlvs() {
        let mapping = table.mapping(t.index).ok_or(OfError::NxfmfcInvalidTlvField)?;
        let used = if t.is_exact() { &t.value } else { &t.mask };
        if significant(used).len() > usize::from(mapping.len) {
            return Err(OfError::BmcBadLen);
        }
    }
    Ok(m.with_tlv_layout(table.layout()))
}

/// A `set_field` as a controller sends it. The controller does not know the width of the field.
pub(crate) fn set_field(field: FieldId, value: Vec<u8>, mask: Option<Vec<u8>>) -> SetTlv {
    let len = mask.as_ref().map_or(value.len(), |m| significant(m).len()).min(FIELD_BYTES_MAX);
    let sized = |bytes: Vec<u8>| TlvValue::of_len(&bytes, len).to_vec();
    let value = match &mask {
        Some(mask) => {
            let (value, mask) = (sized(value), sized(mask.clone()));
            value.iter().zip(&mask).map(|(v, m)| v & m).collect()
        }
        None => sized(value),
    };
    SetTlv { field: Subfield { n_bytes: len as u8, ..Subfield::whole(field) }, value, mask: mask.map(sized) }
}

/// A `load` to some bits of a field, in the form used on the wire.
pub(crate) fn set_bits(dst: Subfield, value: u128) -> SetTlv {
    let index = dst.field.tlv_index().unwrap_or(0);
    let mut bits = Flow::ZERO;
    bits.layout.allocate(index, dst.n_bytes.into());
    let mut mask = bits;
    dst.set(&mut bits, value);
    dst.unwildcard(&mut mask);
    set_field(dst.field, significant(&bits.tlv(index)).to_vec(), Some(significant(&mask.tlv(index)).to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{actions_text, parse_actions};
    use flow::text::NoNames;
    use flow::tlv::Mapping;

    fn table() -> TlvTable {
        let mut t = TlvTable::default();
        t.add(0, Mapping { class: 0xffff, kind: 0, len: 4 }).unwrap();
        t.add(2, Mapping { class: 0xffff, kind: 2, len: 124 }).unwrap();
        t
    }

    fn with_tlv_layout(text: &str) -> Result<String, OfError> {
        let mut actions = parse_actions(text, &NoNames).unwrap_or_else(|e| panic!("{text}: {e}"));
        adjust_actions(&mut actions, &table())?;
        Ok(actions_text(&actions, &NoNames))
    }

    #[test]
    fn mapped_and_wide_enough_fields_pass() {
        for text in [
            "move:NXM_NX_TUN_METADATA0[0..31]->NXM_NX_REG0[]",
            "move:NXM_NX_REG0[]->NXM_NX_TUN_METADATA2[960..991]",
            "push:NXM_NX_TUN_METADATA2[]",
            "learn(table=1,NXM_NX_TUN_METADATA0[0..31]=NXM_NX_REG0[],load:NXM_NX_REG1[]->NXM_NX_TUN_METADATA2[0..31])",
            "set_field:0xa->tun_metadata0,set_field:0xa/0xff->tun_metadata2",
            "clone(set_field:0x12345678->tun_metadata0),delete_field:tun_metadata0",
        ] {
            assert_eq!(with_tlv_layout(text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn a_mask_of_the_whole_field_is_none() {
        assert_eq!(
            with_tlv_layout("set_field:0xa/0xffffffff->tun_metadata0").as_deref(),
            Ok("set_field:0xa->tun_metadata0")
        );
        assert_eq!(
            with_tlv_layout("set_field:0xa/0xff->tun_metadata0").as_deref(),
            Ok("set_field:0xa/0xff->tun_metadata0")
        );
    }

    #[test]
    fn unmapped_or_too_narrow_fields_are_refused() {
        for text in [
            "push:tun_metadata1[0..31]",
            "clone(move:tun_metadata1[0..31]->reg0[])",
            "learn(tun_metadata1[0..31]=reg0[0..31])",
            "load:0x11223344->tun_metadata1",
            "delete_field:tun_metadata1",
            "ct(commit,zone=tun_metadata1[0..15])",
        ] {
            assert_eq!(with_tlv_layout(text), Err(OfError::NxfmfcInvalidTlvField), "{text}");
        }
        for text in [
            "pop:tun_metadata0[32..63]",
            "multipath(eth_src,50,modulo_n,1,0,tun_metadata0[32..63])",
            "clone(set_field:0x123456789a->tun_metadata0)",
        ] {
            assert_eq!(with_tlv_layout(text), Err(OfError::BacBadSetLen), "{text}");
        }
    }

    #[test]
    fn a_match_that_is_longer_than_the_field() {
        let mut m = Match::CATCHALL;
        m.allocate_tlv(0, &[1, 2, 3, 4, 5], None).unwrap();
        assert_eq!(adjust_match(&m, &table()), Err(OfError::BmcBadLen));
        let mut m = Match::CATCHALL;
        m.allocate_tlv(0, &[0, 0, 0, 0, 5], None).unwrap();
        assert_eq!(adjust_match(&m, &table()).unwrap().to_string(), "tun_metadata0=0x5");
    }
}
