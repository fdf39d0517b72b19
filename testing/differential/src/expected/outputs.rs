//! Frames that the stock switch sends differently.

use crate::normal;
use crate::packet::Packet;
use crate::pair::Difference;
use crate::sent;
use crate::table::Table;

/// The expected difference between the sent frames, if there is one; `actions`: Sluice's trace of the packet.
pub fn alike(d: &Difference, table: &Table, packet: &Packet, actions: &str) -> Option<&'static str> {
    let answers = Answers { stock: &d.stock, ours: &d.ours };
    let named = [
        ("frames: second tag read as network header", answers.parsed_again(table)),
        ("frames: second tag during a packet-in", answers.parsed_again_during_packet_in(actions)),
        ("frames: edits after a packet-in of two tags", answers.edits_after_packet_in_of_two_tags(actions)),
        ("frames: missing tags popped and pushed", answers.missing_tags(actions)),
        ("frames: lost after a runt", answers.lost_after_runt(actions)),
        ("frames: type written over a length", answers.type_over_length(packet, actions)),
        ("frames: uninitialised NSH fields", answers.uninitialised_nsh_fields(actions)),
        (
            "frames: remaining actions of the other branch",
            answers.remaining_actions_of_other_branch(packet, actions),
        ),
        ("frames: without DEI", answers.without_dei(packet, actions)),
        ("frames: padding counted", answers.padding_counted(packet, actions)),
    ];
    named.into_iter().find(|(_, alike)| *alike).map(|(name, _)| name)
}

struct Answers<'a> {
    stock: &'a str,
    ours: &'a str,
}

impl Answers<'_> {
    /// The lines of `a` that are not in `b`, counting repetitions.
    fn only<'t>(a: &'t str, b: &str) -> Vec<&'t str> {
        let mut others: Vec<&str> = b.lines().collect();
        let is_other = |l: &&str| match others.iter().position(|o| o == l) {
            Some(at) => {
                others.swap_remove(at);
                false
            }
            None => true,
        };
        a.lines().filter(is_other).collect()
    }

    /// Returns whether the frames are equal after both were changed by `f`.
    fn same(&self, f: impl Fn(&str) -> String) -> bool {
        let of = |text: &str| normal::sorted_lines(&text.lines().map(&f).collect::<Vec<_>>().join("\n"));
        of(self.stock) == of(self.ours)
    }

    /// Only frames with two tags differ, in a table that sends packets to its controller. For this the stock switch parses the
    /// packet again, and takes the second tag, which it does not parse by default, for the network header. Later writes to the
    /// network header are then four bytes too early, and the type of a pushed label replaces that of the second tag.
    fn parsed_again(&self, table: &Table) -> bool {
        let asks = table.flows.iter().chain(&table.groups).any(|l| l.to_lowercase().contains("controller"));
        let second = |line: &str, types: &[&str]| {
            matches!(hex(line, 12..14), "8100" | "88a8") && types.contains(&hex(line, 16..18))
        };
        let (theirs, mine) = (Answers::only(self.stock, self.ours), Answers::only(self.ours, self.stock));
        asks && mine.iter().all(|l| second(l, &["8100"]))
            && theirs.iter().all(|l| second(l, &["8100", "8847", "8848"]))
            && around_headers(&theirs) == around_headers(&mine)
    }

    /// The same for a second tag that was pushed before the packet was sent to the controller, and that may have been
    /// popped again: from the remaining tags to the end of a network header all bytes may differ, and those of the
    /// transport header if it is written; all other bytes are equal.
    fn parsed_again_during_packet_in(&self, actions: &str) -> bool {
        let Some((before, after)) = actions.split_once("userspace(") else { return false };
        let transport =
            ["set(tcp(", "set(udp(", "set(sctp(", "set(icmp"].iter().any(|set| after.contains(set));
        let blank = |line: &str| {
            let network = type_behind_tags(line).and_then(|at| match hex(line, at..at + 2) {
                "0800" => Some((at + 2, 20)),
                "86dd" => Some((at + 2, 40)),
                _ => None,
            });
            let Some((at, length)) = network else { return line.to_owned() };
            blanked(line, at..at + length + if transport { 20 } else { 0 })
        };
        before.contains("push_vlan(") && (transport || after.contains("set(ip")) && self.same(blank)
    }

    /// The same where a tag or a label is pushed after the packet-in: the stock switch edits at wrong offsets, so the bytes
    /// of the frames say nothing. As many frames leave by each port, and among those that differ one has two tags.
    fn edits_after_packet_in_of_two_tags(&self, actions: &str) -> bool {
        let two_tags = |line: &&str| {
            let is_tag = |at| matches!(hex(line, at..at + 2), "8100" | "88a8");
            is_tag(12) && is_tag(16)
        };
        let (theirs, mine) = (Answers::only(self.stock, self.ours), Answers::only(self.ours, self.stock));
        let ports = |lines: &[&str]| sent::ports_of_frames(lines.iter().copied());
        actions
            .split_once("userspace(")
            .is_some_and(|(_, after)| after.contains("push_vlan(") || after.contains("_mpls("))
            && actions.contains("push_vlan(")
            && theirs.iter().chain(&mine).any(two_tags)
            && ports(&theirs) == ports(&mine)
    }

    /// After `encap(ethernet)` both still have the tag of the inner frame in the flow, as if the outer header had
    /// one. A flood pops it, which does nothing, and pushes it again, which adds one: which ports get the tag depends
    /// on the order of the flood.
    fn missing_tags(&self, actions: &str) -> bool {
        let untagged = |line: &str| {
            let line = match hex(line, 12..14) {
                "8100" => replaced(line, 12..16, ""),
                _ => line.to_owned(),
            };
            // The label after a tag is not compared.
            match hex(&line, 12..14) {
                "8847" | "8848" => blanked(&line, 14..18),
                _ => line,
            }
        };
        let flooded = actions.split_once("push_eth(").is_some_and(|(_, after)| {
            after.split_once("pop_vlan").is_some_and(|(_, after)| after.contains("push_vlan("))
        });
        flooded && self.same(untagged)
    }

    /// Frames are missing that follow a frame without a complete Ethernet header to the same port: dummies of the
    /// stock switch drop the rest of a batch at the first frame that they refuse. Such frames result from truncation
    /// to the header and then popping a tag.
    fn lost_after_runt(&self, actions: &str) -> bool {
        let lost = Answers::only(self.ours, self.stock);
        let ports = ports_of_runts(actions);
        let to_one = |line: &&str| ports.iter().any(|p| line.starts_with(&format!("p{p} ")));
        Answers::only(self.stock, self.ours).is_empty() && !lost.is_empty() && lost.iter().all(to_one)
    }

    /// When a label is pushed on a frame with an 802.3 length, or the last one is popped, the stock switch writes the
    /// type over the length; Sluice writes it into the SNAP header, where such a frame has its type.
    fn type_over_length(&self, packet: &Packet, actions: &str) -> bool {
        let blank = |line: &str| match type_behind_tags(line)
            .filter(|&at| hex(line, at + 2..at + 8) == normal::SNAP)
        {
            Some(at) => blanked(&blanked(line, at..at + 2), at + 8..at + 10),
            None => line.to_owned(),
        };
        has_length(&packet.bytes) && actions.contains("_mpls(") && self.same(blank)
    }

    /// When the stock switch writes some fields of a service header, it overwrites others with the contents of its
    /// memory: the contexts if the first one is not written, flags, TTL and path if none of them is.
    fn uninitialised_nsh_fields(&self, actions: &str) -> bool {
        let written = || actions.split("set(nsh(").skip(1).filter_map(|rest| rest.split(')').next());
        let contexts = written().any(|fields| !fields.contains("c1="));
        let base =
            written().any(|fields| !["flags=", "ttl=", "spi=", "si="].iter().any(|f| fields.contains(f)));
        let blank = |line: &str| {
            let Some(at) = (12..28).step_by(4).find(|&at| hex(line, at..at + 2) == "894f") else {
                return line.to_owned();
            };
            let line = if contexts { blanked(line, at + 10..at + 26) } else { line.to_owned() };
            if base { blanked(&blanked(&line, at + 2..at + 4), at + 6..at + 10) } else { line }
        };
        (contexts || base) && self.same(blank)
    }

    /// More is sent if the branch of `check_pkt_larger` for short packets recirculates: the stock switch adds to it
    /// the actions that the branch for long packets did not reach.
    fn remaining_actions_of_other_branch(&self, packet: &Packet, actions: &str) -> bool {
        let branch = actions.split_once("check_pkt_len(").and_then(|(_, rest)| rest.split_once("le("));
        let more = Answers::only(self.stock, self.ours);
        branch.is_some_and(|(_, shorter)| shorter.contains("recirc("))
            && Answers::only(self.ours, self.stock).is_empty()
            && more.iter().all(|line| actions.contains("trunc(") || ends_as(line, packet))
    }

    /// The DEI bit of a tag that is popped and pushed again is lost; whether this happens depends on the order of a
    /// flood.
    fn without_dei(&self, packet: &Packet, actions: &str) -> bool {
        let set = packet.bytes.get(14).is_some_and(|b| b & 0x10 != 0);
        let blank = |line: &str| match hex(line, 12..14) {
            "8100" | "88a8" => blanked(line, 14..15),
            _ => line.to_owned(),
        };
        set && actions.contains("pop_vlan") && self.same(blank)
    }

    /// The length of a padded packet is checked after a header was added or removed: the stock switch still uses the
    /// old end of the network packet and ignores the bytes after it; Sluice uses the length that it would send. So
    /// one takes the branch for long packets and the other that for short ones. Earlier outputs are equal, and each
    /// sends to the ports of its branch, with the same end of the packet.
    fn padding_counted(&self, packet: &Packet, actions: &str) -> bool {
        let asked = actions.find("check_pkt_len(").unwrap_or(0);
        let rewrapped = ["push_eth(", "pop_eth", "push_nsh(", "pop_nsh(", "_mpls("];
        let sends = |text: &str, longer| {
            let ports = sent::ports(actions, Some(longer));
            ports == sent::ports_of_frames(text.lines())
        };
        let whole = || !["trunc(", "recirc(", "ct(", "sample("].iter().any(|a| actions.contains(a));
        padded(&packet.bytes)
            && rewrapped.iter().any(|h| actions[..asked].contains(h))
            && (!whole() || sends(self.stock, false) && sends(self.ours, true))
            && self.stock.lines().chain(self.ours.lines()).all(|line| !whole() || ends_as(line, packet))
    }
}

/// Offset of what follows the tags of a frame.
fn behind_tags(frame: &[u8]) -> usize {
    let mut at = 14;
    while matches!(frame.get(at - 2..at), Some([0x81, 0] | [0x88, 0xa8])) {
        at += 4;
    }
    at
}

/// Returns whether the frame has an 802.3 length in the place of a type.
fn has_length(frame: &[u8]) -> bool {
    let at = behind_tags(frame);
    frame.get(at - 2).is_some_and(|b| *b < 6)
}

/// Returns whether the frame is longer than its network packet.
fn padded(frame: &[u8]) -> bool {
    let at = |i: usize| usize::from(frame.get(i).copied().unwrap_or(0));
    let l3 = behind_tags(frame);
    match (at(l3 - 2), at(l3 - 1)) {
        (8, 0) => frame.len() > l3 + at(l3 + 2) * 256 + at(l3 + 3),
        (0x86, 0xdd) => frame.len() > l3 + 40 + at(l3 + 4) * 256 + at(l3 + 5),
        _ => false,
    }
}

/// The output ports of frames that are truncated to their header and then lose a tag.
fn ports_of_runts(actions: &str) -> Vec<&str> {
    let (mut left, mut ports): (Option<i32>, Vec<&str>) = (None, Vec::new());
    let mut words = actions.split([',', '(', ')']);
    while let Some(word) = words.next() {
        match (word, left) {
            ("trunc", _) => left = words.next().and_then(|length| length.parse().ok()),
            ("pop_vlan", Some(length)) => left = Some(length - 4),
            ("push_vlan", Some(length)) => left = Some(length + 4),
            (port, Some(length)) if port.parse::<u32>().is_ok() => {
                if length < 14 {
                    ports.push(port);
                }
                left = None;
            }
            _ => {}
        }
    }
    ports
}

/// Offset of the type after the tags in a line's frame.
fn type_behind_tags(line: &str) -> Option<usize> {
    (12..28).step_by(4).find(|&at| !matches!(hex(line, at..at + 2), "8100" | "88a8"))
}

/// Returns whether a line's frame ends with the last four bytes of the packet, which no action writes.
fn ends_as(line: &str, packet: &Packet) -> bool {
    let last = &packet.bytes[packet.bytes.len().saturating_sub(4)..];
    line.ends_with(&last.iter().map(|b| format!("{b:02x}")).collect::<String>())
}

/// The parts of frames that are equal whatever is written between their first tag and the end of the transport
/// header: port, addresses, tag, and the payload far after it.
fn around_headers(lines: &[&str]) -> Vec<(String, String)> {
    let around = |line: &&str| {
        let (port, digits) = line.split_once(' ').unwrap_or((line, ""));
        let head = digits.get(..32).unwrap_or(digits);
        // Tags, labels and an IPv6 header with TCP; in the other frame all of this may be four bytes longer.
        let payload = digits.len().saturating_sub(2 * 86) / 8 * 8;
        (format!("{port} {head}"), digits[digits.len() - payload..].to_owned())
    };
    let mut out: Vec<_> = lines.iter().map(around).collect();
    out.sort_unstable();
    out
}

/// Bytes of the frame in a line, as digits; empty if it is shorter.
fn hex(line: &str, bytes: std::ops::Range<usize>) -> &str {
    line.split(' ').nth(1).and_then(|h| h.get(2 * bytes.start..2 * bytes.end)).unwrap_or_default()
}

/// The line without these bytes of its frame.
fn blanked(line: &str, bytes: std::ops::Range<usize>) -> String {
    let end = line.split(' ').nth(1).map_or(0, |digits| digits.len() / 2);
    let bytes = bytes.start.min(end)..bytes.end.min(end);
    let digits = 2 * bytes.len();
    replaced(line, bytes, &"_".repeat(digits))
}

/// The line with other digits in the place of these bytes of its frame.
fn replaced(line: &str, bytes: std::ops::Range<usize>, with: &str) -> String {
    let Some((port, digits)) = line.split_once(' ') else { return line.to_owned() };
    match (digits.get(..2 * bytes.start), digits.get(2 * bytes.end..)) {
        (Some(head), Some(tail)) => format!("{port} {head}{with}{tail}"),
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(stock: &str, ours: &str) -> Difference {
        Difference { what: "outputs", stock: stock.to_owned(), ours: ours.to_owned() }
    }

    /// Returns whether the difference is expected for a packet with these `bytes`.
    fn expected(stock: &str, ours: &str, bytes: &[u8], actions: &str) -> bool {
        let packet = Packet { port: 1, bytes: bytes.to_vec() };
        alike(&difference(stock, ours), &Table::default(), &packet, actions).is_some()
    }

    fn frame(port: u8, rest: &str) -> String {
        format!("p{port} {:024}{rest}", 0)
    }

    #[test]
    fn two_tags_and_a_controller_are_expected() {
        let table = Table { flows: vec!["flow add actions=CONTROLLER:128".to_owned()], ..Table::default() };
        let packet = Packet { port: 1, bytes: Vec::new() };
        let told = |tags: &str, table: &Table| {
            let d = difference(&frame(1, &format!("{tags}080001")), &frame(1, &format!("{tags}080002")));
            alike(&d, table, &packet, "").is_some()
        };
        assert!(told("8100001e8100a01e", &table));
        let ours = frame(1, "8100001e8100a01e080002");
        let to_another = frame(1, "8100001e8100a01e080001").replacen("00", "01", 1);
        assert!(alike(&difference(&to_another, &ours), &table, &packet, "").is_none());
        let label = |stock: &str, ours: &str| {
            alike(&difference(&frame(1, stock), &frame(1, ours)), &table, &packet, "").is_some()
        };
        assert!(label("8100001e8848000021ff", "8100001e8100a01e8848000021ff"));
        assert!(!label("8100001e8100a01e8848000021ff", "8100001e8848000021ff"));
        assert!(!told("8100001e", &table) && !told("8100001e8100a01e", &Table::default()));
    }

    #[test]
    fn a_runt_takes_what_follows_it_to_its_port() {
        let ours = [frame(1, "0800"), frame(3, "0800")].join("\n");
        let lost = |stock: &str, actions: &str| expected(stock, &ours, &[], actions);
        assert!(lost(&frame(1, "0800"), "1,trunc(14),pop_vlan,3,push_vlan(vid=1),3"));
        assert!(
            !lost(&frame(1, "0800"), "1,trunc(14),3,3") && !lost(&frame(1, "0800"), "trunc(14),pop_vlan,1,3")
        );
        assert!(!lost(&frame(3, "0800"), "1,trunc(14),pop_vlan,3"));
        assert!(!expected(&ours, &frame(1, "0800"), &[], "1,trunc(14),pop_vlan,3,3"));
    }

    #[test]
    fn a_type_over_a_length_is_expected_where_labels_are() {
        let (stock, ours) = (frame(1, "0800aaaa030000000800"), frame(1, "0034aaaa030000000800"));
        let mut packet = [0; 60];
        assert!(expected(&stock, &ours, &packet, "pop_mpls(eth_type=0x800),1"));
        assert!(!expected(&stock, &ours, &packet, "1"));
        assert!(!expected(&frame(1, "0800aaab030000000800"), &ours, &packet, "pop_mpls(eth_type=0x800),1"));
        assert!(!expected(
            &stock.replace("aaaa", "aaab"),
            &ours.replace("aaaa", "aaab"),
            &packet,
            "pop_mpls(eth_type=0x800),1"
        ));
        packet[12] = 8;
        assert!(!expected(&stock, &ours, &packet, "pop_mpls(eth_type=0x800),1"));
    }

    #[test]
    fn contexts_may_be_anything_where_other_fields_are_written() {
        let told = |contexts: &str| frame(1, &format!("894f0fc60102000003fe{contexts}01"));
        let (stock, ours) = (told(&"00000001".repeat(4)), told(&"00000002".repeat(4)));
        assert!(expected(&stock, &ours, &[], "set(nsh(ttl=9)),1"));
        assert!(
            !expected(&stock, &ours, &[], "set(nsh(ttl=9,c1=0x1)),1") && !expected(&stock, &ours, &[], "1")
        );
    }

    #[test]
    fn time_to_live_and_path_may_be_anything_where_contexts_alone_are_written() {
        let told = |ttl: &str, path: &str| frame(1, &format!("894f{ttl}0103{path}000000ab{:024}01", 0));
        let (stock, ours) = (told("0ac6", "e45502ff"), told("0046", "000002ff"));
        assert!(expected(&stock, &ours, &[], "set(nsh(c1=0xab)),1"));
        assert!(
            !expected(&stock, &ours, &[], "set(nsh(ttl=4,c1=0xab)),1") && !expected(&stock, &ours, &[], "1")
        );
    }

    #[test]
    fn a_branch_that_is_set_aside_may_send_more() {
        let (stock, ours) = ([frame(1, "0800"), frame(5, "0800")].join("\n"), frame(1, "0800"));
        let asks = "check_pkt_len(size=70,gt(1),le(1,recirc(0x1)))";
        assert!(expected(&stock, &ours, &[], asks) && !expected(&ours, &stock, &[], asks));
        assert!(!expected(&stock, &ours, &[], "check_pkt_len(size=70,gt(1,recirc(0x1)),le(1))"));
        assert!(expected(&stock, &ours, &[8, 0], asks) && !expected(&stock, &ours, &[8, 1], asks));
    }

    #[test]
    fn a_dei_bit_may_be_lost_with_its_tag() {
        let (stock, ours) = (frame(1, "8100000a0800"), frame(1, "8100100a0800"));
        let mut packet = [0; 18];
        assert!(!expected(&stock, &ours, &packet, "pop_vlan,2,push_vlan(vid=10),1"));
        packet[14] = 0x10;
        assert!(expected(&stock, &ours, &packet, "pop_vlan,2,push_vlan(vid=10),1"));
        assert!(!expected(&stock, &ours, &packet, "1"));
    }

    #[test]
    fn padding_counts_behind_a_header() {
        let mut packet = [0; 60];
        (packet[12], packet[17]) = (8, 46);
        let (one, other) = (frame(2, "080000000000"), frame(1, "080000000000"));
        let asks = "push_eth(src=0),check_pkt_len(size=64,gt(1),le(2))";
        assert!(!expected(&one, &other, &packet, asks));
        packet[17] = 32;
        assert!(expected(&one, &other, &packet, asks));
        assert!(!expected(&other, &one, &packet, asks));
        assert!(!expected(&one, &frame(1, "080000000001"), &packet, asks));
        assert!(!expected(
            &one,
            &[frame(1, "080000000000"), frame(3, "080000000000")].join("\n"),
            &packet,
            asks
        ));
        assert!(!expected(&one, &other, &packet, "check_pkt_len(size=64,gt(push_eth(src=0),1),le(2))"));
    }

    #[test]
    fn a_tag_may_be_there_or_not_where_a_flood_takes_off_one_that_is_not_there() {
        let (stock, ours) = (frame(1, "8100000a8847________4500"), frame(1, "8847000091404500"));
        let flood = "add_mpls(label=9),push_eth(src=0),7,pop_vlan,8,push_vlan(vid=10,pcp=0),1";
        assert!(expected(&stock, &ours, &[], flood) && expected(&ours, &stock, &[], flood));
        assert!(!expected(&stock, &ours, &[], "push_eth(src=0),7,push_vlan(vid=10,pcp=0),1"));
        assert!(!expected(&stock, &frame(1, "8847000091404600"), &[], flood));
    }

    #[test]
    fn a_second_tag_that_was_there_while_the_controller_was_asked_is_expected() {
        let asks = "push_vlan(vid=10,pcp=0),userspace(pid=0,controller(reason=1)),set(ipv4(src=10.0.0.2)),100,pop_vlan,1";
        for tags in ["", "81000014", "8100001481000014"] {
            let told =
                |tos: &str, rest: &str| frame(1, &format!("{tags}080045{tos}{:036}{rest}{:038}02", 0, 0));
            let (stock, ours) = (told("e8", "01"), told("00", "01"));
            assert!(expected(&stock, &ours, &[], asks));
            assert!(!expected(&stock, &ours, &[], &asks.replace("push_vlan", "set")));
            assert!(!expected(&stock, &told("00", "02"), &[], asks));
            let writes = asks.replace("ipv4(src=10.0.0.2)", "tcp(src=80)");
            assert!(expected(&stock, &told("00", "02"), &[], &writes));
            assert!(!expected(&stock, &ours.replace("002", "003"), &[], &writes));
        }
        assert!(!expected(&frame(1, "080645e8820a"), &frame(1, "080645000000"), &[], asks));
    }
}
