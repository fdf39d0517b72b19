//! Flows that a client of OpenFlow 1.0 adds, with the actions of that version.
//!
//! Later versions have other actions instead, so a client of OpenFlow 1.5 cannot send these. In OpenFlow 1.0 an action is
//! allowed even if it does not fit the match; then it has no effect on the packets that it does not fit.

use crate::bounds::TABLES;
use crate::kind::Kind;
use crate::pools::{IPS, PORTS, VLANS, mac, mac_text, port};
use crate::rng::Rng;
use crate::table::Table;

/// Priority of the first of these flows. It is higher than those of [`Table::random`], so that packets match these flows.
const PRIORITY: u64 = 2000;

/// The cookie of these flows, which selects them when flows are listed.
pub const COOKIE: &str = "cookie=0x10";

/// Adds some flows to a table.
pub fn add(rng: &mut Rng, table: &mut Table) {
    for n in 0..rng.between(3, 8) {
        // Most packets do not reach the other tables.
        let number = if rng.chance(70) { 0 } else { rng.between(1, TABLES - 1) };
        let mut words = vec![format!("{COOKIE},table={number},priority={}", PRIORITY - n)];
        words.extend(matching(rng));
        table.openflow10_flows.push(format!("{},actions={}", words.join(","), actions(rng, number)));
    }
}

fn matching(rng: &mut Rng) -> Vec<String> {
    use Kind::{Any, Arp, Icmp, Ip, Ip6, Mpls, Sctp, Tcp, Tcp6, Udp, Udp6};
    let kind = rng.pick(&[Any, Arp, Ip, Ip, Tcp, Tcp, Udp, Sctp, Icmp, Ip6, Tcp6, Udp6, Mpls]);
    let mut words: Vec<String> = kind.word().map(str::to_owned).into_iter().collect();
    // A flow that matches all packets would hide the flows with lower priorities.
    if kind == Any || rng.chance(50) {
        words.push(format!("in_port={}", rng.between(1, 6)));
    }
    if rng.chance(25) {
        let vid = rng.pick(&VLANS);
        let tag = [format!("dl_vlan={vid}"), format!("dl_vlan={vid},dl_vlan_pcp=3"), "dl_vlan=0xffff".into()];
        words.push(tag[rng.below(3) as usize].clone());
    }
    if kind.is_ip4() && rng.chance(30) {
        words.push(format!("nw_src={}/24", std::net::Ipv4Addr::from(rng.pick(&IPS))));
    }
    if matches!(kind, Tcp | Udp | Sctp | Tcp6 | Udp6) && rng.chance(30) {
        words.push(format!("tp_dst={}", rng.pick(&PORTS)));
    }
    words
}

fn actions(rng: &mut Rng, table: u64) -> String {
    let mut list = Vec::new();
    for _ in 0..rng.between(1, 2) {
        list.extend((0..rng.between(1, 3)).map(|_| change(rng)));
        list.push(match rng.below(10) {
            0..2 => "NORMAL".to_owned(),
            2 => format!("enqueue:{}:1", rng.between(1, 6)),
            3 => format!("clone({},output:{})", change(rng), rng.between(1, 6)),
            4..7 if table + 1 < TABLES => format!("resubmit(,{})", rng.between(table + 1, TABLES - 1)),
            _ => format!("output:{}", port(rng)),
        });
    }
    list.join(",")
}

fn change(rng: &mut Rng) -> String {
    let address = |rng: &mut Rng| std::net::Ipv4Addr::from(rng.pick(&IPS));
    match rng.below(13) {
        0..2 => format!("mod_vlan_vid:{}", rng.pick(&VLANS)),
        2..5 => format!("mod_vlan_pcp:{}", rng.below(8)),
        5 => "strip_vlan".to_owned(),
        6 => format!("{}:{}", rng.pick(&["mod_dl_src", "mod_dl_dst"]), mac_text(mac(rng))),
        7 => format!("{}:{}", rng.pick(&["mod_nw_src", "mod_nw_dst"]), address(rng)),
        8 => format!("mod_nw_tos:{}", 4 * rng.below(64)),
        9 => format!(
            "{}:{}",
            rng.pick(&["mod_nw_ttl:9,mod_nw_tos", "mod_nw_ecn:2,mod_nw_tos"]),
            4 * rng.below(64)
        ),
        _ => format!("{}:{}", rng.pick(&["mod_tp_src", "mod_tp_dst"]), rng.pick(&PORTS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_of_version_1_0_occurs() {
        let (mut rng, mut table) = (Rng::new(1), Table::default());
        (0..100).for_each(|_| add(&mut rng, &mut table));
        let text = table.openflow10_flows.join("\n");
        for action in [
            "mod_vlan_vid:",
            "mod_vlan_pcp:",
            "strip_vlan",
            "mod_dl_src:",
            "mod_dl_dst:",
            "mod_nw_src:",
            "mod_nw_dst:",
            "mod_nw_tos:",
            "mod_nw_ecn:",
            "mod_nw_ttl:",
            "mod_tp_src:",
            "mod_tp_dst:",
            "enqueue:",
        ] {
            assert!(text.contains(action), "{action}");
        }
        assert!(text.lines().all(|line| line.starts_with(COOKIE) && line.contains(",actions=")));
    }
}
