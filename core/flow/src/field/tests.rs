//! Consistency of the table, and of fields with the flow.

use super::*;
use proptest::prelude::*;

#[test]
fn names_are_unique_and_headers_too() {
    let mut names = std::collections::HashSet::new();
    let mut headers = std::collections::HashSet::new();
    for id in FieldId::all() {
        let info = id.info();
        assert_eq!(info.id, id);
        assert!(names.insert(info.name), "{}", info.name);
        assert!(info.extra_name.is_empty() || names.insert(info.extra_name), "{}", info.extra_name);
        for h in info.headers {
            assert!(headers.insert(h.bits & !0x1ff), "{}", h.name);
            assert_eq!(FieldId::from_nxm_header(h.bits), Some(id));
            assert_eq!(FieldId::from_nxm_name(h.name), Some(id));
        }
    }
}

#[test]
fn the_header_depends_on_the_version() {
    assert_eq!(FieldId::InPort.nxm_header(1).unwrap().bits, 0x0000_0002);
    assert_eq!(FieldId::EthSrc.nxm_header(0).unwrap().name, "NXM_OF_ETH_SRC");
    assert_eq!(FieldId::EthSrc.nxm_header(4).unwrap().bits, 0x8000_0806);
    assert_eq!(FieldId::DpHash.nxm_header(4).unwrap().name, "NXM_NX_DP_HASH");
    assert_eq!(FieldId::ActsetOutput.nxm_header(4).unwrap().bits, 0x4f4e_4600_ffff_5608);
    assert_eq!(FieldId::DlVlan.nxm_header(4), None);
}

#[test]
fn wide_registers_hold_the_narrow_ones() {
    let mut f = Flow::ZERO;
    FieldId::Xxreg1.set(&mut f, 0x1111_1111_2222_2222_3333_3333_4444_4444);
    assert_eq!(f.regs[4..8], [0x1111_1111, 0x2222_2222, 0x3333_3333, 0x4444_4444]);
    assert_eq!(FieldId::Xreg3.get(&f), 0x3333_3333_4444_4444);
}

#[test]
fn vlan_fields_share_the_tci() {
    let mut f = Flow::ZERO;
    FieldId::DlVlan.set(&mut f, 10);
    assert_eq!((f.vlans[0].tpid, f.vlans[0].tci), (0x8100, 0x100a));
    FieldId::VlanPcp.set(&mut f, 5);
    assert_eq!(f.vlans[0].tci, 0xb00a);
    assert_eq!(FieldId::VlanVid.get(&f), 0x100a);
    FieldId::DlVlan.set(&mut f, 0xffff);
    assert_eq!(f.vlans[0].tci, 0);
}

#[test]
fn subfields_in_text() {
    for (text, canonical) in [
        ("NXM_OF_IN_PORT[]", "NXM_OF_IN_PORT[]"),
        ("reg0[0..15]", "NXM_NX_REG0[0..15]"),
        ("OXM_OF_ETH_SRC[3]", "NXM_OF_ETH_SRC[3]"),
        ("metadata", "OXM_OF_METADATA[]"),
    ] {
        assert_eq!(Subfield::parse(text).unwrap().to_string(), canonical);
    }
    let error = |t| Subfield::parse(t).unwrap_err().to_string();
    assert_eq!(error("reg0[5..3]"), "reg0[5..3]: starting bit 5 is after ending bit 3");
    assert_eq!(
        error("reg0[0..32]"),
        "reg0[0..32]: ending bit 32 is not valid because field is only 32 bits wide"
    );
    assert_eq!(error("foo[1]"), "foo[1]: unknown field `foo'");
    assert_eq!(error("reg0[x]"), "reg0[x]: syntax error expecting [] or [<bit>] or [<start>..<end>]");
}

proptest! {
    #[test]
    fn what_is_set_is_got(index in 0..table::FIELDS.len(), value: u128, noise: u64) {
        let id = table::FIELDS[index].id;
        let mut flow = Flow::ZERO;
        flow.words_mut().fill(noise);
        if let Some(index) = id.tlv_index() {
            flow.layout.allocate(index, 16);
        }
        let value = match id {
            FieldId::InPortOxm | FieldId::ActsetOutput => value & 0x7fff,
            FieldId::ArpOp | FieldId::CtState => value & 0xff,
            _ => value & id.ones(),
        };
        prop_assert!(id.is_value_valid(value));
        id.set(&mut flow, value);
        prop_assert_eq!(id.get(&flow), value);
        let mut mask = Flow { layout: flow.layout, ..Flow::ZERO };
        id.unwildcard(&mut mask);
        let wire = if id == FieldId::CtState { 0xff } else { id.ones() };
        prop_assert_eq!(id.mask_of(&mask), wire);
    }

    #[test]
    fn subfield_parser_never_panics(text in "\\PC{0,40}") {
        let _ = Subfield::parse(&text);
    }
}

#[test]
fn fields_of_tunnels_lie_together() {
    for id in FieldId::all() {
        assert_eq!(id.is_tunnel(), id.info().name.starts_with("tun_"), "{}", id.info().name);
    }
}

#[test]
fn a_field_is_in_its_words_alone() {
    for id in FieldId::all() {
        let Some(words) = id.words() else { continue };
        for (before, value) in [(Flow::ZERO, id.ones()), (Flow::ONES, 0)] {
            let mut after = before;
            id.set(&mut after, value);
            let changed = before.words().iter().zip(after.words()).enumerate();
            let changed = changed.fold(0, |all, (i, (a, b))| all | u128::from(a != b) << i);
            assert_eq!(changed & !words, 0, "{}", id.info().name);
        }
    }
}
