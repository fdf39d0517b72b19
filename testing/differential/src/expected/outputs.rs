//! Sent frames that differ in the stock switch. Most methods of `SentFrames` return whether the frames differ in one way; the comment of the
//! method describes this difference.

use super::frame_line::{blanked, hex, replaced, type_behind_tags};
use super::recomputed;
use crate::normalize;
use crate::packet::Packet;
use crate::pair::Difference;
use crate::sent;
use crate::table::Table;

/// The name of a difference after which the counters of flows differ too.
pub const EXIT_OF_A_BUCKET: &str = "frames: exit of a bucket";

/// Returns the name of the expected difference between the sent frames, if there is one. `actions`: the datapath actions in
/// Sluice's trace of the packet.
pub fn expected_difference(
    d: &Difference,
    table: &Table,
    packet: &Packet,
    actions: &str,
) -> Option<&'static str> {
    let frames = SentFrames { stock: &d.stock, ours: &d.ours };
    let named = [
        ("frames: second tag read as network header", frames.parsed_again(table)),
        ("frames: second tag during a packet-in", frames.parsed_again_during_packet_in(actions)),
        ("frames: edits after a packet-in of two tags", frames.edits_after_packet_in_of_two_tags(actions)),
        ("frames: missing tags popped and pushed", frames.missing_tags(actions)),
        ("frames: lost after a runt", frames.lost_after_runt(actions)),
        ("frames: type written over a length", frames.type_over_length(packet, actions)),
        ("frames: uninitialised NSH fields", frames.uninitialised_nsh_fields(actions)),
        (
            "frames: remaining actions of the other branch",
            frames.remaining_actions_of_other_branch(packet, actions),
        ),
        (EXIT_OF_A_BUCKET, frames.exit_of_a_bucket(table, actions)),
        ("frames: without DEI", frames.without_dei(packet, actions)),
        ("frames: padding counted", frames.padding_counted(packet, actions)),
        ("frames: fragments held since a trace", frames.held_fragments(table)),
        (
            "frames: checksum computed again",
            recomputed::is_expected(&d.stock, &d.ours, &packet.bytes, actions),
        ),
    ];
    named.into_iter().find(|(_, is_expected)| *is_expected).map(|(name, _)| name)
}

struct SentFrames<'a> {
    stock: &'a str,
    ours: &'a str,
}

impl SentFrames<'_> {
    /// Returns the lines of `a` that are not in `b`. If a line is more often in `a` than in `b`, the additional ones are returned.
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

    /// Returns whether the frames of both switches are equal after `f` is applied. A frame in a tunnel is the last word of its line.
    fn same(&self, f: impl Fn(&str) -> String) -> bool {
        self.same_in_tunnels(f, str::to_owned)
    }

    /// As `same`; `g` is applied to the outer headers of frames in tunnels.
    fn same_in_tunnels(&self, f: impl Fn(&str) -> String, g: impl Fn(&str) -> String) -> bool {
        let of_frame = |line: &str| match line.rsplit_once(' ').filter(|(outer, _)| outer.contains(' ')) {
            Some((outer, inner)) => format!("{} {}", g(outer), f(&format!("p {inner}"))),
            None => f(line),
        };
        let of =
            |text: &str| normalize::sorted_lines(&text.lines().map(of_frame).collect::<Vec<_>>().join("\n"));
        of(self.stock) == of(self.ours)
    }

    /// Only frames with two tags differ, and the table sends packets to the controller. For this the stock switch parses the
    /// packet again, and treats the second tag, which it does not parse by default, as the network header. Later writes to the
    /// network header are then four bytes too early, and the type of a pushed label replaces that of the second tag.
    fn parsed_again(&self, table: &Table) -> bool {
        let has_controller_action =
            table.flows.iter().chain(&table.groups).any(|l| l.to_lowercase().contains("controller"));
        let second = |line: &str, types: &[&str]| {
            matches!(hex(line, 12..14), "8100" | "88a8") && types.contains(&hex(line, 16..18))
        };
        let (theirs, mine) =
            (SentFrames::only(self.stock, self.ours), SentFrames::only(self.ours, self.stock));
        has_controller_action
            && mine.iter().all(|l| second(l, &["8100"]))
            && theirs.iter().all(|l| second(l, &["8100", "8847", "8848"]))
            && around_headers(&theirs) == around_headers(&mine)
    }

    /// As `parsed_again`, for a second tag that was pushed before the packet was sent to the controller, and may have been popped
    /// afterwards. The bytes from the remaining tags to the end of the network header may differ, and those of the transport
    /// header if it is written. A write to the network header may be four bytes too late, so a new destination address reaches the
    /// first four bytes of the transport header. All other bytes are equal.
    fn parsed_again_during_packet_in(&self, actions: &str) -> bool {
        let Some((before, after)) = actions.split_once("userspace(") else { return false };
        let transport =
            ["set(tcp(", "set(udp(", "set(sctp(", "set(icmp"].iter().any(|set| after.contains(set));
        let writes_arp = after.contains("set(arp(");
        let writes_destination = after
            .split("set(ip")
            .skip(1)
            .any(|set| set.split(')').next().is_some_and(|set| set.contains("dst=")));
        let behind = match (transport, writes_destination) {
            (true, _) => 20,
            (false, true) => 4,
            (false, false) => 0,
        };
        let blank = |line: &str| {
            let network = type_behind_tags(line).and_then(|at| match hex(line, at..at + 2) {
                "0800" => Some((at + 2, 20)),
                "86dd" => Some((at + 2, 40)),
                "0806" if writes_arp => Some((at + 2, 28)),
                _ => None,
            });
            let Some((at, length)) = network else { return line.to_owned() };
            let line = blanked(line, at..at + length + behind);
            // The values of the last tag, which a write to the network header reaches.
            let tag = if at > 16 { at - 4..at - 2 } else { 0..0 };
            let line = blanked(&line, tag);
            // A frame that the write made a later fragment has lost its checksum of UDP or TCP in `normalize::outputs`.
            [6, 16].into_iter().fold(line, |line, sum| {
                let sum = at + length + sum;
                blanked(&line, sum..sum + 2)
            })
        };
        let network = after.contains("set(ip") || writes_arp;
        before.contains("push_vlan(") && (transport || network) && self.same(blank)
    }

    /// As `parsed_again_during_packet_in`, if a tag is pushed or a label is added, removed or written after the packet-in: the stock
    /// switch then writes at wrong offsets, so the bytes of the frames cannot be compared. The number of frames of each port is equal, and one of the
    /// frames that differ has two tags.
    fn edits_after_packet_in_of_two_tags(&self, actions: &str) -> bool {
        let two_tags = |line: &&str| {
            let is_tag = |at| matches!(hex(line, at..at + 2), "8100" | "88a8");
            is_tag(12) && is_tag(16)
        };
        let (theirs, mine) =
            (SentFrames::only(self.stock, self.ours), SentFrames::only(self.ours, self.stock));
        let ports = |lines: &[&str]| sent::ports_of_frames(lines.iter().copied());
        actions
            .split_once("userspace(")
            .is_some_and(|(_, after)| after.contains("push_vlan(") || after.contains("_mpls("))
            && actions.contains("push_vlan(")
            && theirs.iter().chain(&mine).any(two_tags)
            && ports(&theirs) == ports(&mine)
    }

    /// After `encap(ethernet)` the flow of both switches still contains the tag of the inner frame, although the outer header
    /// has none. A flood pops this tag, which has no effect, and pushes it again, which adds one. So the order of the flood
    /// decides which ports get the tag.
    fn missing_tags(&self, actions: &str) -> bool {
        let without_tag = |line: &str| {
            let line = match hex(line, 12..14) {
                "8100" => replaced(line, 12..16, ""),
                _ => line.to_owned(),
            };
            // A label after a tag is not compared.
            match hex(&line, 12..14) {
                "8847" | "8848" => blanked(&line, 14..18),
                _ => line,
            }
        };
        let flooded = actions.split_once("push_eth(").is_some_and(|(_, after)| {
            after.split_once("pop_vlan").is_some_and(|(_, after)| after.contains("push_vlan("))
        });
        flooded && self.same_in_tunnels(without_tag, without_lengths)
    }

    /// Frames are missing that follow a frame without a complete Ethernet header to the same port. Such a frame results if a
    /// tag is popped from a frame that was truncated to its header. The stock switch's dummy devices refuse it, and drop the
    /// rest of the batch.
    fn lost_after_runt(&self, actions: &str) -> bool {
        let missing = SentFrames::only(self.ours, self.stock);
        let ports = ports_of_runts(actions);
        let to_port_of_runt = |line: &&str| ports.iter().any(|p| line.starts_with(&format!("p{p} ")));
        SentFrames::only(self.stock, self.ours).is_empty()
            && !missing.is_empty()
            && missing.iter().all(to_port_of_runt)
    }

    /// When a label is pushed on a frame with an 802.3 length, or the last label is popped, the stock switch writes the type
    /// over the length. Sluice writes it into the SNAP header, which contains the type of such a frame.
    fn type_over_length(&self, packet: &Packet, actions: &str) -> bool {
        let blank = |line: &str| match type_behind_tags(line)
            .filter(|&at| hex(line, at + 2..at + 8) == normalize::SNAP)
        {
            Some(at) => blanked(&blanked(line, at..at + 2), at + 8..at + 10),
            None => line.to_owned(),
        };
        has_length(&packet.bytes) && actions.contains("_mpls(") && self.same(blank)
    }

    /// When the stock switch writes some fields of an NSH header, it overwrites others with uninitialised memory: the context
    /// headers if the first one is not written, and flags, TTL and path if none of them is written.
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

    /// The stock switch sends more, and all of that is fragments of IPv4. For a trace it executes `ct`, which holds fragments. It
    /// sends them when others of the same datagram arrive.
    fn held_fragments(&self, table: &Table) -> bool {
        let has_ct = table.flows.iter().chain(&table.groups).any(|l| l.contains("ct("));
        let more = SentFrames::only(self.stock, self.ours);
        has_ct
            && SentFrames::only(self.ours, self.stock).is_empty()
            && more.iter().all(|line| is_fragment(line))
    }

    /// The stock switch sends more if the branch of `check_pkt_larger` for short packets recirculates: it adds the actions to
    /// this branch that the branch for long packets did not reach.
    fn remaining_actions_of_other_branch(&self, packet: &Packet, actions: &str) -> bool {
        let branch = actions.split_once("check_pkt_len(").and_then(|(_, rest)| rest.split_once("le("));
        let more = SentFrames::only(self.stock, self.ours);
        branch.is_some_and(|(_, shorter)| shorter.contains("recirc("))
            && SentFrames::only(self.ours, self.stock).is_empty()
            && more.iter().all(|line| actions.contains("trunc(") || ends_as(line, packet))
    }

    /// The stock switch adds an `exit` within a bucket to the actions of a packet that recirculates later, so that this packet ends
    /// at once. It sends nothing that Sluice does not send.
    fn exit_of_a_bucket(&self, table: &Table, actions: &str) -> bool {
        let lists = || table.flows.iter().chain(&table.groups);
        !table.groups.is_empty()
            && lists().any(|l| l.split([',', '=']).any(|action| action == "exit"))
            && actions.contains("recirc(")
            && SentFrames::only(self.stock, self.ours).is_empty()
    }

    /// The DEI bit is lost when a tag is popped and pushed again. Whether this happens depends on the order of a flood.
    fn without_dei(&self, packet: &Packet, actions: &str) -> bool {
        let set = packet.bytes.get(14).is_some_and(|b| b & 0x10 != 0);
        let blank = |line: &str| match hex(line, 12..14) {
            "8100" | "88a8" => blanked(line, 14..15),
            _ => line.to_owned(),
        };
        set && actions.contains("pop_vlan") && self.same(blank)
    }

    /// `check_pkt_larger` is executed for a padded packet after a header was added or removed. The stock switch still uses the
    /// old end of the network packet and ignores the bytes after it; Sluice uses the length that it would send. So the stock
    /// switch takes the branch for short packets, and Sluice that for long ones. Earlier outputs are equal, each switch sends
    /// to the ports of its branch, and the ends of the frames are equal.
    fn padding_counted(&self, packet: &Packet, actions: &str) -> bool {
        let check_position = actions.find("check_pkt_len(").unwrap_or(0);
        let header_actions = ["push_eth(", "pop_eth", "push_nsh(", "pop_nsh(", "_mpls("];
        let sends_to_branch = |text: &str, longer| {
            let ports = sent::ports(actions, Some(longer));
            ports == sent::ports_of_frames(text.lines())
        };
        let is_comparable = || !["trunc(", "recirc(", "ct(", "sample("].iter().any(|a| actions.contains(a));
        is_padded(&packet.bytes)
            && header_actions.iter().any(|h| actions[..check_position].contains(h))
            && (!is_comparable() || sends_to_branch(self.stock, false) && sends_to_branch(self.ours, true))
            && self
                .stock
                .lines()
                .chain(self.ours.lines())
                .all(|line| !is_comparable() || ends_as(line, packet))
    }
}

/// Returns the offset after the tags and the type of a frame.
fn offset_after_tags(frame: &[u8]) -> usize {
    let mut at = 14;
    while matches!(frame.get(at - 2..at), Some([0x81, 0] | [0x88, 0xa8])) {
        at += 4;
    }
    at
}

/// Returns whether the frame has an 802.3 length instead of a type.
fn has_length(frame: &[u8]) -> bool {
    let at = offset_after_tags(frame);
    frame.get(at - 2).is_some_and(|b| *b < 6)
}

/// Returns whether the frame contains bytes after the network packet.
fn is_padded(frame: &[u8]) -> bool {
    let at = |i: usize| usize::from(frame.get(i).copied().unwrap_or(0));
    let l3 = offset_after_tags(frame);
    match (at(l3 - 2), at(l3 - 1)) {
        (8, 0) => frame.len() > l3 + at(l3 + 2) * 256 + at(l3 + 3),
        (0x86, 0xdd) => frame.len() > l3 + 40 + at(l3 + 4) * 256 + at(l3 + 5),
        _ => false,
    }
}

/// Returns the output ports of frames that become shorter than an Ethernet header by truncation and popping a tag.
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

/// Returns the outer headers of a line without their lengths and the checksum of IPv4, which depend on the inner frame.
fn without_lengths(outer: &str) -> String {
    // Behind GRE there is the checksum instead of the length of UDP.
    let lengths = match hex(outer, 12..14) {
        "0800" => [16..18, 24..26, 38..40],
        _ => [18..20, 18..20, 58..60],
    };
    lengths.into_iter().fold(outer.to_owned(), |line, bytes| blanked(&line, bytes))
}

/// Returns whether a line's frame ends with the last four bytes of the packet, because no action writes them.
fn ends_as(line: &str, packet: &Packet) -> bool {
    let last = &packet.bytes[packet.bytes.len().saturating_sub(4)..];
    line.ends_with(&last.iter().map(|b| format!("{b:02x}")).collect::<String>())
}

/// Returns the parts of frames before and after the headers that may be written: the port, the addresses and the first tag, and
/// the payload after the transport header.
fn around_headers(lines: &[&str]) -> Vec<(String, String)> {
    let around = |line: &&str| {
        let (port, digits) = line.split_once(' ').unwrap_or((line, ""));
        let head = digits.get(..32).unwrap_or(digits);
        // 86 bytes are enough for tags, labels, an IPv6 header and a TCP header. The length is rounded down to a multiple of
        // four bytes, because the headers of the other frame may be four bytes longer.
        let payload = digits.len().saturating_sub(2 * 86) / 8 * 8;
        (format!("{port} {head}"), digits[digits.len() - payload..].to_owned())
    };
    let mut out: Vec<_> = lines.iter().map(around).collect();
    out.sort_unstable();
    out
}

/// Returns whether the frame of a line, or the frame in its tunnel, contains a fragment of IPv4 without labels before it.
fn is_fragment(line: &str) -> bool {
    let frame = line.rsplit(' ').next().unwrap_or_default();
    (24..=32).step_by(8).filter_map(|at| frame.get(at..)?.strip_prefix("0800")).any(|ip| {
        let bits = ip.get(12..16).and_then(|digits| u16::from_str_radix(digits, 16).ok());
        ip.starts_with('4') && bits.is_some_and(|bits| bits & 0x3fff != 0)
    })
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
        expected_difference(&difference(stock, ours), &Table::default(), &packet, actions).is_some()
    }

    fn frame(port: u8, rest: &str) -> String {
        format!("p{port} {:024}{rest}", 0)
    }

    #[test]
    fn two_tags_and_a_controller_are_expected() {
        let table = Table { flows: vec!["flow add actions=CONTROLLER:128".to_owned()], ..Table::default() };
        let packet = Packet { port: 1, bytes: Vec::new() };
        let is_expected = |tags: &str, table: &Table| {
            let d = difference(&frame(1, &format!("{tags}080001")), &frame(1, &format!("{tags}080002")));
            expected_difference(&d, table, &packet, "").is_some()
        };
        assert!(is_expected("8100001e8100a01e", &table));
        let ours = frame(1, "8100001e8100a01e080002");
        let to_another = frame(1, "8100001e8100a01e080001").replacen("00", "01", 1);
        assert!(expected_difference(&difference(&to_another, &ours), &table, &packet, "").is_none());
        let label = |stock: &str, ours: &str| {
            expected_difference(&difference(&frame(1, stock), &frame(1, ours)), &table, &packet, "").is_some()
        };
        assert!(label("8100001e8848000021ff", "8100001e8100a01e8848000021ff"));
        assert!(!label("8100001e8100a01e8848000021ff", "8100001e8848000021ff"));
        assert!(!is_expected("8100001e", &table) && !is_expected("8100001e8100a01e", &Table::default()));
    }

    #[test]
    fn frames_after_a_runt_to_the_same_port_may_be_lost() {
        let ours = [frame(1, "0800"), frame(3, "0800")].join("\n");
        let is_expected = |stock: &str, actions: &str| expected(stock, &ours, &[], actions);
        assert!(is_expected(&frame(1, "0800"), "1,trunc(14),pop_vlan,3,push_vlan(vid=1),3"));
        assert!(
            !is_expected(&frame(1, "0800"), "1,trunc(14),3,3")
                && !is_expected(&frame(1, "0800"), "trunc(14),pop_vlan,1,3")
        );
        assert!(!is_expected(&frame(3, "0800"), "1,trunc(14),pop_vlan,3"));
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
        let build = |contexts: &str| frame(1, &format!("894f0fc60102000003fe{contexts}01"));
        let (stock, ours) = (build(&"00000001".repeat(4)), build(&"00000002".repeat(4)));
        assert!(expected(&stock, &ours, &[], "set(nsh(ttl=9)),1"));
        assert!(
            !expected(&stock, &ours, &[], "set(nsh(ttl=9,c1=0x1)),1") && !expected(&stock, &ours, &[], "1")
        );
    }

    #[test]
    fn time_to_live_and_path_may_be_anything_where_contexts_alone_are_written() {
        let build = |ttl: &str, path: &str| frame(1, &format!("894f{ttl}0103{path}000000ab{:024}01", 0));
        let (stock, ours) = (build("0ac6", "e45502ff"), build("0046", "000002ff"));
        assert!(expected(&stock, &ours, &[], "set(nsh(c1=0xab)),1"));
        assert!(
            !expected(&stock, &ours, &[], "set(nsh(ttl=4,c1=0xab)),1") && !expected(&stock, &ours, &[], "1")
        );
    }

    #[test]
    fn a_branch_that_is_set_aside_may_send_more() {
        let (stock, ours) = ([frame(1, "0800"), frame(5, "0800")].join("\n"), frame(1, "0800"));
        let actions = "check_pkt_len(size=70,gt(1),le(1,recirc(0x1)))";
        assert!(expected(&stock, &ours, &[], actions) && !expected(&ours, &stock, &[], actions));
        assert!(!expected(&stock, &ours, &[], "check_pkt_len(size=70,gt(1,recirc(0x1)),le(1))"));
        assert!(expected(&stock, &ours, &[8, 0], actions) && !expected(&stock, &ours, &[8, 1], actions));
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
        let actions = "push_eth(src=0),check_pkt_len(size=64,gt(1),le(2))";
        assert!(!expected(&one, &other, &packet, actions));
        packet[17] = 32;
        assert!(expected(&one, &other, &packet, actions));
        assert!(!expected(&other, &one, &packet, actions));
        assert!(!expected(&one, &frame(1, "080000000001"), &packet, actions));
        assert!(!expected(
            &one,
            &[frame(1, "080000000000"), frame(3, "080000000000")].join("\n"),
            &packet,
            actions
        ));
        assert!(!expected(&one, &other, &packet, "check_pkt_len(size=64,gt(push_eth(src=0),1),le(2))"));
    }

    #[test]
    fn popping_a_missing_tag_in_a_flood_may_add_a_tag() {
        let (stock, ours) = (frame(1, "8100000a8847________4500"), frame(1, "8847000091404500"));
        let flood = "add_mpls(label=9),push_eth(src=0),7,pop_vlan,8,push_vlan(vid=10,pcp=0),1";
        assert!(expected(&stock, &ours, &[], flood) && expected(&ours, &stock, &[], flood));
        assert!(!expected(&stock, &ours, &[], "push_eth(src=0),7,push_vlan(vid=10,pcp=0),1"));
        assert!(!expected(&stock, &frame(1, "8847000091404600"), &[], flood));
    }

    #[test]
    fn a_second_tag_during_a_packet_in_is_expected() {
        let actions = "push_vlan(vid=10,pcp=0),userspace(pid=0,controller(reason=1)),set(ipv4(src=10.0.0.2)),100,pop_vlan,1";
        for tags in ["", "81000014", "8100001481000014"] {
            let build =
                |tos: &str, rest: &str| frame(1, &format!("{tags}080045{tos}{:036}{rest}{:038}02", 0, 0));
            let (stock, ours) = (build("e8", "01"), build("00", "01"));
            assert!(expected(&stock, &ours, &[], actions));
            assert!(!expected(&stock, &ours, &[], &actions.replace("push_vlan", "set")));
            assert!(!expected(&stock, &build("00", "02"), &[], actions));
            let to = actions.replace("src=", "dst=");
            assert!(expected(&stock, &build("00", "02"), &[], &to));
            let writes = actions.replace("ipv4(src=10.0.0.2)", "tcp(src=80)");
            assert!(expected(&stock, &build("00", "02"), &[], &writes));
            assert!(!expected(&stock, &ours.replace("002", "003"), &[], &writes));
        }
        // A write to the type of service reaches the last tag.
        let build = |tag: &str| frame(1, &format!("8100400081000{tag}0800450000{:034}", 0));
        assert!(expected(&build("080"), &build("01e"), &[], actions));
        assert!(!expected(&build("080").replace("4000", "4001"), &build("01e"), &[], actions));
        let (stock, ours) = (frame(1, "080645e8820a"), frame(1, "080645000000"));
        assert!(!expected(&stock, &ours, &[], actions));
        assert!(expected(&stock, &ours, &[], &actions.replace("ipv4(src", "arp(sip")));
    }

    #[test]
    fn fragments_may_have_been_held() {
        let frame = |offset: &str| format!("p9 {:0100} good {:024}08004503001c1234{offset}40017d92", 0, 0);
        let table = |flow: &str| Table { flows: vec![flow.to_owned()], ..Table::default() };
        let held =
            |stock: &str, ours: &str, flow: &str| SentFrames { stock, ours }.held_fragments(&table(flow));
        assert!(held(&frame("0010"), "", "ip actions=ct(table=1)"));
        assert!(!held(&frame("4000"), "", "ip actions=ct(table=1)"));
        assert!(!held("", &frame("0010"), "ip actions=ct(table=1)"));
        assert!(!held(&frame("0010"), "", "ip actions=drop"));
    }

    #[test]
    fn an_exit_of_a_bucket_may_end_a_recirculated_packet() {
        let expected = |groups: usize, flow: &str, actions: &str, stock: &str| {
            let groups = vec!["group add group_id=1,type=all,bucket=actions=resubmit(,3)".to_owned(); groups];
            let table = Table { flows: vec![flow.to_owned()], groups, ..Table::default() };
            SentFrames { stock, ours: "p1 00\np2 00" }.exit_of_a_bucket(&table, actions)
        };
        let (flow, list) = ("flow add table=3,actions=output:1,exit", "1,pop_nsh(),recirc(0x1)");
        assert!(expected(1, flow, list, "p1 00"));
        assert!(!expected(1, flow, list, "p1 01"));
        assert!(!expected(0, flow, list, "p1 00"));
        assert!(!expected(1, "flow add table=3,actions=output:1", list, "p1 00"));
        assert!(!expected(1, flow, "1,2", "p1 00"));
    }
}
