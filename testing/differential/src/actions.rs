//! Random actions, instructions and groups as text.

use crate::pools::{IPS, PORTS, VLANS, ip6, mac, mac_text};
use crate::rng::Rng;
use crate::table::TABLES;

/// What a flow's match says of the packet: which fields its actions may then set.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Any,
    Arp,
    Ip,
    Tcp,
    Udp,
    Sctp,
    Icmp,
    Ip6,
    Tcp6,
    Udp6,
    Icmp6,
    Nd,
    Mpls,
}

impl Kind {
    /// The word of a match for it.
    pub fn word(self) -> Option<&'static str> {
        Some(match self {
            Kind::Any => return None,
            Kind::Arp => "arp",
            Kind::Ip => "ip",
            Kind::Tcp => "tcp",
            Kind::Udp => "udp",
            Kind::Sctp => "sctp",
            Kind::Icmp => "icmp",
            Kind::Ip6 => "ipv6",
            Kind::Tcp6 => "tcp6",
            Kind::Udp6 => "udp6",
            Kind::Icmp6 | Kind::Nd => "icmp6",
            Kind::Mpls => "mpls",
        })
    }

    /// Whether the packet is IPv6.
    pub fn is_ip6(self) -> bool {
        matches!(self, Kind::Ip6 | Kind::Tcp6 | Kind::Udp6 | Kind::Icmp6 | Kind::Nd)
    }

    fn is_ip4(self) -> bool {
        matches!(self, Kind::Ip | Kind::Tcp | Kind::Udp | Kind::Sctp | Kind::Icmp)
    }
}

/// The actions of a flow of table `table`; groups 1 to `groups` exist.
pub fn list(rng: &mut Rng, kind: Kind, table: u64, groups: u64) -> String {
    if rng.chance(4) {
        return "drop".to_owned();
    }
    let mut list: Vec<String> = Vec::new();
    for _ in 0..rng.between(0, 2) {
        list.push(change(rng, kind));
    }
    list.push(end(rng, kind, table, groups, 0));
    if rng.chance(35) {
        list.push(change(rng, kind));
        list.push(end(rng, kind, table, groups, 0));
    }
    instructions(rng, kind, table, &mut list);
    list.join(",")
}

fn instructions(rng: &mut Rng, kind: Kind, table: u64, list: &mut Vec<String>) {
    if rng.chance(4) {
        list.push("clear_actions".to_owned());
    }
    if rng.chance(10) {
        let mut written = vec![format!("output:{}", port(rng))];
        if rng.chance(50) {
            written.insert(0, set(rng, kind));
        }
        list.push(format!("write_actions({})", written.join(",")));
    }
    if rng.chance(10) {
        list.push(format!("write_metadata:{:#x}{}", rng.below(4), rng.pick(&["", "/0x3", "/0xff"])));
    }
    if table + 1 < TABLES && rng.chance(25) {
        list.push(format!("goto_table:{}", rng.between(table + 1, TABLES - 1)));
    }
}

fn port(rng: &mut Rng) -> u64 {
    rng.pick(&[1, 2, 3, 4, 5, 6, 10])
}

/// An action that sends the packet somewhere.
fn end(rng: &mut Rng, kind: Kind, table: u64, groups: u64, depth: u32) -> String {
    match rng.below(22) {
        0..6 => format!("output:{}", port(rng)),
        6..9 => "NORMAL".to_owned(),
        9 => "FLOOD".to_owned(),
        10 => rng.pick(&["ALL", "IN_PORT", "IN_PORT", "LOCAL"]).to_owned(),
        11..15 if table + 1 < TABLES => format!("resubmit(,{})", rng.between(table + 1, TABLES - 1)),
        15 if table + 1 < TABLES => format!("resubmit({},{})", port(rng), rng.between(table + 1, TABLES - 1)),
        16..18 if groups > 0 => format!("group:{}", rng.between(1, groups)),
        18 if depth == 0 => {
            let inner = [change(rng, kind), end(rng, kind, table, groups, depth + 1)];
            format!("clone({})", inner.join(","))
        }
        19 => learn(rng, kind),
        20 => rng
            .pick(&[
                "CONTROLLER:128",
                "controller(reason=no_match,max_len=64)",
                "output:reg0[]",
                "output:NXM_NX_REG1[0..15]",
            ])
            .to_owned(),
        _ => format!("output:{}", port(rng)),
    }
}

fn learn(rng: &mut Rng, kind: Kind) -> String {
    let table = TABLES;
    match rng.below(3) {
        0 => format!(
            "learn(table={table},hard_timeout=600,NXM_OF_VLAN_TCI[0..11],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[])"
        ),
        1 if kind.is_ip4() => {
            format!(
                "learn(table={table},priority=7,eth_type=0x800,nw_dst=10.0.0.1,NXM_OF_IP_SRC[],load:NXM_OF_IN_PORT[]->NXM_NX_REG0[0..15])"
            )
        }
        _ => format!(
            "learn(table={table},cookie=0x5,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],load:0x3->NXM_NX_REG2[0..7])"
        ),
    }
}

/// An action that changes the packet or what goes with it.
fn change(rng: &mut Rng, kind: Kind) -> String {
    match rng.below(20) {
        0..7 => set(rng, kind),
        7 => "strip_vlan".to_owned(),
        8 => "pop_vlan".to_owned(),
        9 => format!("push_vlan:0x8100,set_field:{}->vlan_vid", 4096 + rng.pick(&VLANS)),
        10 => format!("mod_vlan_vid:{}", rng.pick(&VLANS)),
        11 => format!("mod_vlan_pcp:{}", rng.below(8)),
        12 => moved(rng, kind),
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
        _ => set(rng, kind),
    }
}

fn moved(rng: &mut Rng, kind: Kind) -> String {
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

/// A set-field that packets of `kind` can bear.
fn set(rng: &mut Rng, kind: Kind) -> String {
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

/// A line that adds group `id`.
pub fn group(rng: &mut Rng, id: u64) -> String {
    let all = rng.chance(70);
    let mut line = format!("group add group_id={id},type={}", if all { "all" } else { "indirect" });
    for _ in 0..if all { rng.between(1, 3) } else { 1 } {
        let mut bucket = vec![change(rng, Kind::Any), format!("output:{}", port(rng))];
        if rng.chance(30) {
            bucket[1] = format!("resubmit(,{})", TABLES - 1);
        }
        if rng.chance(30) {
            bucket.remove(0);
        }
        line.push_str(&format!(",bucket=actions={}", bucket.join(",")));
    }
    line
}
