//! The `set` action.

use super::{address, ether, icmp, mpls, nsh, transport};
use crate::packet::{Packet, Rare};
use dpif::{Masked, SetField};
use flow::Tlv;
use packet::ipproto;

/// Writes the fields into one packet.
pub fn set(p: &mut Packet, field: &SetField) {
    match field {
        SetField::Priority(m) => merge(&mut p.meta.skb_priority, m),
        SetField::Mark(m) => merge(&mut p.meta.pkt_mark, m),
        SetField::Eth(m) => ether::set(p, m),
        SetField::Ipv4(m) => address::set_ipv4(p, m),
        SetField::Ipv6(m) => address::set_ipv6(p, m),
        SetField::Tcp(m) => transport::set_ports(p, ipproto::TCP, m),
        SetField::Udp(m) => transport::set_ports(p, ipproto::UDP, m),
        SetField::Sctp(m) => transport::set_sctp_ports(p, m),
        SetField::Icmp(m) => icmp::set(p, ipproto::ICMP, m),
        SetField::Icmpv6(m) => icmp::set(p, ipproto::ICMPV6, m),
        SetField::Arp(m) => address::set_arp(p, m),
        SetField::Nd(m) => icmp::set_nd(p, m),
        SetField::NdExt(m) => icmp::set_nd_ext(p, m),
        SetField::Mpls(m) => mpls::set(p, m.value, m.mask),
        SetField::Nsh(m) => nsh::set(p, m),
        SetField::Tunnel(t) => {
            let rare = p.meta.rare.get_or_insert_with(|| Box::new(Rare::default()));
            rare.tunnel = t.key;
            let options = Tlv::from_options(&t.geneve_options).filter(|o| o.present != 0);
            rare.options = options.map(Box::new);
        }
    }
}

fn merge(word: &mut u32, m: &Masked<u32>) {
    *word = *word & !m.mask | m.value & m.mask;
}
