//! Normalises results: removes everything that may differ between any two runs, and differences without meaning.

use std::ops::Range;

use crate::outer;

/// Replaces every number after `key` by `<n>`.
fn hide_numbers(text: &str, key: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(key) {
        let (head, tail) = rest.split_at(at + key.len());
        out.push_str(head);
        let end = tail.find(|c: char| !(c.is_ascii_hexdigit() || c == 'x' || c == '.')).unwrap_or(tail.len());
        // 0 is kept, because it means that there is no recirculation id.
        out.push_str(if tail[..end].is_empty() || &tail[..end] == "0" { &tail[..end] } else { "<n>" });
        rest = &tail[end..];
    }
    out + rest
}

/// Sorts the lines, and removes empty ones.
pub fn sorted_lines(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().filter(|l| !l.is_empty()).collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// Returns whether `revalidator/verify` found that all megaflows agree with the tables.
pub fn is_verified(text: &str) -> bool {
    text.lines().all(|line| line.ends_with(" megaflows correct, 0 wrong"))
}

/// Normalises a client's error: hides transaction ids and the times of log lines.
pub fn error(text: &str) -> String {
    hide_numbers(&without_log_times(text), "xid=")
}

/// Returns the number of the line that `ovs-ofctl` cannot parse, given its error.
pub fn unparsable_line(text: &str) -> Option<usize> {
    text.lines().find_map(|l| l.strip_prefix("ovs-ofctl: -:")?.split_once(':')?.0.parse().ok())
}

/// Removes the times of log lines, which may follow an error.
fn without_log_times(text: &str) -> String {
    let line = |l: &str| match l.split_once("Z|") {
        Some((head, rest)) => {
            let (before, time) = head.split_at(head.rfind(' ').map_or(0, |space| space + 1));
            format!(
                "{before}{}{rest}\n",
                if time.starts_with("20") { "" } else { &l[before.len()..head.len() + 2] }
            )
        }
        None => format!("{l}\n"),
    };
    text.lines().map(line).collect()
}

/// The text of a trace before the list of datapath actions.
pub const ACTIONS: &str = "Datapath actions: ";

/// Removes ids that a switch assigns, such as recirculation ids.
pub fn without_ids(text: &str) -> String {
    ["recirc_id=", "recirc_id(", "recirc(", "ct_id="]
        .iter()
        .fold(text.to_owned(), |t, key| hide_numbers(&t, key))
}

/// Normalises a trace.
pub fn trace(text: &str) -> String {
    let text = move_refusals_to_end(&sort_conjunctions(&without_ids(text)));
    let mut tag_before = None;
    let lines = text.lines().map(|l| match l.strip_prefix(ACTIONS) {
        Some(list) => format!("{ACTIONS}{}", sort_outputs(list, tag_before.as_slice())),
        None => {
            // After recirculation, the packet may have no tag.
            if l.starts_with(FLOW) {
                tag_before = tag(l);
            }
            // Only in the bridge where a packet arrives, the stock switch prints its hidden rule for packets without a flow.
            without_options(&without_contexts(&l.replace(". reg0=0x2, priority 0", ". No match.")))
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The beginning of the line with the initial flow. A trace has one for the packet and one for each recirculation.
const FLOW: &str = "Flow:";

/// Returns the packet's tag in the last initial flow of a trace, in the form of `push_vlan`.
pub fn tag(text: &str) -> Option<String> {
    let flow = line(text, FLOW);
    let (vid, pcp) = value(flow, "dl_vlan=").zip(value(flow, "dl_vlan_pcp="))?;
    Some(format!("push_vlan(vid={vid},pcp={pcp})"))
}

/// Removes tunnel options from the final flow. If the packet of a trace is given as bytes, the stock switch has no table to
/// decode the options that flows have set, and omits them.
fn without_options(line: &str) -> String {
    match line.strip_prefix("Final flow: ") {
        Some(fields) => {
            let kept: Vec<&str> = fields.split(',').filter(|f| !f.starts_with("tun_metadata")).collect();
            format!("Final flow: {}", kept.join(","))
        }
        None => line.to_owned(),
    }
}

/// Removes the context headers of NSH from a match that does not match the metadata type. The stock switch does not print them,
/// so a flow saved as text would match more packets.
fn without_contexts(line: &str) -> String {
    let context =
        |word: &&str| ["nsh_c1=", "nsh_c2=", "nsh_c3=", "nsh_c4="].iter().any(|c| word.starts_with(c));
    match line.contains("nsh_c") && !line.contains("nsh_mdtype=1") && !line.contains("->nsh_c") {
        true => line.split(',').filter(|word| !context(word)).collect::<Vec<_>>().join(","),
        false => line.to_owned(),
    }
}

/// Sorts the flows of a conjunction, because their order is not defined.
fn sort_conjunctions(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let is_conjunction = |l: &&str| l.trim_start().starts_with("-> conj.");
    lines.chunk_by_mut(|a, b| is_conjunction(a) && is_conjunction(b)).for_each(|run| {
        if run.len() > 1 {
            run.sort_unstable();
        }
    });
    lines.join("\n")
}

/// Moves the lines about ports that refuse a packet without an Ethernet header to the end, because their position in a flood is
/// not defined.
fn move_refusals_to_end(text: &str) -> String {
    let (mut refused, kept): (Vec<&str>, Vec<&str>) = text
        .lines()
        .partition(|l| l.contains(">> Trying to send non-Ethernet packet through legacy L2 port"));
    refused.sort_unstable();
    [kept, refused].concat().join("\n")
}

/// The beginnings of actions that add or remove a header.
pub const HEADERS: [&str; 5] = ["push_eth(", "pop_eth", "push_nsh(", "pop_nsh(", "add_mpls("];

/// The changes that actions have made to a packet. A tag that is popped and pushed again is unchanged.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// The packet's original tags, as far as known; the outermost tag is the last.
    tags: Vec<String>,
    vlans: Vec<String>,
    sets: Vec<String>,
}

impl State {
    /// The state of an unchanged packet. `tags`: its tags in the form of `push_vlan`; the outermost tag is the last.
    pub fn of(tags: &[String]) -> State {
        State { tags: tags.iter().map(|tag| without_type(tag)).collect(), ..State::default() }
    }

    /// Applies an action. Returns whether it is one that changes the packet.
    pub fn apply(&mut self, action: &str) -> bool {
        let last = self.vlans.last().map_or("", String::as_str);
        if action == "pop_vlan" && last.starts_with("push_vlan")
            || last == "pop_vlan" && self.last_popped() == Some(&without_type(action))
        {
            self.vlans.pop();
        } else if action == "pop_vlan" || action.starts_with("push_vlan") {
            self.vlans.push(action.to_owned());
        } else if ["set(", "push_", "pop_", "add_mpls("].iter().any(|word| action.starts_with(word)) {
            self.sets.push(action.to_owned());
        } else {
            return false;
        }
        true
    }

    /// Number of original tags that were popped.
    fn popped_count(&self) -> usize {
        self.vlans.iter().take_while(|v| *v == "pop_vlan").count()
    }

    /// The original tag that was popped last.
    fn last_popped(&self) -> Option<&String> {
        self.tags.get(self.tags.len().checked_sub(self.popped_count())?)
    }

    /// The current tags of the packet.
    fn tags(&self) -> Vec<String> {
        let left = self.tags.len().saturating_sub(self.popped_count());
        self.tags[..left].iter().chain(&self.vlans[self.popped_count()..]).cloned().collect()
    }

    /// Returns whether a header was added or removed.
    pub fn changed_headers(&self) -> bool {
        self.sets.iter().any(|s| HEADERS.iter().any(|h| s.starts_with(h)))
    }

    /// The changes as text.
    pub fn text(&self) -> String {
        self.vlans.iter().chain(&self.sets).map(String::as_str).collect::<Vec<_>>().join(",")
    }
}

/// Returns a tag without its type, because the original tag of a packet is printed without it.
fn without_type(tag: &str) -> String {
    tag.replace("tpid=0x88a8,", "")
}

/// Sorts the outputs of a list of datapath actions, because the order of a flood is not defined, so that outputs with a tag may be
/// before or after those without. Each output is printed with the changes made before it. `tags`: the packet's tags in the form
/// of `push_vlan`.
pub fn sort_outputs(list: &str, tags: &[String]) -> String {
    let (mut state, mut outputs) = (State::of(tags), Vec::new());
    // The stock switch sometimes writes a header without any field: that of IPv6 after labels were pushed onto an IPv6 packet that
    // enters a tunnel over IPv6, that of NSH if the context headers of type 2 are written.
    let writes = |action: &&str| !matches!(*action, "set(ipv6())" | "set(nsh())");
    for action in split(list).into_iter().filter(writes) {
        if !state.apply(action) {
            outputs.push(format!("[{}]{}", state.text(), sort_nested(action, &state.tags())));
        }
    }
    outputs.sort_unstable();
    outputs.join(" ")
}

/// Sorts the lists within an action by [`sort_outputs`].
fn sort_nested(action: &str, tags: &[String]) -> String {
    let Some((name, inside)) = action.strip_suffix(')').and_then(|a| a.split_once('(')) else {
        return action.to_owned();
    };
    match name {
        "clone" | "gt" | "le" | "actions" => format!("{name}({})", sort_outputs(inside, tags)),
        "check_pkt_len" | "sample" => {
            let parts: Vec<String> = split(inside).into_iter().map(|part| sort_nested(part, tags)).collect();
            format!("{name}({})", parts.join(","))
        }
        _ => action.to_owned(),
    }
}

/// Splits a list into actions, at the commas outside of parentheses.
pub fn split(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut out) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                out.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push(&list[start..]);
    out
}

/// Returns whether the stock switch translates packets when it executes the actions of this trace. It does so if a list within another
/// action recirculates packets, or if packets are received from a tunnel. For a trace it executes no outputs, and no recirculation outside
/// of nested lists.
pub fn translates_again(trace: &str) -> bool {
    let lists = trace.lines().filter_map(|l| l.strip_prefix(ACTIONS));
    lists.flat_map(split).any(|action| {
        action.contains("tnl_pop(") || action.contains("recirc(") && !action.starts_with("recirc(")
    })
}

/// Returns the text after `key` up to a parenthesis, a comma or the end.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let rest = &text[text.find(key)? + key.len()..];
    Some(&rest[..rest.find([',', ')']).unwrap_or(rest.len())])
}

/// Returns the last line that begins with `what`, or an empty text.
pub fn line<'a>(text: &'a str, what: &str) -> &'a str {
    text.lines().rfind(|l| l.starts_with(what)).unwrap_or_default()
}

/// The lookup counters of a datapath.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lookups {
    /// Number of packets that hit a megaflow.
    pub hit: u64,
    /// Number of packets that missed.
    pub missed: u64,
}

impl Lookups {
    /// Parses the text of `dpctl/show`.
    pub fn of(text: &str) -> Lookups {
        let line = text.lines().find(|l| l.trim_start().starts_with("lookups:")).unwrap_or_default();
        let count = |word: &str| line.split(word).nth(1)?.split(' ').next()?.parse().ok();
        Lookups { hit: count("hit:").unwrap_or(0), missed: count("missed:").unwrap_or(0) }
    }

    /// Sum of both.
    pub fn all(self) -> u64 {
        self.hit + self.missed
    }
}

/// Returns the learning table without ages, sorted. The address zero is removed: the stock switch learns it from packets with an NSH
/// header when it counts a megaflow without translating the packet again.
pub fn fdb(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .filter(|l| !l.contains("00:00:00:00:00:00"))
        .map(|l| l.trim_end().rsplit_once(' ').map_or(l, |(head, _)| head.trim_end()))
        .collect();
    sorted_lines(&lines.join("\n"))
}

/// The LLC and SNAP headers of a frame whose type comes after them.
pub const SNAP: &str = "aaaa03000000";

/// Normalises sent frames: removes bytes that the stock switch writes wrongly.
///
/// * In later fragments of IPv4, also within an NSH header or after labels, it updates the checksum of a transport header that does
///   not exist, and writes ICMP's type and code there.
/// * In an IPv6 packet with an atomic fragment header, it does not update the checksum of the transport header.
/// * It does not write to a label after a tag.
/// * When the first label is pushed on a frame with an 802.3 length, it replaces the length by the type of labels, so the following
///   bytes are interpreted as labels. Sluice writes the type into the SNAP header, which contains the type of such a frame.
pub fn outputs(lines: &[String]) -> String {
    let blank = |line: &String| match line.split_once(' ') {
        Some((port, hex)) => {
            format!("{port} {}", outer::split(hex, blanked).unwrap_or_else(|| blanked(hex)))
        }
        None => line.clone(),
    };
    lines.iter().map(blank).collect::<Vec<_>>().join("\n")
}

fn blanked(hex: &str) -> String {
    let mut out = hex.to_owned();
    for bytes in ignored_bytes(hex) {
        let digits = 2 * bytes.start..2 * bytes.end;
        if out.get(digits.clone()).is_some() {
            out.replace_range(digits, &"_".repeat(2 * bytes.len()));
        }
    }
    out
}

/// Returns the bytes of a frame that are not compared.
fn ignored_bytes(hex: &str) -> Vec<Range<usize>> {
    let at = |i: usize| hex.get(2 * i..2 * i + 2).and_then(|b| u8::from_str_radix(b, 16).ok()).unwrap_or(0);
    let mut out = Vec::new();
    let mut l3 = 14;
    loop {
        match (at(l3 - 2), at(l3 - 1)) {
            (0x81, 0) | (0x88, 0xa8) => l3 += 4,
            // A frame within an NSH header.
            (0x89, 0x4f) if at(l3 + 3) == 3 => l3 += 4 * usize::from(at(l3 + 1) & 0x3f) + 14,
            _ => break,
        }
    }
    let labels = |i: usize| matches!((at(i), at(i + 1)), (0x88, 0x47 | 0x48));
    let mut kind = u16::from_be_bytes([at(l3 - 2), at(l3 - 1)]);
    let mut labelled = labels(l3 - 2);
    if hex.get(2 * l3..2 * l3 + 12) == Some(SNAP) && (labelled || labels(l3 + 6)) {
        out.extend([l3 - 2..l3, l3 + 6..l3 + 8]);
        (l3, labelled) = (l3 + 8, true);
    } else if hex.get(2 * l3..2 * l3 + 12) == Some(SNAP) && kind < 0x600 {
        l3 += 8;
        kind = u16::from_be_bytes([at(l3 - 2), at(l3 - 1)]);
    } else if labelled && l3 > 14 {
        out.push(l3..l3 + 4);
    }
    if labelled {
        while 2 * l3 < hex.len() && at(l3 + 2) & 1 == 0 {
            l3 += 4;
        }
        l3 += 4;
        kind = match at(l3) >> 4 {
            4 => 0x0800,
            6 => 0x86dd,
            _ => {
                // The labels contain a frame.
                let inner = ignored_bytes(hex.get(2 * l3..).unwrap_or_default());
                out.extend(inner.into_iter().map(|r| r.start + l3..r.end + l3));
                return out;
            }
        };
    }
    let (l4, proto) = match kind {
        0x0800 if at(l3 + 6) & 0x1f != 0 || at(l3 + 7) != 0 => {
            (l3 + 4 * usize::from(at(l3) & 0xf), at(l3 + 9))
        }
        // An atomic fragment (RFC 6946) has neither an offset nor the flag "more fragments".
        0x86dd if at(l3 + 6) == 44 && at(l3 + 42) == 0 && at(l3 + 43) & 0xf9 == 0 => (l3 + 48, at(l3 + 40)),
        _ => return out,
    };
    let sum = match proto {
        1 => {
            out.push(l4..l4 + 4);
            return out;
        }
        6 => l4 + 16,
        17 => l4 + 6,
        58 => l4 + 2,
        _ => return out,
    };
    out.push(sum..sum + 2);
    out
}

/// Returns the megaflows with packet and byte counters, sorted. `types`: some frames have tags of another type, which the stock switch
/// does not distinguish, so the counters of tagged packets differ. `failed`: some packets cannot be translated, and the stock
/// switch deletes the megaflows that drop them in each revalidation round.
pub fn datapath_flows(text: &str, types: bool, failed: bool) -> String {
    let text = ["used:", "recirc_id=", "recirc_id(", "recirc("]
        .iter()
        .fold(text.to_owned(), |t, key| hide_numbers(&t, key));
    // In each revalidation round, the stock switch deletes the megaflow of a frame that ends within its tag, because it considers
    // the megaflow too wide. It does the same for an ICMPv6 packet of another type whose translation read a field of neighbour
    // discovery. For a packet that must be translated each time, only the stock switch has a slow-path megaflow. Only it has one
    // for a packet whose tunnel options end too early.
    let is_compared = |l: &&str| {
        !(l.contains("slow_path(")
            || l.contains(" greater than remaining ")
            || l.starts_with("flow-dump from")
            || types && l.contains("vlan(")
            || l.contains("vlan(vid=0,cfi=0)")
            || l.contains("icmpv6(") && !l.contains("nd(")
            || failed && l.ends_with("actions:drop"))
    };
    let lines = text.lines().filter(is_compared).map(|l| {
        let mut l = l.replace("used:never", "used:<n>s");
        // The stock switch stores the option type of neighbour discovery in the field of the TCP flags, and prints it as flags.
        if let Some((head, tail)) = l.split_once(", flags:").filter(|_| !l.contains("proto=6")) {
            l = format!("{head}{}", tail.find(',').map_or("", |at| &tail[at..]));
        }
        let Some((head, list)) = l.split_once("actions:") else { return l };
        let tag = l
            .split_once("vlan(vid=")
            .and_then(|(_, t)| t.split_once(')'))
            .map(|(t, _)| format!("push_vlan(vid={t})"));
        // Versions differ in the position of metadata in the key.
        let (key, counters) = head.split_once(", ").unwrap_or((head, ""));
        let key = without_geneve_options(key);
        let mut key = split(&key);
        key.sort_unstable();
        let key = key.join(",");
        format!("{key}, {counters}actions:{}", sort_outputs(list, tag.as_slice()))
    });
    let lines: Vec<String> = lines.collect();
    sorted_lines(&lines.join("\n"))
}

/// Removes Geneve options from the key of a megaflow. If a packet's options are sent on as they are, Sluice matches them. The stock
/// switch matches only their length, so packets that differ in an option get the value of the first one.
fn without_geneve_options(key: &str) -> String {
    let parts = key.split_once(",geneve({").and_then(|(head, rest)| Some((head, rest.split_once("})")?.1)));
    parts.map_or_else(|| key.to_owned(), |(head, tail)| format!("{head}{tail}"))
}

/// Returns OpenFlow flows with counters, sorted.
pub fn flows(text: &str) -> String {
    // The order of flows in a reply is not defined, nor is that of the client's warnings about deprecated actions.
    let text: String =
        text.lines().filter(|l| !l.contains("|ofp_actions|INFO|")).map(|l| format!("{l}\n")).collect();
    let text = ["duration=", "idle_age=", "hard_age=", "xid="]
        .iter()
        .fold(without_log_times(&text), |t, key| hide_numbers(&t, key));
    let text = text
        .replace(" idle_age=<n>,", "")
        .replace(" idle_age=0,", "")
        .replace(" hard_age=<n>,", "")
        .replace(" hard_age=0,", "");
    sorted_lines(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_run_go_and_the_rest_stays() {
        assert_eq!(
            trace(
                "Flow: dl_vlan=1,dl_vlan_pcp=0
Datapath actions: 3,pop_vlan,1,push_vlan(vid=1,pcp=0),2,recirc(0x1f)"
            ),
            "Flow: dl_vlan=1,dl_vlan_pcp=0
Datapath actions: []2 []3 []recirc(<n>) [pop_vlan]1"
        );
        let passes = |list: &str| {
            trace(&format!("Flow: dl_vlan=1,dl_vlan_pcp=0\n{ACTIONS}{list}\nFlow: vlan_tci=0\n{ACTIONS}1"))
        };
        assert_eq!(passes("3,pop_vlan,1,push_vlan(vid=1,pcp=0),2"), passes("2,3,pop_vlan,1"));
        assert_ne!(passes("3,pop_vlan,1,push_vlan(vid=2,pcp=0),2"), passes("2,3,pop_vlan,1"));
        let megaflow = |options: &str| {
            let key =
                format!("recirc_id(0),tunnel(tun_id=0x5,dst=1.1.1.1{options},flags(+key)),in_port(6081)");
            datapath_flows(&format!("{key}, packets:1, bytes:60, used:never, actions:2"), false, false)
        };
        assert_eq!(megaflow(",geneve({})"), megaflow(",geneve({class=0xffff,type=0,len=4,0x1234})"));
        assert_eq!(megaflow(",geneve({})"), megaflow(""));
        assert_eq!(trace("     0. reg0=0x2, priority 0"), "     0. No match.");
        let inner = |list: &str| sort_outputs(&format!("push_vlan(vid=1,pcp=0),clone({list})"), &[]);
        assert_eq!(inner("1,pop_vlan,2,push_vlan(vid=1,pcp=0),3"), inner("1,3,pop_vlan,2"));
        assert_eq!(inner("1,set(ipv6()),2"), inner("1,2"));
        assert_ne!(inner("1,set(ipv6(hlimit=3)),2"), inner("1,2"));
        let inner =
            |list: &str| sort_outputs(&format!("push_vlan(tpid=0x88a8,vid=1,pcp=0),clone({list})"), &[]);
        assert_eq!(inner("1,pop_vlan,2,push_vlan(tpid=0x88a8,vid=1,pcp=0),3"), inner("1,3,pop_vlan,2"));
        let two = |list: &str| {
            sort_outputs(
                &format!("push_vlan(vid=1,pcp=6),push_vlan(tpid=0x88a8,vid=2,pcp=0),clone({list})"),
                &[],
            )
        };
        let back = "push_vlan(vid=1,pcp=6),push_vlan(tpid=0x88a8,vid=2,pcp=0)";
        assert_eq!(two(&format!("1,pop_vlan,pop_vlan,2,{back},3")), two("1,3,pop_vlan,pop_vlan,2"));
        assert_ne!(two("pop_vlan,pop_vlan,2,push_vlan(vid=2,pcp=0),3"), two("pop_vlan,3,pop_vlan,2"));
        assert_eq!(trace("Megaflow: eth,nsh_spi=0x4,nsh_c1=0x0,nsh_c2=0/1"), "Megaflow: eth,nsh_spi=0x4");
        let label = |ethertype: &str, snap: &str| {
            outputs(&[format!("p1 {:024}{ethertype}aaaa03000000{snap}00015140", 0)])
        };
        assert_eq!(label("8847", "0800"), label("0028", "8847"));
        assert_ne!(label("8847", "0800"), label("0028", "0800"));
        let fragment = |head: &str, sum: &str| {
            let ip = format!("4500002c123400104006{:020}", 0);
            outputs(&[format!("p1 {:024}{head}{ip}{:032}{sum}", 0, 0)])
        };
        for head in [
            "0800",
            "884700000140",
            "88470000004000000140",
            "0034aaaa03000000884700000140",
            &format!("884700000140{:024}0800", 5),
        ] {
            assert_eq!(fragment(head, "0001"), fragment(head, "0002"));
            assert_ne!(fragment(head, "000100"), fragment(head, "000101"));
        }
        assert_ne!(fragment("0900", "0001"), fragment("0900", "0002"));
        let fragment = |head: &str, offset: &str, sum: &str| {
            let ip = format!("6000000000202c40{:064}0600{offset}00000007", 0);
            outputs(&[format!("p1 {:024}{head}{ip}{:032}{sum}", 0, 0)])
        };
        for head in ["86dd", "884700000140", "88480000004000000140"] {
            assert_eq!(fragment(head, "0000", "0001"), fragment(head, "0000", "0002"));
            assert_ne!(fragment(head, "0001", "0001"), fragment(head, "0001", "0002"));
            assert_ne!(fragment(head, "0008", "0001"), fragment(head, "0008", "0002"));
        }
        assert_eq!(hide_numbers("recirc_id(0),x", "recirc_id("), "recirc_id(0),x");
        assert_eq!(
            fdb(" port  VLAN  MAC                Age\n    1     0  50:54:00:00:00:01   12\n"),
            "    1     0  50:54:00:00:00:01\n port  VLAN  MAC"
        );
        assert_eq!(Lookups::of("x\n  lookups: hit:3 missed:4 lost:0\n"), Lookups { hit: 3, missed: 4 });
        assert_eq!(unparsable_line("WARN: x\novs-ofctl: -:16: actions are invalid\n"), Some(16));
        assert_eq!(line("a\nMegaflow: b\n", "Megaflow:"), "Megaflow: b");
        assert!(translates_again("x\nDatapath actions: 1,clone(2,recirc(0x1))"));
        assert!(!translates_again("x\nDatapath actions: ct(commit),recirc(0x1)"));
        assert_eq!(error("Error OFPX for: 2026-01-02T03:04:05Z|00001|x"), "Error OFPX for: 00001|x\n");
        assert_eq!(
            error("2026-01-02T03:04:05Z|00001|ofp_actions|WARN|no\nxid=0x4: Z|"),
            "00001|ofp_actions|WARN|no\nxid=<n>: Z|\n"
        );
    }
}
