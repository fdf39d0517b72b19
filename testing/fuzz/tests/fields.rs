//! Checks that a match on any field, with values and masks of its form and in each kind of packet that may have it, is equal after
//! it was printed and parsed again. A search finds these combinations slowly, because there are many fields.

use flow::FieldId;
use flow::field::Form;
use fuzz::find;
use std::panic;

/// The kinds of packets with which fields are combined.
const KINDS: [&str; 19] = [
    "",
    "ip",
    "ipv6",
    "arp",
    "mpls",
    "tcp",
    "tcp6",
    "sctp",
    "icmp",
    "icmp6",
    "icmp6,icmp_type=135,icmp_code=0",
    "icmp6,icmp_type=135,icmp_code=1",
    "icmp6,icmp_type=136",
    "arp,arp_op=1",
    "ct_state=+trk+est,ip",
    "vlan_tci=0x1000/0x1000",
    "dl_type=0x894f",
    "dl_type=0x894f,nsh_mdtype=2,tun_erspan_ver=1",
    "packet_type=(1,0x800)",
];

/// Texts for fields of this form: values, of which every second one is also used as a mask.
fn texts(form: Form) -> &'static [&'static str] {
    match form {
        Form::Ethernet => {
            &["00:00:00:00:00:00", "02:00:00:00:00:01", "01:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"]
        }
        Form::Ipv4 => &["0.0.0.0", "10.1.2.3", "255.0.255.0", "255.255.255.255", "8", "32"],
        Form::Ipv6 => &["::", "fe80::1", "ffff::", "::ffff:1.2.3.4", "64", "128"],
        Form::OfPort | Form::OfPortOxm => &["0", "1", "65535", "LOCAL", "NONE", "ANY", "UNSET", "*"],
        Form::Frag => &["no", "yes", "first", "later", "not_later"],
        Form::CtState => &["+trk", "-trk+est", "trk|est", "0", "1", "0xff", "*"],
        Form::TcpFlags => &["+syn-ack", "syn", "0", "2", "0xfff", "0xffff", "0x1000"],
        Form::TunnelFlags => &["oam", "+oam", "-oam", "0", "1"],
        Form::PacketType => &["(0,0)", "(1,2)", "(1,0x894f)", "(65535,65535)"],
        Form::Decimal | Form::Hex => &["0", "1", "6", "0x5a", "0xff", "0x1001", "0xffff", "0xffffff00", "-1"],
    }
}

/// Returns whether a field is checked: of fields that differ only in their number, only the first is.
fn is_first(field: FieldId) -> bool {
    let name = field.info().name;
    let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
    !["reg", "xreg", "xxreg", "tun_metadata"].contains(&kind)
        || name.ends_with("g0")
        || name == "tun_metadata0"
}

/// Returns matches on a field, without those on other fields.
fn matches_on(field: FieldId) -> Vec<String> {
    let (name, texts) = (field.info().name, texts(field.info().form));
    let masked = texts.iter().flat_map(|v| texts.iter().step_by(2).map(move |m| format!("{name}={v}/{m}")));
    let bits =
        ["[0]=0", "[0]=1", "[1]=0", "[1]=1", "[0..1]=2", "[4..7]=5", "[]=3"].map(|b| format!("{name}{b}"));
    texts.iter().map(|v| format!("{name}={v}")).chain(masked).chain(bits).chain([name.to_owned()]).collect()
}

#[test]
fn every_field_survives_parsing_and_printing() {
    let target = find("flow-text").unwrap();
    for text in FieldId::all().filter(|f| is_first(*f)).flat_map(matches_on) {
        for kind in KINDS {
            let line = format!("{kind},{text},actions=drop");
            let run = panic::catch_unwind(|| (target.run)(line.as_bytes()));
            assert!(run.is_ok(), "{line}");
        }
    }
}
