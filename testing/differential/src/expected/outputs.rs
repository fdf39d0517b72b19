//! Frames that leave the stock switch otherwise than they leave ours.

use crate::check::Difference;
use crate::normal;
use crate::packet::Packet;
use crate::sent;
use crate::table::Table;

/// The expected difference between the frames that left, if it is one; `actions` are those of a trace of the packet in ours.
pub fn alike(d: &Difference, table: &Table, packet: &Packet, actions: &str) -> Option<&'static str> {
    let answers = Answers { stock: &d.stock, ours: &d.ours };
    let named = [
        ("frames: second tag read as network header", answers.read_again(table)),
        ("frames: second tag while the controller was asked", answers.read_again_meanwhile(actions)),
        ("frames: tags that are not there", answers.tags_that_are_not_there(actions)),
        ("frames: lost with a runt", answers.lost_with_a_runt(actions)),
        ("frames: type over a length", answers.type_over_a_length(packet, actions)),
        ("frames: fields of a service header from nowhere", answers.fields_from_nowhere(actions)),
        ("frames: rest of the other branch", answers.rest_of_the_other_branch(packet, actions)),
        ("frames: without DEI", answers.without_dei(packet, actions)),
        ("frames: padding counts", answers.padding_counts(packet, actions)),
    ];
    named.into_iter().find(|(_, alike)| *alike).map(|(name, _)| name)
}

struct Answers<'a> {
    stock: &'a str,
    ours: &'a str,
}

impl Answers<'_> {
    /// The lines of the first that are not lines of the second, as often as they are there.
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

    /// The frames are the same once both have gone through `f`.
    fn same(&self, f: impl Fn(&str) -> String) -> bool {
        let of = |text: &str| normal::sorted_lines(&text.lines().map(&f).collect::<Vec<_>>().join("\n"));
        of(self.stock) == of(self.ours)
    }

    /// Frames with two tags alone differ, of a table that sends packets to its controller. For that the stock switch reads the
    /// packet again, and takes the second tag, which it does not look behind by default, for the network header: what is written to
    /// that afterwards lands four bytes before its place, and the type of a label that is put on stands in that of the second tag.
    fn read_again(&self, table: &Table) -> bool {
        let asks = table.flows.iter().chain(&table.groups).any(|l| l.to_lowercase().contains("controller"));
        let second = |line: &str, types: &[&str]| {
            matches!(hex(line, 12..14), "8100" | "88a8") && types.contains(&hex(line, 16..18))
        };
        let (theirs, mine) = (Answers::only(self.stock, self.ours), Answers::only(self.ours, self.stock));
        asks && mine.iter().all(|l| second(l, &["8100"]))
            && theirs.iter().all(|l| second(l, &["8100", "8847", "8848"]))
            && around_headers(&theirs) == around_headers(&mine)
    }

    /// The same of a second tag that was put on before the controller was asked, and may be off again in what is sent: from the tags
    /// that are left to the end of a network header nothing is as it should be, nor is the transport header where that is written to,
    /// all else is.
    fn read_again_meanwhile(&self, actions: &str) -> bool {
        let Some((before, after)) = actions.split_once("userspace(") else { return false };
        let transport = ["set(tcp(", "set(udp(", "set(sctp("].iter().any(|set| after.contains(set));
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

    /// Behind `encap(ethernet)` both go on with the tag that the frame inside has, as if the header around it had one. A flood takes
    /// it off, which does nothing, and puts it back, which puts one on: which ports get that is a matter of its order.
    fn tags_that_are_not_there(&self, actions: &str) -> bool {
        let untagged = |line: &str| {
            let line = match hex(line, 12..14) {
                "8100" => replaced(line, 12..16, ""),
                _ => line.to_owned(),
            };
            // The label behind a tag is not compared.
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

    /// What follows a frame without a whole Ethernet header on the way to a port is missing: dummies of the stock switch give up a
    /// batch with the first frame that they do not take. Such frames come of those that are cut to the header and lose their tag
    /// then.
    fn lost_with_a_runt(&self, actions: &str) -> bool {
        let lost = Answers::only(self.ours, self.stock);
        let ports = ports_of_runts(actions);
        let to_one = |line: &&str| ports.iter().any(|p| line.starts_with(&format!("p{p} ")));
        Answers::only(self.stock, self.ours).is_empty() && !lost.is_empty() && lost.iter().all(to_one)
    }

    /// The type of a label that is put on a frame with an 802.3 length, and of what is behind the last that is taken off, stands over
    /// the length; ours stands in the SNAP header, where the type of such a frame is.
    fn type_over_a_length(&self, packet: &Packet, actions: &str) -> bool {
        let blank = |line: &str| match type_behind_tags(line)
            .filter(|&at| hex(line, at + 2..at + 8) == normal::SNAP)
        {
            Some(at) => blanked(&blanked(line, at..at + 2), at + 8..at + 10),
            None => line.to_owned(),
        };
        has_length(&packet.bytes) && actions.contains("_mpls(") && self.same(blank)
    }

    /// Writing some fields of a service header, the stock switch writes the others, too, with what its memory holds: the contexts
    /// where the first is not written, flags, TTL and path where none of them is.
    fn fields_from_nowhere(&self, actions: &str) -> bool {
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

    /// More is sent where the branch for short packets of `check_pkt_larger` sets its packet aside: the stock switch has that
    /// branch do what the one for long packets did not get to.
    fn rest_of_the_other_branch(&self, packet: &Packet, actions: &str) -> bool {
        let branch = actions.split_once("check_pkt_len(").and_then(|(_, rest)| rest.split_once("le("));
        let more = Answers::only(self.stock, self.ours);
        branch.is_some_and(|(_, shorter)| shorter.contains("recirc("))
            && Answers::only(self.ours, self.stock).is_empty()
            && more.iter().all(|line| actions.contains("trunc(") || ends_as(line, packet))
    }

    /// The DEI bit of a tag that is taken off and put back is lost; where it is put back is a matter of the order of a flood.
    fn without_dei(&self, packet: &Packet, actions: &str) -> bool {
        let set = packet.bytes.get(14).is_some_and(|b| b & 0x10 != 0);
        let blank = |line: &str| match hex(line, 12..14) {
            "8100" | "88a8" => blanked(line, 14..15),
            _ => line.to_owned(),
        };
        set && actions.contains("pop_vlan") && self.same(blank)
    }

    /// The length of a packet with padding is asked for behind a header that was put on or taken off: the stock switch goes on
    /// knowing where the network packet ended, and does not count what follows that; ours counts what it would send. So one takes
    /// the branch for long packets and the other that for short ones: what is sent before is the same, and each sends by the
    /// ports of its branch, with the same end of the packet.
    fn padding_counts(&self, packet: &Packet, actions: &str) -> bool {
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

/// Where what follows the tags of a frame begins.
fn behind_tags(frame: &[u8]) -> usize {
    let mut at = 14;
    while matches!(frame.get(at - 2..at), Some([0x81, 0] | [0x88, 0xa8])) {
        at += 4;
    }
    at
}

/// Whether an 802.3 length stands where a frame has its type.
fn has_length(frame: &[u8]) -> bool {
    let at = behind_tags(frame);
    frame.get(at - 2).is_some_and(|b| *b < 6)
}

/// Whether the frame is longer than the network packet in it.
fn padded(frame: &[u8]) -> bool {
    let at = |i: usize| usize::from(frame.get(i).copied().unwrap_or(0));
    let l3 = behind_tags(frame);
    match (at(l3 - 2), at(l3 - 1)) {
        (8, 0) => frame.len() > l3 + at(l3 + 2) * 256 + at(l3 + 3),
        (0x86, 0xdd) => frame.len() > l3 + 40 + at(l3 + 4) * 256 + at(l3 + 5),
        _ => false,
    }
}

/// The ports by which frames are sent that are cut to no more than their header, and lose a tag before they are sent.
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

/// Where the type behind the tags of a line's frame stands.
fn type_behind_tags(line: &str) -> Option<usize> {
    (12..28).step_by(4).find(|&at| !matches!(hex(line, at..at + 2), "8100" | "88a8"))
}

/// Whether a line's frame ends in the last four bytes of the packet, which no action writes.
fn ends_as(line: &str, packet: &Packet) -> bool {
    let last = &packet.bytes[packet.bytes.len().saturating_sub(4)..];
    line.ends_with(&last.iter().map(|b| format!("{b:02x}")).collect::<String>())
}

/// What is the same of frames whatever is written between their first tag and the end of the transport header: port,
/// addresses, tag, and the payload far behind.
fn around_headers(lines: &[&str]) -> Vec<(String, String)> {
    let around = |line: &&str| {
        let (port, digits) = line.split_once(' ').unwrap_or((line, ""));
        let head = digits.get(..32).unwrap_or(digits);
        // Tags, labels and an IPv6 header with TCP; in the other frame all of it may be four bytes longer.
        let payload = digits.len().saturating_sub(2 * 86) / 8 * 8;
        (format!("{port} {head}"), digits[digits.len() - payload..].to_owned())
    };
    let mut out: Vec<_> = lines.iter().map(around).collect();
    out.sort_unstable();
    out
}

/// Bytes of the frame in a line, as digits; empty where there are none.
fn hex(line: &str, bytes: std::ops::Range<usize>) -> &str {
    line.split(' ').nth(1).and_then(|h| h.get(2 * bytes.start..2 * bytes.end)).unwrap_or_default()
}

/// The line without these bytes of its frame, as far as it has them.
fn blanked(line: &str, bytes: std::ops::Range<usize>) -> String {
    let end = line.split(' ').nth(1).map_or(0, |digits| digits.len() / 2);
    let bytes = bytes.start.min(end)..bytes.end.min(end);
    let digits = 2 * bytes.len();
    replaced(line, bytes, &"_".repeat(digits))
}

/// The line with other digits for these bytes of its frame.
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

    /// Whether that is expected of a packet that says `bytes`.
    fn expected(stock: &str, ours: &str, bytes: &[u8], actions: &str) -> bool {
        let packet = Packet { port: 1, bytes: bytes.to_vec() };
        alike(&difference(stock, ours), &Table::default(), &packet, actions).is_some()
    }

    fn frame(port: u8, rest: &str) -> String {
        format!("p{port} {:024}{rest}", 0)
    }

    #[test]
    fn two_tags_and_a_controller_are_expected() {
        let table = Table { flows: vec!["flow add actions=CONTROLLER:128".to_owned()], groups: Vec::new() };
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
