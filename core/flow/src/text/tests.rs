//! Checks the text that scripts parse, and the parsers with random input.

use super::*;
use crate::extract::extract_from;
use crate::matching::Match;
use crate::tlv::Layout;
use proptest::prelude::*;

/// The match of a list of fields.
fn parse(text: &str) -> Result<Match, TextError> {
    let mut m = Match::CATCHALL;
    let mut rest = text;
    while let Some((key, value)) = next_key_value(&mut rest) {
        m.parse_key(key, value, &NoNames).unwrap_or(Err(TextError::new("unknown")))?;
    }
    Ok(m)
}

fn again(text: &str) -> String {
    parse(text).map_or_else(|e| e.to_string(), |m| m.to_string())
}

#[test]
fn matches_are_written_in_their_order() {
    for (given, written) in [
        ("", ""),
        ("ip,in_port=1,nw_src=10.0.0.1/8", "ip,in_port=1,nw_src=10.0.0.0/8"),
        ("tcp,tp_dst=80,tcp_flags=+syn-ack", "tcp,tp_dst=80,tcp_flags=+syn-ack"),
        ("dl_type=0x0800,nw_proto=17,udp_src=0x10/0xf0", "udp,tp_src=0x10/0xf0"),
        ("vlan_tci=0x0000/0x1000", "vlan_tci=0x0000/0x1000"),
        ("dl_vlan=10,dl_vlan_pcp=3", "dl_vlan=10,dl_vlan_pcp=3"),
        ("vlan_vid=0x1005/0x1fff", "dl_vlan=5"),
        ("dl_vlan=0xffff", "vlan_tci=0x0000"),
        ("reg0=0x1/0xff,reg3[4..7]=5", "reg0=0x1/0xff,reg3=0x50/0xf0"),
        ("ct_state=+trk-new,ct_zone=5,ip", "ct_state=-new+trk,ct_zone=5,ip"),
        ("tun_id=1,metadata=0/0xff", "tun_id=0x1,metadata=0/0xff"),
        (
            "in_port=LOCAL,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00",
            "in_port=LOCAL,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00",
        ),
        (
            "icmp6,icmpv6_type=135,icmpv6_code=0,nd_target=fe80::1,nd_sll=00:00:00:00:00:01",
            "icmp6,icmp_type=135,icmp_code=0,nd_target=fe80::1,nd_sll=00:00:00:00:00:01",
        ),
        ("arp,arp_op=1,arp_spa=1.2.3.4", "arp,arp_spa=1.2.3.4,arp_op=1"),
        ("ipv6,ipv6_label=5,ipv6_src=2001:db8::/32", "ipv6,ipv6_src=2001:db8::/32,ipv6_label=0x00005"),
        ("ip,ip_frag=later,ip_dscp=2,nw_ecn=1", "ip,nw_tos=8,nw_ecn=1,nw_frag=later"),
        ("mpls,mpls_label=100,mpls_bos=1", "mpls,mpls_label=100,mpls_bos=1"),
        ("xxreg0=0x1/0x1", "reg3=0x1/0x1"),
        ("ct_label=0x1/0x1", "ct_label=0x1/0x1"),
        ("dl_type=0x1234", "dl_type=0x1234"),
        ("packet_type=(1,0x800)", "packet_type=(1,0x800)"),
        (
            "dl_type=0x894f,nsh_c1=1/1,nsh_mdtype=1,nsi=255,nsp=0,nsh_flags=2/2",
            "dl_type=0x894f,nsh_flags=0x02/0x02,nsh_mdtype=1,nsh_spi=0x0,nsh_si=255,nsh_c1=0x1/0x1",
        ),
        ("packet_type=(1,0x894f),nsh_ttl=5,nsh_c1=7", "packet_type=(1,0x894f),nsh_ttl=5,nsh_c1=0x7"),
        ("dl_type=0x894f,nsh_mdtype=2,nsh_c1=7", "dl_type=0x894f,nsh_mdtype=2"),
        ("tun_erspan_idx=3,tun_erspan_hwid=5/7", "tun_erspan_idx=0x3,tun_erspan_hwid=0x5/0x7"),
        ("tun_erspan_ver=1,tun_erspan_idx=3,tun_erspan_hwid=5", "tun_erspan_ver=1,tun_erspan_idx=0x3"),
        (
            "tun_gbp_flags=8/8,gtpu_flags=1,gtpu_msgtype=2",
            "tun_gbp_flags=0x8/0x8,gtpu_flags=0x1,gtpu_msgtype=2",
        ),
        ("ct_tp_src=5", "ct_tp_src=5"),
        ("in_port=ANY", "in_port=ANY"),
        ("ipv6,ipv6_label=0x12345/0xffffff00", "ipv6,ipv6_label=0x12300/0xfff00"),
        ("tun_metadata1=0x0b,tun_id=1", "tun_id=0x1,tun_metadata1=0xb"),
        ("tun_metadata0,tun_metadata63=0/0x1", "tun_metadata0,tun_metadata63=0/0x1"),
        ("tun_metadata5=0xb/0xf,tun_metadata2=0", "tun_metadata2=0,tun_metadata5=0xb/0xf"),
        ("tun_metadata0[8..11]=5", "tun_metadata0=0x500/0xf00"),
        (
            "tun_metadata3=0x123456789abcdef0123456789abcdef012345678",
            "tun_metadata3=0x123456789abcdef0123456789abcdef012345678",
        ),
    ] {
        assert_eq!(again(given), written, "{given}");
    }
}

#[test]
fn errors_say_what_scripts_expect() {
    for (given, error) in [
        ("nw_proto=256", "256: value too large for 1-byte field nw_proto"),
        ("nw_proto=x", "x: bad syntax for nw_proto value"),
        ("dl_src=1:2:3", "1:2:3: invalid Ethernet address"),
        ("nw_src=1.2.3.4/33", "1.2.3.4/33: IPv4 network prefix bits not between 0 and 32, inclusive"),
        ("nw_src=1.2.3", "1.2.3: invalid IP address"),
        ("ipv6_src=zz", "zz: invalid IPv6 address"),
        ("in_port=nope", "nope: invalid or unknown port for in_port"),
        ("ct_state=+foo", "foo: unknown ct_state flag(s)"),
        ("tcp_flags=+syn+syn", "syn: Each TCP flag can be specified only once"),
        ("nw_tos=3/1", "3/1: invalid mask for field nw_tos"),
        ("reg0[0..3]=16", "reg0[0..3]: value 0x10 does not fit into 4 bits"),
        ("tun_metadata0,tun_metadata0", "field tun_metadata0 set multiple times"),
        ("tun_metadata0=x", "x: bad syntax for tun_metadata0 value"),
    ] {
        assert_eq!(again(given), error, "{given}");
    }
}

#[test]
fn the_flow_of_a_packet() {
    let bytes = packet::hex::parse(
        "ffffffffffff 0a0000000001 0800 4500001c00000000 4001 0000 0a000001 0a000002 0800 0000 00000000",
    );
    let flow = extract_from(&bytes.unwrap(), 1);
    assert_eq!(
        flow_text(&flow, &NoNames),
        "icmp,in_port=1,vlan_tci=0x0000,dl_src=0a:00:00:00:00:01,dl_dst=ff:ff:ff:ff:ff:ff,nw_src=10.0.0.1,\
         nw_dst=10.0.0.2,nw_tos=0,nw_ecn=0,nw_ttl=64,nw_frag=no,icmp_type=8,icmp_code=0"
    );
}

#[test]
fn exact_flows() {
    let (flow, mask) =
        parse_exact_flow("in_port=1,tcp,nw_src=10.0.0.1,tp_dst=80", &NoNames, &Layout::EMPTY).unwrap();
    assert_eq!((flow.in_port, flow.nw_proto, flow.tp_dst, mask.tp_dst), (1, 6, 80, 0xffff));
    let error = |t| parse_exact_flow(t, &NoNames, &Layout::EMPTY).unwrap_err().to_string();
    assert_eq!(error("tp_dst=80"), "tp_dst=80: prerequisites not met for setting tp_dst");
    assert_eq!(error("ip,arp"), "ip,arp: Ethernet type set multiple times");
    assert_eq!(error("foo=1"), "foo=1: unknown field foo");
    assert_eq!(error("dl_src=x"), "dl_src=x: bad value for dl_src (x: invalid Ethernet address)");
}

#[test]
fn keys_and_values() {
    let mut text = " a=1, b(2,(3)) c:4,actions=x(1,2),y (5)->6";
    let all: Vec<_> = std::iter::from_fn(|| next_key_value(&mut text)).collect();
    assert_eq!(
        all,
        [("a", "1"), ("b", "2,(3)"), ("c", "4"), ("actions", "x(1,2)"), ("y", ""), ("", "5)->6")]
    );
}

proptest! {
    #[test]
    fn parsers_never_panic(key in "\\PC{0,12}", value in "[-+0-9a-fx:./|(),\\PC]{0,40}") {
        let _ = parse(&format!("{key}={value}"));
        for field in crate::FieldId::all() {
            let _ = field.parse_masked(&value, &NoNames);
        }
    }

    #[test]
    fn a_field_is_read_as_it_is_written(index in 0..135usize, value: u128, mask: u128) {
        let field = crate::FieldId::all().nth(index).unwrap();
        let info = field.info();
        prop_assume!(field.tlv_index().is_none());
        prop_assume!(info.form != crate::field::Form::PacketType && info.form != crate::field::Form::Frag);
        let full = crate::field::low_bits(8 * u32::from(info.n_bytes));
        let bitwise = info.maskable == crate::field::Maskable::Bitwise;
        let mask = if bitwise { mask & full & field.ones() } else { full };
        let mask = match field {
            crate::FieldId::CtState => mask & 0xff,
            crate::FieldId::TunFlags => full,
            _ => mask,
        };
        let value = if field.is_value_valid(value & field.ones()) { value & field.ones() & mask } else { 0 };
        prop_assume!(mask != 0);
        let value = match info.form { crate::field::Form::OfPort | crate::field::Form::OfPortOxm => 7, _ => value };
        let text = field.format(value, Some(mask), &NoNames);
        let (v, m) = field.parse_masked(&text, &NoNames).unwrap();
        prop_assert_eq!((v & m, m & field.ones()), (value & m, mask & field.ones()), "{}", text);
    }
}
