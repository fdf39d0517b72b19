//! Megaflows that the stock switch has deleted, has not revalidated or does not install.

use crate::packet::Packet;
use crate::pools::mac_text;
use crate::tunnels;

/// Returns whether the megaflows differ as expected after both switches may have revalidated some.
///
/// When the stock switch revalidates a megaflow, for example after it learned an address, it deletes the megaflow if the mask
/// contains fields that its packets do not have, because it considers the megaflow too wide. The next packet installs it again.
/// The text of a megaflow does not show such fields, but the comparison of traces shows that Sluice's megaflows are correct.
///
/// The stock switch also deletes the megaflow of a flow that learns up to a limit, because without a packet it does not know
/// whether learning is allowed. `deletable`: the packets that match such a flow, and those to which a header is added or from
/// which one is removed.
pub fn is_expected(stock: &str, ours: &str, deletable: &[Packet]) -> bool {
    let parse = |text: &str| -> Vec<Megaflow> {
        text.lines().map(Megaflow::of).filter(|m| !m.learns_its_destination()).collect()
    };
    let (stock, ours) = (parse(stock), parse(ours));
    let kept = |o: &Megaflow| stock.iter().find(|s| (&s.key, &s.actions) == (&o.key, &o.actions));
    stock.iter().all(|s| ours.iter().any(|o| (&s.key, &s.actions) == (&o.key, &o.actions)))
        && ours
            .iter()
            .all(|o| kept(o).is_some_and(|s| s.counters == o.counters) || o.may_be_deleted(deletable))
}

/// Returns Sluice's megaflows without those that drop tunnel packets for which there is no port. The stock switch installs no
/// megaflow for such packets and translates each of them.
pub fn without_drops_of_unknown_tunnels(stock: &str, ours: &str) -> String {
    let in_stock = |key: &str| stock.lines().any(|line| Megaflow::of(line).key == key);
    let is_left_out = |line: &&str| {
        let m = Megaflow::of(line);
        tunnels::has_no_port(line) && matches!(&*m.actions, "drop" | "[]drop") && !in_stock(&m.key)
    };
    ours.lines().filter(|line| !is_left_out(line)).collect::<Vec<_>>().join("\n")
}

/// Returns whether the stock switch has several megaflows of recirculated packets that differ only in the id, where Sluice has one,
/// and all others are equal. It gives packets that came through different tunnels or ports separate ids. The first packet of each
/// megaflow is not counted, so Sluice may count more packets.
pub fn has_separate_ids(stock: &str, ours: &str) -> bool {
    let mut counted: Vec<(Megaflow, u64)> = Vec::new();
    let mut removed = 0;
    for line in stock.lines() {
        let m = Megaflow::of(line);
        let same = counted
            .iter_mut()
            .find(|(o, _)| line.contains("recirc_id(<n>)") && (&o.key, &o.actions) == (&m.key, &m.actions));
        match same {
            Some((_, packets)) => {
                *packets += m.packets() + 1;
                removed += 1;
            }
            None => {
                let packets = m.packets();
                counted.push((m, packets));
            }
        }
    }
    let has_no_more = |line: &str| {
        let m = Megaflow::of(line);
        counted
            .iter()
            .any(|(o, packets)| (&o.key, &o.actions) == (&m.key, &m.actions) && m.packets() <= *packets)
    };
    removed > 0 && ours.lines().count() == counted.len() && ours.lines().all(has_no_more)
}

/// Returns whether the stock switch has more megaflows of recirculated packets, and all others are equal. It adds actions that were
/// executed already to the actions of a packet that recirculates in the branch of `check_pkt_larger` for short packets
/// (`frames: remaining actions of the other branch`), so that this packet may recirculate again.
pub fn recirculates_again(stock: &str, ours: &str) -> bool {
    let shorter = |line: &str| line.split_once("le(").is_some_and(|(_, list)| list.contains("recirc("));
    let is_recirculated = |line: &str| line.contains("recirc_id(<n>)");
    let mut others: Vec<&str> = ours.lines().collect();
    let is_more =
        |line: &&str| others.iter().position(|o| o == line).map(|at| others.swap_remove(at)).is_none();
    let more: Vec<&str> = stock.lines().filter(is_more).collect();
    others.is_empty()
        && !more.is_empty()
        && more.into_iter().all(is_recirculated)
        && ours.lines().any(|line| line.contains("check_pkt_len(") && shorter(line))
}

struct Megaflow {
    key: String,
    counters: String,
    actions: String,
}

impl Megaflow {
    fn of(line: &str) -> Megaflow {
        let (key, rest) = line.split_once(", packets:").unwrap_or((line, ""));
        let (counters, actions) = rest.split_once("actions:").unwrap_or((rest, ""));
        // Another packet may have installed the megaflow again, with other values of the bits that are not matched.
        let masked = |field: &str| match (field.split_once('='), field.split_once('/')) {
            (Some((name, _)), Some((_, mask))) => format!("{name}=/{mask}"),
            _ => field.to_owned(),
        };
        let key: Vec<String> = key.split(',').map(masked).collect();
        Megaflow { key: key.join(","), counters: counters.to_owned(), actions: actions.to_owned() }
    }

    fn packets(&self) -> u64 {
        self.counters.split(',').next().and_then(|packets| packets.trim().parse().ok()).unwrap_or(0)
    }

    /// Returns whether the megaflow may be that of `deletable` packets, or its mask may contain fields that its packets do not
    /// have: those of neighbour discovery, those of a second tag, or ports of a fragment or of a protocol without ports.
    fn may_be_deleted(&self, deletable: &[Packet]) -> bool {
        let tags = self.key.contains("vlan(") && self.key.contains("encap(eth_type(0x8");
        let fragment = ["frag=first", "frag=later", "frag=yes"].iter().any(|f| self.key.contains(f));
        let protocol = self.key.split("proto=").nth(1).and_then(|rest| rest.split([',', ')']).next());
        let portless = protocol.is_some_and(|p| !["1", "6", "17", "58", "132"].contains(&p));
        tags || fragment
            || portless
            || self.key.contains("icmpv6(")
            || deletable.iter().any(|p| self.may_be_of(p))
    }

    /// Returns whether the packet has the port and Ethernet addresses of the key, as far as the key contains them.
    fn may_be_of(&self, packet: &Packet) -> bool {
        let eth =
            self.key.split_once("eth(").and_then(|(_, rest)| rest.split(')').next()).unwrap_or_default();
        let has = |word: &str, at: usize| match (eth.split_once(word), packet.bytes.get(at..at + 6)) {
            (Some((_, rest)), Some(mac)) => {
                mac.try_into().is_ok_and(|mac| rest.starts_with('/') || rest.starts_with(&mac_text(mac)))
            }
            _ => true,
        };
        let port = self.key.contains(&format!("in_port({})", packet.port));
        port && has("src=", 6) && has("dst=", 0)
    }

    /// Returns whether the source and destination addresses of its packets are equal. Then the output port depends on what was
    /// learned from these packets, and the stock switch does not always revalidate the megaflow after learning.
    fn learns_its_destination(&self) -> bool {
        let after = |word: &str| self.key.split_once(word).and_then(|(_, rest)| rest.get(..17));
        after("eth(src=").is_some() && after("eth(src=") == after(",dst=")
    }
}

#[cfg(test)]
mod tests {
    use super::{Packet, recirculates_again};

    fn is_expected(stock: &str, ours: &str) -> bool {
        super::is_expected(stock, ours, &[])
    }

    #[test]
    fn megaflows_with_fields_that_packets_lack_may_be_removed() {
        let ours = "a, packets:2, bytes:9, actions:1\nipv4(frag=later), packets:2, bytes:9, actions:2";
        assert!(is_expected(ours, ours) && is_expected("a, packets:2, bytes:9, actions:1", ours));
        assert!(is_expected(
            "a, packets:2, bytes:9, actions:1\nipv4(frag=later), packets:0, bytes:0, actions:2",
            ours
        ));
        assert!(!is_expected("ipv4(frag=later), packets:2, bytes:9, actions:2", ours));
        assert!(!is_expected(
            "a, packets:1, bytes:4, actions:1\nipv4(frag=later), packets:2, bytes:9, actions:2",
            ours
        ));
        assert!(!is_expected(
            "a, packets:2, bytes:9, actions:1\nipv4(frag=later), packets:2, bytes:9, actions:3",
            ours
        ));
        assert!(!is_expected("c, packets:0, bytes:0, actions:1", ours));
        let other = ours.replace("ipv4(", "ipv4(src=10.0.0.1/255.0.0.0,");
        assert!(is_expected(&other.replace("10.0.0.1/", "10.0.0.2/"), &other));
        assert!(!is_expected(&other.replace("/255.0", "/255.255"), &other));
        let of = |protocol: u8| {
            is_expected("", &format!("ipv6(proto={protocol},frag=no), packets:2, bytes:9, actions:1"))
        };
        assert!(of(59) && !of(58));
    }

    #[test]
    fn megaflows_of_packets_of_no_tunnel_port_are_left_out() {
        let line = |id: u32, actions: &str| {
            format!(
                "in_port(6081),tunnel(tun_id={id:#x},src=172.31.1.92), packets:0, bytes:0, actions:{actions}"
            )
        };
        let ours = format!("a, packets:1, bytes:4, actions:1\n{}", line(7, "[]drop"));
        assert_eq!(super::without_drops_of_unknown_tunnels("", &ours), "a, packets:1, bytes:4, actions:1");
        assert_eq!(super::without_drops_of_unknown_tunnels(&line(7, "[]1"), &ours), ours);
        for kept in [line(7, "[]1"), line(5, "[]drop")] {
            assert_eq!(super::without_drops_of_unknown_tunnels("", &kept), kept);
        }
    }

    #[test]
    fn megaflows_of_packets_with_pushed_headers_may_be_removed() {
        let bytes = [[0x50, 0x54, 0, 0, 0, 2], [0x50, 0x54, 0, 0, 0, 1]].concat();
        let wrapped = [Packet { port: 3, bytes }];
        let gone =
            |key: &str| super::is_expected("", &format!("{key}, packets:2, bytes:9, actions:1"), &wrapped);
        assert!(gone("eth(src=50:54:00:00:00:01,dst=50:54:00:00:00:02),in_port(3)") && gone("in_port(3)"));
        assert!(gone("encap(ipv4(dst=10.0.0.1)),eth(dst=50:54:00:00:00:02),in_port(3)"));
        assert!(!gone("eth(src=50:54:00:00:00:02,dst=50:54:00:00:00:01),in_port(3)") && !gone("in_port(4)"));
    }

    #[test]
    fn recirculated_packets_may_have_separate_ids() {
        let line = |packets: u64, port: u64| {
            format!("in_port(1),recirc_id(<n>), packets:{packets}, bytes:0, actions:{port}")
        };
        let two = [line(0, 2), line(0, 2)].join("\n");
        assert!(super::has_separate_ids(&two, &line(1, 2)));
        assert!(!super::has_separate_ids(&two, &line(2, 2)));
        assert!(!super::has_separate_ids(&two, &line(1, 3)));
        assert!(!super::has_separate_ids(&line(1, 2), &line(1, 2)));
        let first = two.replace("recirc_id(<n>)", "recirc_id(0)");
        assert!(!super::has_separate_ids(&first, &line(1, 2).replace("<n>", "0")));
    }

    #[test]
    fn a_megaflow_to_its_own_sender_is_left_out() {
        let to =
            |dst: u8| format!("eth(src=50:54:00:00:00:05,dst=50:54:00:00:00:0{dst}), packets:0, actions:1");
        assert!(is_expected(&to(5), "") && is_expected("", &to(5)));
        assert!(!is_expected(&to(4), "") && !is_expected("", &to(4)));
    }

    #[test]
    fn a_packet_may_recirculate_again_in_a_branch_only() {
        let first = |list: &str| {
            format!("eth(),recirc_id(0), packets:0, actions:check_pkt_len(size=60,gt(1),le({list}))\n")
        };
        let again = |list: &str| format!("eth(),recirc_id(<n>), packets:0, actions:{list}\n");
        let ours = first("recirc(<n>)") + &again("drop");
        assert!(recirculates_again(&(ours.clone() + &again("pop_nsh(),recirc(<n>)")), &ours));
        assert!(!recirculates_again(&ours, &(ours.clone() + &again("pop_nsh(),recirc(<n>)"))));
        assert!(!recirculates_again(&ours, &ours));
        assert!(!recirculates_again(&(ours.clone() + &first("2")), &ours));
        let ours = first("2") + &again("drop");
        assert!(!recirculates_again(&(ours.clone() + &again("pop_nsh(),recirc(<n>)")), &ours));
    }
}
