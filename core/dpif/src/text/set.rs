//! Prints and parses `set` actions; their text is that of the part of a key that they change.

use super::key_printer::KeyWriter;
use super::names::NoNames;
use super::{nsh, tunnel_key};
use crate::set_field::{
    ArpKey, EthKey, IcmpKey, Ipv4Key, Ipv6Key, Masked, NdExtKey, NdKey, PortsKey, SetField,
};
use flow::Flow;

/// The argument of a `set` action: `name(fields)`.
pub(super) fn set_text(set: &SetField) -> String {
    if let SetField::Tunnel(t) = set {
        let options = tunnel_key::Options { bytes: &t.geneve_options, mask: None, show_empty: false };
        return format!("tunnel({})", tunnel_key::tunnel(&t.key, None, options, true));
    }
    let (mut key, mut mask) = (Flow::ZERO, Flow::ZERO);
    to_flows(set, &mut key, &mut mask);
    let mut w = KeyWriter::new(&key, Some(&mask), false, &NoNames);
    // The header is printed even if the mask is empty.
    w.empty_parts = true;
    match set {
        SetField::Priority(_) => w.skb_priority(),
        SetField::Mark(_) => w.skb_mark(),
        SetField::Eth(_) => w.eth(),
        SetField::Ipv4(_) => w.ipv4(),
        SetField::Ipv6(_) => w.ipv6(),
        SetField::Tcp(_) => w.ports("tcp"),
        SetField::Udp(_) => w.ports("udp"),
        SetField::Sctp(_) => w.ports("sctp"),
        SetField::Icmp(_) => w.icmp("icmp"),
        SetField::Icmpv6(_) => w.icmp("icmpv6"),
        SetField::Arp(_) => w.arp(),
        SetField::Nd(_) => w.nd(),
        SetField::NdExt(_) => w.nd_ext(),
        SetField::Mpls(_) => w.mpls_entries(1),
        SetField::Nsh(m) if m.mask == Flow::ONES.nsh => {
            return format!("nsh({})", nsh::fields(&m.value, None));
        }
        SetField::Nsh(m) => return format!("nsh({})", nsh::fields(&m.value, Some(&m.mask))),
        SetField::Tunnel(_) => {}
    }
    w.parts.join(",")
}

fn to_flows(set: &SetField, key: &mut Flow, mask: &mut Flow) {
    match set {
        SetField::Priority(m) => (key.skb_priority, mask.skb_priority) = (m.value, m.mask),
        SetField::Mark(m) => (key.pkt_mark, mask.pkt_mark) = (m.value, m.mask),
        SetField::Eth(m) => write_both(m, key, mask, |f, k| (f.dl_src, f.dl_dst) = (k.src, k.dst)),
        SetField::Ipv4(m) => write_both(m, key, mask, |f, k| {
            (f.nw_src, f.nw_dst, f.nw_proto) = (k.src, k.dst, k.proto);
            (f.nw_tos, f.nw_ttl, f.nw_frag) = (k.tos, k.ttl, k.frag);
        }),
        SetField::Ipv6(m) => write_both(m, key, mask, |f, k| {
            (f.ipv6_src, f.ipv6_dst, f.ipv6_label, f.nw_proto) = (k.src, k.dst, k.label, k.proto);
            (f.nw_tos, f.nw_ttl, f.nw_frag) = (k.tclass, k.hlimit, k.frag);
        }),
        SetField::Tcp(m) | SetField::Udp(m) | SetField::Sctp(m) => {
            write_both(m, key, mask, |f, k| (f.tp_src, f.tp_dst) = (k.src, k.dst));
        }
        SetField::Icmp(m) | SetField::Icmpv6(m) => {
            write_both(m, key, mask, |f, k| (f.tp_src, f.tp_dst) = (k.icmp_type.into(), k.code.into()));
        }
        SetField::Arp(m) => write_both(m, key, mask, |f, k| {
            (f.nw_src, f.nw_dst, f.nw_proto) = (k.sip, k.tip, k.op as u8);
            (f.arp_sha, f.arp_tha) = (k.sha, k.tha);
        }),
        SetField::Nd(m) => write_both(m, key, mask, |f, k| {
            (f.nd_target, f.arp_sha, f.arp_tha) = (k.target, k.sll, k.tll);
        }),
        SetField::NdExt(m) => write_both(m, key, mask, |f, k| {
            (f.igmp_group_ip4, f.tcp_flags) = (k.reserved, k.options_type.into());
        }),
        SetField::Mpls(m) => (key.mpls_lse[0], mask.mpls_lse[0]) = (m.value, m.mask),
        SetField::Nsh(_) | SetField::Tunnel(_) => {}
    }
}

fn write_both<T>(m: &Masked<T>, key: &mut Flow, mask: &mut Flow, write: impl Fn(&mut Flow, &T)) {
    write(key, &m.value);
    write(mask, &m.mask);
}

/// The write for a parsed part of a key; `None` if no action can write this part.
pub(super) fn from_flows(part: &str, key: &Flow, mask: &Flow) -> Option<SetField> {
    fn masked<T>(key: &Flow, mask: &Flow, get: impl Fn(&Flow) -> T) -> Masked<T> {
        Masked::new(get(key), get(mask))
    }
    let ports = |f: &Flow| PortsKey { src: f.tp_src, dst: f.tp_dst };
    let icmp = |f: &Flow| IcmpKey { icmp_type: f.tp_src as u8, code: f.tp_dst as u8 };
    Some(match part {
        "skb_priority" => SetField::Priority(masked(key, mask, |f| f.skb_priority)),
        "skb_mark" => SetField::Mark(masked(key, mask, |f| f.pkt_mark)),
        "eth" => SetField::Eth(masked(key, mask, |f| EthKey { src: f.dl_src, dst: f.dl_dst })),
        "ipv4" => SetField::Ipv4(masked(key, mask, |f| Ipv4Key {
            src: f.nw_src,
            dst: f.nw_dst,
            proto: f.nw_proto,
            tos: f.nw_tos,
            ttl: f.nw_ttl,
            frag: f.nw_frag,
        })),
        "ipv6" => SetField::Ipv6(Box::new(masked(key, mask, |f| Ipv6Key {
            src: f.ipv6_src,
            dst: f.ipv6_dst,
            label: f.ipv6_label,
            proto: f.nw_proto,
            tclass: f.nw_tos,
            hlimit: f.nw_ttl,
            frag: f.nw_frag,
        }))),
        "tcp" => SetField::Tcp(masked(key, mask, ports)),
        "udp" => SetField::Udp(masked(key, mask, ports)),
        "sctp" => SetField::Sctp(masked(key, mask, ports)),
        "icmp" => SetField::Icmp(masked(key, mask, icmp)),
        "icmpv6" => SetField::Icmpv6(masked(key, mask, icmp)),
        "arp" => {
            let arp =
                |f: &Flow, op| ArpKey { sip: f.nw_src, tip: f.nw_dst, op, sha: f.arp_sha, tha: f.arp_tha };
            let op_mask = if mask.nw_proto == 0xff { 0xffff } else { mask.nw_proto.into() };
            SetField::Arp(Masked::new(arp(key, key.nw_proto.into()), arp(mask, op_mask)))
        }
        "nd" => SetField::Nd(Box::new(masked(key, mask, |f| NdKey {
            target: f.nd_target,
            sll: f.arp_sha,
            tll: f.arp_tha,
        }))),
        "nd_ext" => SetField::NdExt(masked(key, mask, |f| NdExtKey {
            reserved: f.igmp_group_ip4,
            options_type: f.tcp_flags as u8,
        })),
        "nsh" => SetField::Nsh(Box::new(masked(key, mask, |f| f.nsh))),
        "mpls" => SetField::Mpls(masked(key, mask, |f| f.mpls_lse[0])),
        _ => return None,
    })
}
