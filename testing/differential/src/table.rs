//! Random OpenFlow tables, in the syntax of `ovs-ofctl bundle`.
//!
//! Priorities are unique in a table, except for the flows of a conjunction. The standard does not define which of two
//! matching flows with equal priority applies, so with equal priorities a difference would mean nothing.

use crate::bounds::TABLES;
use crate::kind::Kind;
use crate::pools::{VLANS, ip_text, ip6_text, mac, mac_text, port_text};
use crate::rng::Rng;
use crate::{actions, groups};

/// Deletes all flows and groups of the bridge.
const EMPTY: &str = "flow delete\ngroup delete group_id=all\n";

/// The flows and groups of a case: lines for `ovs-ofctl bundle`.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// `group add ...` lines.
    pub groups: Vec<String>,
    /// `flow add ...` lines.
    pub flows: Vec<String>,
    /// Flows that a client of OpenFlow 1.0 adds afterwards, in the syntax of `ovs-ofctl add-flows`.
    pub openflow10_flows: Vec<String>,
}

impl Table {
    /// Creates a random table of about `size` flows.
    pub fn random(rng: &mut Rng, size: u64) -> Table {
        let mut table = Table::default();
        for id in 1..=rng.below(4) {
            table.groups.push(groups::group(rng, id));
        }
        let groups = table.groups.len() as u64;
        let mut priority = 1000;
        for n in 0..size {
            // Half of the flows are in the first table, so that enough packets reach the other tables.
            let number = if n % 2 == 0 { 0 } else { rng.between(1, TABLES - 1) };
            priority -= 1;
            if rng.chance(4) {
                conjunction(rng, &mut table.flows, number, priority, groups);
                continue;
            }
            let kind = kind(rng);
            let mut words = vec![format!("table={number},priority={priority}")];
            words.extend(matching(rng, kind));
            let matches_vlan = words.iter().any(|w| w.contains("vlan"));
            let matches_no_tag = words.iter().any(|w| w == NO_TAG);
            let actions = actions_with_pops(rng, kind, number, groups, u64::from(!matches_no_tag));
            // The actions can pop a tag only if the match requires one.
            if !matches_vlan && pops(&actions) > 0 {
                words.push("vlan_tci=0x1000/0x1000".to_owned());
            }
            // A packet can be resubmitted with the addresses of its connection only if the match requires that it was tracked.
            if actions.contains(",ct)") && !words.iter().any(|w| w == "ct_state=+trk") {
                words.retain(|w| !w.starts_with("ct_state="));
                words.push("ct_state=+trk".to_owned());
            }
            table.flows.push(format!("flow add {},actions={actions}", words.join(",")));
        }
        for number in 0..TABLES {
            if rng.chance(85) {
                let actions = actions_with_pops(rng, Kind::Any, number, groups, 0);
                table.flows.push(format!("flow add table={number},priority=1,actions={actions}"));
            }
        }
        table
    }

    /// Returns whether any flow or group has a `learn` action.
    pub fn learns(&self) -> bool {
        self.groups.iter().chain(&self.flows).any(|l| l.contains("learn("))
    }

    /// Removes the flow or group in the line of [`Table::bundle`] with this number, counted from 1. Returns whether there is one.
    pub fn remove(&mut self, line: Option<usize>) -> bool {
        let Some(at) = line.and_then(|l| l.checked_sub(EMPTY.lines().count() + 1)) else { return false };
        let flow = at.checked_sub(self.groups.len());
        let list = if flow.is_some() { &mut self.flows } else { &mut self.groups };
        let at = flow.unwrap_or(at);
        let exists = at < list.len();
        if exists {
            list.remove(at);
        }
        exists
    }

    /// Returns the text of a bundle that replaces all flows and groups of the bridge by this table.
    pub fn bundle(&self) -> String {
        let mut text = EMPTY.to_owned();
        for line in self.groups.iter().chain(&self.flows) {
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

fn kind(rng: &mut Rng) -> Kind {
    use Kind::{Any, Arp, Icmp, Icmp6, Ip, Ip6, Mpls, Nd, Nsh, Rarp, Sctp, Tcp, Tcp6, Udp, Udp6};
    rng.pick(&[
        Any, Any, Any, Any, Arp, Ip, Ip, Ip, Tcp, Tcp, Tcp, Udp, Udp, Sctp, Icmp, Ip6, Ip6, Tcp6, Udp6,
        Icmp6, Nd, Mpls, Mpls, Nsh, Rarp,
    ])
}

/// A match on frames without a VLAN tag.
const NO_TAG: &str = "vlan_tci=0x0000/0x1fff";

/// Random actions that pop at most `max` tags: as many as the match can require, because OpenFlow allows no pop of a tag that the match
/// does not require.
fn actions_with_pops(rng: &mut Rng, kind: Kind, table: u64, groups: u64, max: u64) -> String {
    loop {
        let actions = actions::list(rng, kind, table, groups);
        if pops(&actions) <= max {
            return actions;
        }
    }
}

fn pops(actions: &str) -> u64 {
    ["strip_vlan", "pop_vlan"].iter().map(|a| actions.matches(a).count() as u64).sum()
}

/// Adds the flows of a conjunction, and the flow that matches it.
fn conjunction(rng: &mut Rng, flows: &mut Vec<String>, table: u64, priority: u64, groups: u64) {
    let id = priority;
    for dimension in 1..=2 {
        for _ in 0..rng.between(1, 2) {
            let field = if dimension == 1 { "nw_src" } else { "nw_dst" };
            let address = ip_text(rng);
            flows.push(format!(
                "flow add table={table},priority={priority},ip,{field}={address},actions=conjunction({id},{dimension}/2)"
            ));
        }
    }
    let actions = actions_with_pops(rng, Kind::Ip, table, groups, 0);
    flows.push(format!("flow add table={table},priority={priority},conj_id={id},ip,actions={actions}"));
}

/// A random match on packets of `kind`. Some of these match no packet.
fn matching(rng: &mut Rng, kind: Kind) -> Vec<String> {
    let mut words: Vec<String> = kind.word().map(str::to_owned).into_iter().collect();
    if rng.chance(20) {
        words.push(format!("in_port={}", rng.pick(&[1, 2, 3, 4, 5, 6, 10])));
    }
    if rng.chance(15) {
        words.push(format!("dl_src={}", mac_text(mac(rng))));
    }
    if rng.chance(15) {
        words.push(match rng.below(5) {
            0 => "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00".to_owned(),
            1 => "dl_dst=50:54:00:00:00:00/ff:ff:ff:ff:ff:fe".to_owned(),
            _ => format!("dl_dst={}", mac_text(mac(rng))),
        });
    }
    if rng.chance(20) {
        words.push(vlan(rng));
    }
    if rng.chance(15) {
        words.push(register(rng));
    }
    layer3(rng, kind, &mut words);
    // Later fragments have no ports, and OpenFlow cannot express a match on both.
    if !words.iter().any(|w| w == "ip_frag=later") {
        layer4(rng, kind, &mut words);
    }
    words
}

fn vlan(rng: &mut Rng) -> String {
    let vid = rng.pick(&VLANS);
    match rng.below(6) {
        0 => NO_TAG.to_owned(),
        1 => "vlan_tci=0x1000/0x1000".to_owned(),
        2 => format!("dl_vlan={vid},dl_vlan_pcp={}", rng.pick(&[0, 3, 5])),
        3 => format!("vlan_vid={:#x}/0x100f", 0x1000 | (vid & 0xf)),
        _ => format!("dl_vlan={vid}"),
    }
}

/// A random match on metadata and registers, most of which only actions can have set.
fn register(rng: &mut Rng) -> String {
    let n = rng.below(4);
    match rng.below(15) {
        6 => format!("xxreg0={n:#x}/0xf"),
        7 => format!("tun_id={n:#x}/0x3"),
        8 => rng
            .pick(&[
                "tun_src=10.0.0.1",
                "tun_dst=10.0.0.0/24",
                "tun_metadata0=0x1234",
                "tun_metadata1",
                "tun_flags=0/0x1",
            ])
            .to_owned(),
        9 => format!("actset_output={n}"),
        10 => rng
            .pick(&["ct_state=-trk", "ct_state=+trk", "ct_mark=0x1/0x1", "ct_zone=5", "ct_label=0x1/0x1"])
            .to_owned(),
        11 => rng.pick(&["packet_type=(0,0)"]).to_owned(),
        12 => format!("reg{}={n:#x}", rng.pick(&[3, 7, 15])),
        13 => format!("dp_hash={n:#x}/0x3"),
        0 => format!("reg{}={:#x}/0xff", rng.below(3), n),
        1 => format!("metadata={n:#x}"),
        2 => format!("metadata={n:#x}/0x3"),
        3 => format!("xreg1={n:#x}"),
        4 => format!("pkt_mark={n:#x}/0x3"),
        _ => format!("reg{}={n:#x}", rng.below(3)),
    }
}

fn layer3(rng: &mut Rng, kind: Kind, words: &mut Vec<String>) {
    match kind {
        Kind::Arp => {
            for (field, percent) in [("arp_spa", 40), ("arp_tpa", 30)] {
                if rng.chance(percent) {
                    words.push(format!("{field}={}", ip_text(rng)));
                }
            }
            if rng.chance(30) {
                words.push(format!("arp_op={}", rng.between(1, 2)));
            }
            if rng.chance(20) {
                words.push(format!("{}={}", rng.pick(&["arp_sha", "arp_tha"]), mac_text(mac(rng))));
            }
        }
        Kind::Mpls => {
            for (field, values) in [
                ("mpls_label", [16, 17, 100]),
                ("mpls_tc", [0, 3, 0]),
                ("mpls_bos", [0, 1, 1]),
                ("mpls_ttl", [64, 1, 2]),
            ] {
                if rng.chance(40) {
                    words.push(format!("{field}={}", rng.pick(&values)));
                }
            }
        }
        Kind::Nsh => {
            for (field, values) in [
                ("nsh_mdtype", [1, 2, 1]),
                ("nsh_np", [1, 3, 1]),
                ("nsh_spi", [1, 2, 3]),
                ("nsh_si", [255, 1, 254]),
                ("nsh_ttl", [63, 1, 62]),
                ("nsh_c1", [1, 0x11, 0]),
            ] {
                if rng.chance(25) {
                    words.push(format!("{field}={}", rng.pick(&values)));
                }
            }
        }
        Kind::Rarp => {
            if rng.chance(50) {
                words.push(format!("arp_op={}", rng.between(1, 4)));
            }
        }
        Kind::Any => {}
        _ => {
            let is_ip6 = kind.is_ip6();
            for (field4, field6) in [("nw_src", "ipv6_src"), ("nw_dst", "ipv6_dst")] {
                if rng.chance(35) {
                    words.push(if is_ip6 {
                        format!("{field6}={}", ip6_text(rng))
                    } else {
                        format!("{field4}={}", ip_text(rng))
                    });
                }
            }
            if rng.chance(25) {
                words.push(ip_detail(rng));
            }
            if rng.chance(4) {
                words.extend(connection(rng, is_ip6));
            }
            if is_ip6 && rng.chance(10) {
                words.push(format!("ipv6_label={}", rng.pick(&["0", "5", "0x1/0x1"])));
            }
        }
    }
}

/// A random match on the original tuple of the packet's connection, which only tracked packets have.
fn connection(rng: &mut Rng, is_ip6: bool) -> Vec<String> {
    let end = rng.pick(&["src", "dst"]);
    let mut words = vec!["ct_state=+trk".to_owned()];
    words.push(match rng.below(3) {
        0 => format!("ct_nw_proto={},ct_tp_{end}={}", rng.pick(&[6, 17]), port_text(rng)),
        _ if is_ip6 => format!("ct_ipv6_{end}={}", ip6_text(rng)),
        _ => format!("ct_nw_{end}={}", ip_text(rng)),
    });
    words
}

fn ip_detail(rng: &mut Rng) -> String {
    match rng.below(5) {
        0 => format!("nw_tos={}", rng.pick(&[0, 16, 184])),
        1 => format!("nw_ecn={}", rng.pick(&[0, 3])),
        2 => format!("nw_ttl={}", rng.pick(&[64, 1, 255])),
        _ => format!("ip_frag={}", rng.pick(&["no", "yes", "first", "later", "not_later"])),
    }
}

fn layer4(rng: &mut Rng, kind: Kind, words: &mut Vec<String>) {
    match kind {
        Kind::Tcp | Kind::Udp | Kind::Sctp | Kind::Tcp6 | Kind::Udp6 => {
            for field in ["tp_src", "tp_dst"] {
                if rng.chance(35) {
                    words.push(format!("{field}={}", port_text(rng)));
                }
            }
            if matches!(kind, Kind::Tcp | Kind::Tcp6) && rng.chance(25) {
                words.push(format!(
                    "tcp_flags={}",
                    rng.pick(&["+syn-ack", "+ack", "-rst", "0x12", "0x010/0x010", "syn"])
                ));
            }
        }
        Kind::Icmp if rng.chance(60) => {
            words.push(format!("icmp_type={}", rng.pick(&[8, 0, 3])));
            if rng.chance(40) {
                words.push(format!("icmp_code={}", rng.below(2)));
            }
        }
        Kind::Icmp6 if rng.chance(60) => words.push(format!("icmp_type={}", rng.pick(&[128, 129, 135, 136]))),
        Kind::Nd => {
            let solicit = rng.chance(50);
            words.push(format!("icmp_type={},icmp_code=0", if solicit { 135 } else { 136 }));
            if rng.chance(50) {
                words.push(format!("nd_target={}", ip6_text(rng)));
            }
            if rng.chance(40) {
                words.push(format!("{}={}", if solicit { "nd_sll" } else { "nd_tll" }, mac_text(mac(rng))));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_its_seed() {
        let text = |seed| Table::random(&mut Rng::new(seed), 40).bundle();
        assert_eq!(text(3), text(3));
        assert_ne!(text(3), text(4));
        assert!(text(5).lines().count() >= 40);
    }

    #[test]
    fn lines_leave_by_their_number_in_the_bundle() {
        let list = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let mut table = Table { groups: list(&["g"]), flows: list(&["a", "b"]), ..Table::default() };
        assert!(!table.remove(None) && !table.remove(Some(2)) && !table.remove(Some(6)));
        assert!(table.remove(Some(5)) && table.remove(Some(3)));
        assert_eq!((table.groups, table.flows), (list(&[]), list(&["a"])));
    }
}
