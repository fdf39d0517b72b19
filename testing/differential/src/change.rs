//! Random actions that change a packet or its metadata.

use crate::kind::Kind;
use crate::pools::{IPS, PORTS, VLANS, ip6, mac, mac_text};
use crate::rng::Rng;

/// A random action that changes the packet or its metadata.
pub fn change(rng: &mut Rng, kind: Kind) -> String {
    match rng.below(28) {
        0..7 => set(rng, kind),
        7 => "strip_vlan".to_owned(),
        8 => "pop_vlan".to_owned(),
        9 => {
            let tag = rng.pick(&["0x8100", "0x8100", "0x88a8"]);
            format!("push_vlan:{tag},set_field:{}->vlan_vid", 4096 + rng.pick(&VLANS))
        }
        10 => format!("mod_vlan_vid:{}", rng.pick(&VLANS)),
        11 => format!("mod_vlan_pcp:{}", rng.below(8)),
        12 => move_field(rng, kind),
        13 => format!("push:NXM_NX_REG{0}[],pop:NXM_NX_REG{1}[]", rng.below(3), rng.below(3)),
        14 => {
            "push:NXM_OF_ETH_SRC[],push:NXM_OF_ETH_DST[],pop:NXM_OF_ETH_SRC[],pop:NXM_OF_ETH_DST[]".to_owned()
        }
        15 if kind.is_ip4() || kind.is_ip6() => "dec_ttl".to_owned(),
        15 if kind == Kind::Mpls => "dec_mpls_ttl".to_owned(),
        16 => format!(
            "load:{:#x}->NXM_NX_REG{}[{}]",
            rng.below(4),
            rng.below(3),
            rng.pick(&["", "0..7", "8..15"])
        ),
        17 => format!("set_field:{:#x}->reg{}", rng.below(8), rng.below(3)),
        18 => format!("set_field:{:#x}/0x3->metadata", rng.below(4)),
        19 => multipath(rng, kind),
        20 => "note:00.01.02".to_owned(),
        21 => format!("check_pkt_larger({})->NXM_NX_REG{}[0]", rng.pick(&[60, 64, 70]), rng.below(3)),
        22 => rng.pick(&["set_queue:1", "pop_queue", "ct_clear"]).to_owned(),
        23 => rng
            .pick(
                &["sample(probability=100,collector_set_id=1)", "fin_timeout(idle_timeout=5)"]
                    [..if matches!(kind, Kind::Tcp | Kind::Tcp6) { 2 } else { 1 }],
            )
            .to_owned(),
        24 => tunnel(rng),
        25 => wide_register(rng),
        26 => rare_field(rng, kind),
        _ => set(rng, kind),
    }
}

/// The fields that `multipath` and `bundle` hash. `symmetric_l3l4` is used for IP packets only: for others, the stock switch hashes
/// addresses that its megaflows do not match, so the first packet of a megaflow decides for all of them.
pub fn hash_fields(rng: &mut Rng, kind: Kind) -> &'static str {
    let all = [
        "eth_src",
        "nw_src",
        "nw_dst",
        "symmetric_l4",
        "symmetric_l3",
        "symmetric_l3l4",
        "symmetric_l3l4+udp",
    ];
    rng.pick(if kind.is_ip4() || kind.is_ip6() { &all } else { &all[..5] })
}

fn multipath(rng: &mut Rng, kind: Kind) -> String {
    format!(
        "multipath({},{},{},{},{},NXM_NX_REG{}[0..7])",
        hash_fields(rng, kind),
        rng.below(3),
        rng.pick(&["modulo_n", "hash_threshold", "hrw", "iter_hash"]),
        rng.between(1, 5),
        rng.below(3),
        rng.below(3)
    )
}

/// An action on a field of a tunnel's outer header. The packet is not sent to a tunnel, but later matches see the field.
fn tunnel(rng: &mut Rng) -> String {
    rng.pick(&[
        "set_field:5->tun_id",
        "set_field:0x1/0x3->tun_id",
        "set_field:10.0.0.1->tun_src",
        "set_field:10.0.0.2->tun_dst",
        "set_field:2001:db8::1->tun_ipv6_src",
        "set_field:0x1234->tun_metadata0",
        "set_field:0x1->tun_metadata1",
        "delete_field:tun_metadata0",
        "move:NXM_NX_TUN_ID[0..31]->NXM_NX_REG1[]",
        "load:0x1->NXM_NX_TUN_FLAGS[0]",
        "set_field:3->tun_gbp_id",
    ])
    .to_owned()
}

/// An action on registers of all widths.
fn wide_register(rng: &mut Rng) -> String {
    let n = rng.below(4);
    match rng.below(6) {
        0 => format!("set_field:{n:#x}->xreg{}", rng.below(3)),
        1 => format!("set_field:{n:#x}/0xf->xxreg0"),
        2 => "move:NXM_NX_XXREG0[0..63]->NXM_NX_XXREG1[64..127]".to_owned(),
        3 => format!("load:{}->NXM_NX_REG{}[31]", n & 1, rng.pick(&[3, 7, 15])),
        4 => "push:NXM_NX_XXREG0[],pop:NXM_NX_XXREG1[]".to_owned(),
        _ => format!("load:{n}->NXM_OF_IN_PORT[]"),
    }
}

/// An action on a header field that is rarely written.
fn rare_field(rng: &mut Rng, kind: Kind) -> String {
    match kind {
        Kind::Nsh => rng
            .pick(&[
                "set_field:0x123->nsh_spi",
                "set_field:7->nsh_si",
                "set_field:9->nsh_ttl",
                "set_field:0xab->nsh_c1",
                "set_field:1->nsh_flags",
                "dec_nsh_ttl",
                "move:NXM_NX_REG0[]->NXM_NX_NSH_C2[]",
            ])
            .to_owned(),
        Kind::Mpls => rng.pick(&["set_field:3->mpls_ttl", "dec_mpls_ttl"]).to_owned(),
        Kind::Rarp => "set_field:4->arp_op".to_owned(),
        Kind::Icmp6 => rng.pick(&["set_field:129->icmpv6_type", "set_field:1->icmpv6_code"]).to_owned(),
        Kind::Icmp => {
            rng.pick(&["set_field:1->icmp_code", "move:NXM_OF_ICMP_TYPE[]->NXM_NX_REG0[0..7]"]).to_owned()
        }
        Kind::Nd => "set_field:5->nd_reserved".to_owned(),
        Kind::Tcp => "move:NXM_OF_TCP_SRC[]->NXM_OF_TCP_DST[]".to_owned(),
        Kind::Udp6 => "move:NXM_OF_UDP_SRC[]->NXM_NX_REG1[0..15]".to_owned(),
        k if k.is_ip6() => {
            rng.pick(&["set_field:5->ipv6_label", "move:NXM_NX_IPV6_SRC[0..31]->NXM_NX_REG0[]"]).to_owned()
        }
        k if k.is_ip4() => rng
            .pick(&["dec_ttl(1,2)", "mod_nw_src:10.9.9.9", "move:NXM_OF_IP_TOS[2..7]->NXM_NX_REG0[0..5]"])
            .to_owned(),
        _ => set(rng, kind),
    }
}

fn move_field(rng: &mut Rng, kind: Kind) -> String {
    if kind.is_ip4() && rng.chance(40) {
        return rng
            .pick(&["move:NXM_OF_IP_SRC[]->NXM_OF_IP_DST[]", "move:NXM_OF_IP_DST[]->NXM_NX_REG0[]"])
            .to_owned();
    }
    rng.pick(&[
        "move:NXM_OF_IN_PORT[]->NXM_NX_REG0[0..15]",
        "move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]",
        "move:NXM_NX_REG0[0..7]->NXM_NX_REG1[8..15]",
        "move:NXM_OF_VLAN_TCI[0..11]->NXM_NX_REG1[0..11]",
        "move:OXM_OF_METADATA[0..31]->NXM_NX_REG2[]",
    ])
    .to_owned()
}

/// A random write of a field that packets of `kind` have.
pub fn set(rng: &mut Rng, kind: Kind) -> String {
    let ethernet = |rng: &mut Rng| match rng.below(4) {
        0 => format!(
            "set_field:{}/00:00:00:00:00:0f->eth_dst",
            mac_text([0, 0, 0, 0, 0, rng.between(1, 5) as u8])
        ),
        1 => format!("set_field:{}->pkt_mark", rng.below(4)),
        _ => format!("set_field:{}->{}", mac_text(mac(rng)), rng.pick(&["eth_src", "eth_dst"])),
    };
    if rng.chance(35) {
        return ethernet(rng);
    }
    let v4 = |rng: &mut Rng| std::net::Ipv4Addr::from(rng.pick(&IPS));
    match (kind, rng.below(4)) {
        (Kind::Arp, 0) => format!("set_field:{}->arp_op", rng.between(1, 3)),
        (Kind::Arp, 1) => format!("set_field:{}->{}", mac_text(mac(rng)), rng.pick(&["arp_sha", "arp_tha"])),
        (Kind::Arp, _) => format!("set_field:{}->{}", v4(rng), rng.pick(&["arp_spa", "arp_tpa"])),
        (Kind::Mpls, _) => {
            rng.pick(&["set_field:17->mpls_label", "set_field:2->mpls_tc", "set_mpls_ttl(9)"]).to_owned()
        }
        (Kind::Tcp | Kind::Tcp6, 0 | 1) => {
            format!("set_field:{}->{}", rng.pick(&PORTS), rng.pick(&["tcp_src", "tcp_dst"]))
        }
        (Kind::Udp | Kind::Udp6, 0 | 1) => {
            format!("set_field:{}->{}", rng.pick(&PORTS), rng.pick(&["udp_src", "udp_dst"]))
        }
        (Kind::Sctp, 0 | 1) => format!("set_field:{}->sctp_dst", rng.pick(&PORTS)),
        (Kind::Icmp, 0) => format!("set_field:{}->icmp_type", rng.pick(&[0, 8])),
        (Kind::Nd, 0) => format!("set_field:{}->nd_target", std::net::Ipv6Addr::from(ip6(rng))),
        (k, 2) if k.is_ip4() || k.is_ip6() => rng
            .pick(&["set_field:9->nw_ttl", "mod_nw_tos:16", "set_field:2->nw_ecn", "set_field:5->ip_dscp"])
            .to_owned(),
        (k, _) if k.is_ip4() => match rng.below(4) {
            0 => format!("set_field:0.0.0.{}/0.0.0.255->{}", rng.below(9), rng.pick(&["ip_src", "ip_dst"])),
            _ => format!("set_field:{}->{}", v4(rng), rng.pick(&["ip_src", "ip_dst"])),
        },
        (k, _) if k.is_ip6() => {
            format!(
                "set_field:{}->{}",
                std::net::Ipv6Addr::from(ip6(rng)),
                rng.pick(&["ipv6_src", "ipv6_dst"])
            )
        }
        _ => ethernet(rng),
    }
}
