//! Select groups, and flows that send packets through them.
//!
//! With `selection_method=hash`, translation computes the hash of the listed fields with a documented function, so both switches
//! select the same bucket. Otherwise the datapath computes the hash, and the two datapaths use different functions. Then the
//! lists of datapath actions must be equal, which contain the function and its basis, and [`crate::same_bucket`] checks each
//! switch.

use crate::kind::Kind;
use crate::pools::port;
use crate::rng::Rng;
use crate::table::Table;

/// Number of the first group. It is higher than those of [`Table::random`].
const FIRST_GROUP: u64 = 10;

/// Priority of the first flow. It is higher than those of [`Table::random`] and [`crate::version10`].
const PRIORITY: u64 = 3000;

/// Adds groups, each with a flow.
pub fn add(rng: &mut Rng, table: &mut Table) {
    for n in 0..rng.between(1, 3) {
        let (id, kind) = (FIRST_GROUP + n, kind(rng));
        table.groups.push(group(rng, id, kind));
        let before = rng.pick(&[
            "",
            "",
            "mod_vlan_vid:20,",
            "set_field:50:54:00:00:00:03->eth_src,",
            "set_field:2->reg1,",
        ]);
        let after = if rng.chance(30) { format!(",output:{}", port(rng)) } else { String::new() };
        let mut matching = kind.word().map_or(String::new(), |word| format!(",{word}"));
        if kind == Kind::Any || rng.chance(30) {
            matching += &format!(",in_port={}", rng.between(1, 6));
        }
        table.flows.push(format!(
            "flow add table=0,priority={}{matching},actions={before}group:{id}{after}",
            PRIORITY - n
        ));
    }
}

fn kind(rng: &mut Rng) -> Kind {
    use Kind::{Any, Arp, Ip, Ip6, Tcp, Tcp6, Udp, Udp6};
    rng.pick(&[Any, Any, Arp, Ip, Ip, Tcp, Tcp, Udp, Ip6, Tcp6, Udp6])
}

fn group(rng: &mut Rng, id: u64, kind: Kind) -> String {
    let mut line = format!("group add group_id={id},type=select{}", method(rng, kind));
    for _ in 0..rng.between(2, 6) {
        let change = rng.pick(&["", "", "", "mod_vlan_vid:10,", "set_field:50:54:00:00:00:04->eth_dst,"]);
        line.push_str(&format!(
            ",bucket=weight:{},actions={change}output:{}",
            rng.pick(&[0, 1, 1, 1, 2, 10, 100]),
            rng.between(1, 6)
        ));
    }
    line
}

/// A random method, and the fields of `hash`. Fields that a packet does not have are not hashed.
fn method(rng: &mut Rng, kind: Kind) -> String {
    let parameter = rng.pick(&["", ",selection_method_param=7", ",selection_method_param=0x100000007"]);
    match rng.below(10) {
        0 => String::new(),
        1..3 => format!(",selection_method=dp_hash{parameter}"),
        // An empty list means a symmetric hash of the 5-tuple.
        3 => format!(",selection_method=hash{parameter}"),
        _ => format!(",selection_method=hash{parameter},fields({})", fields(rng, kind)),
    }
}

fn fields(rng: &mut Rng, kind: Kind) -> String {
    let ports = rng.pick(&[
        "tcp_src",
        "tcp_dst",
        "tcp_src,tcp_dst",
        "tcp_dst=0xfff0",
        "udp_src,udp_dst",
        "tcp_dst,udp_dst",
    ]);
    let addresses = if kind.is_ip6() {
        rng.pick(&["ipv6_src", "ipv6_dst", "ipv6_src,ipv6_dst", "ipv6_dst=ffff:ffff::", "ipv6_label"])
    } else {
        rng.pick(&["ip_src", "ip_dst", "ip_src,ip_dst", "ip_src=255.255.0.0", "ip_dst=0.0.0.3"])
    };
    let link =
        rng.pick(&["eth_src", "eth_dst", "eth_src,eth_dst", "eth_type", "vlan_vid", "vlan_pcp", "in_port"]);
    let layers = match rng.below(5) {
        0 => vec![link],
        1 => vec![addresses],
        2 => vec![addresses, ports],
        3 => vec![link, addresses, "nw_proto", ports],
        _ => vec!["reg1", addresses, "ip_dscp"],
    };
    layers.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_occurs_and_each_group_has_a_flow() {
        let (mut rng, mut table) = (Rng::new(1), Table::default());
        (0..100).for_each(|_| add(&mut rng, &mut table));
        assert_eq!(table.groups.len(), table.flows.len());
        let text = table.groups.join("\n");
        for part in [
            "type=select,bucket",
            "=dp_hash,",
            "=hash,bucket",
            "param=7,fields(",
            "fields(ip_src",
            "ipv6_dst=",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }
}
