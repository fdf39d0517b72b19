//! What no two runs share, taken out of the answers.

use std::ops::Range;

/// Text with every number after `key` replaced by `<n>`.
fn hide(text: &str, key: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(key) {
        let (head, tail) = rest.split_at(at + key.len());
        out.push_str(head);
        let end = tail.find(|c: char| !(c.is_ascii_hexdigit() || c == 'x' || c == '.')).unwrap_or(tail.len());
        // Recirculation 0 is no recirculation: that is no name for something.
        out.push_str(if tail[..end].is_empty() || &tail[..end] == "0" { &tail[..end] } else { "<n>" });
        rest = &tail[end..];
    }
    out + rest
}

/// The lines in order.
pub fn sorted_lines(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().filter(|l| !l.is_empty()).collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// Whether `revalidator/verify` found that all megaflows do what the tables say.
pub fn is_verified(text: &str) -> bool {
    text.lines().all(|line| line.ends_with(" megaflows as the tables say, 0 not"))
}

/// An error of a client: the answers of two daemons differ in the transaction's number, and its log lines in their time.
pub fn error(text: &str) -> String {
    hide(&timeless(text), "xid=")
}

/// The number of the line of its input that `ovs-ofctl` says it cannot read.
pub fn unread(text: &str) -> Option<usize> {
    text.lines().find_map(|l| l.strip_prefix("ovs-ofctl: -:")?.split_once(':')?.0.parse().ok())
}

/// Without the time of log lines, which may stand behind an error.
fn timeless(text: &str) -> String {
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

/// What a trace says before the list of a datapath's actions.
pub const ACTIONS: &str = "Datapath actions: ";

/// A trace without the numbers that a switch gives to what it sets aside.
pub fn without_ids(text: &str) -> String {
    ["recirc_id=", "recirc_id(", "recirc(", "ct_id="].iter().fold(text.to_owned(), |t, key| hide(&t, key))
}

/// The text of a trace.
pub fn trace(text: &str) -> String {
    let text = without_ids(text);
    let tag = tag(&text);
    let tags = tag.as_slice();
    let text = count_refusals(&sort_conjunctions(&text));
    let lines = text.lines().map(|l| match l.strip_prefix(ACTIONS) {
        Some(list) => format!("{ACTIONS}{}", sort_outputs(list, tags)),
        None => without_options(&without_contexts(l)),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The tag of the packet that a trace is about, as `push_vlan` says it.
pub fn tag(text: &str) -> Option<String> {
    let flow = line(text, "Flow:");
    let (vid, pcp) = value(flow, "dl_vlan=").zip(value(flow, "dl_vlan_pcp="))?;
    Some(format!("push_vlan(vid={vid},pcp={pcp})"))
}

/// A packet's last fields without options of a tunnel: of one that is given as bytes the stock switch has no table to read those by
/// that flows have set, and leaves them out.
fn without_options(line: &str) -> String {
    match line.strip_prefix("Final flow: ") {
        Some(fields) => {
            let kept: Vec<&str> = fields.split(',').filter(|f| !f.starts_with("tun_metadata")).collect();
            format!("Final flow: {}", kept.join(","))
        }
        None => line.to_owned(),
    }
}

/// A match without the contexts of a service header where its type is not matched: the stock switch does not tell them then, so
/// that a flow saved as text would match more.
fn without_contexts(line: &str) -> String {
    let context =
        |word: &&str| ["nsh_c1=", "nsh_c2=", "nsh_c3=", "nsh_c4="].iter().any(|c| word.starts_with(c));
    match line.contains("nsh_c") && !line.contains("nsh_mdtype=1") && !line.contains("->nsh_c") {
        true => line.split(',').filter(|word| !context(word)).collect::<Vec<_>>().join(","),
        false => line.to_owned(),
    }
}

/// The flows that make up a conjunction are told in the order of subtables of one priority, which is nobody's promise.
fn sort_conjunctions(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let told = |l: &&str| l.trim_start().starts_with("-> conj.");
    lines.chunk_by_mut(|a, b| told(a) && told(b)).for_each(|run| {
        if run.len() > 1 {
            run.sort_unstable();
        }
    });
    lines.join("\n")
}

/// Ports that do not take a packet without an Ethernet header stand with the others of a flood, which has no order: they are told
/// at the end.
fn count_refusals(text: &str) -> String {
    let (mut refused, kept): (Vec<&str>, Vec<&str>) = text
        .lines()
        .partition(|l| l.contains(">> Trying to send non-Ethernet packet through legacy L2 port"));
    refused.sort_unstable();
    [kept, refused].concat().join("\n")
}

/// How actions begin that put a header on a packet, or take one off.
pub const HEADERS: [&str; 5] = ["push_eth(", "pop_eth", "push_nsh(", "pop_nsh(", "add_mpls("];

/// What actions have done to a packet. Tags that are put back are as if they had stayed.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Those that it had, as far as they are known, the outer one last.
    tags: Vec<String>,
    vlans: Vec<String>,
    sets: Vec<String>,
}

impl State {
    /// Of a packet to which nothing was done; `tags` are its own as `push_vlan` says them, the outer one last.
    pub fn of(tags: &[String]) -> State {
        State { tags: tags.iter().map(|tag| without_type(tag)).collect(), ..State::default() }
    }

    /// Whether the action changes the packet.
    pub fn takes(&mut self, action: &str) -> bool {
        let last = self.vlans.last().map_or("", String::as_str);
        if action == "pop_vlan" && last.starts_with("push_vlan")
            || last == "pop_vlan" && self.taken_off() == Some(&without_type(action))
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

    /// How many of its own tags it has no more.
    fn popped(&self) -> usize {
        self.vlans.iter().take_while(|v| *v == "pop_vlan").count()
    }

    /// The tag of its own that was taken off last.
    fn taken_off(&self) -> Option<&String> {
        self.tags.get(self.tags.len().checked_sub(self.popped())?)
    }

    /// The tags that the packet has now.
    fn tags(&self) -> Vec<String> {
        let left = self.tags.len().saturating_sub(self.popped());
        self.tags[..left].iter().chain(&self.vlans[self.popped()..]).cloned().collect()
    }

    /// Whether a header has been put on or taken off.
    pub fn rewrapped(&self) -> bool {
        self.sets.iter().any(|s| HEADERS.iter().any(|h| s.starts_with(h)))
    }

    /// What was done.
    pub fn text(&self) -> String {
        self.vlans.iter().chain(&self.sets).map(String::as_str).collect::<Vec<_>>().join(",")
    }
}

/// A tag by its number and priority: a packet's own is told without its type.
fn without_type(tag: &str) -> String {
    tag.replace("tpid=0x88a8,", "")
}

/// A list of datapath actions in an order of its own: a flood has none, and sends to the ports with a tag before those without, or
/// after. Each output stands with what was done to the packet before it. `tags` are the packet's, as `push_vlan` says them.
fn sort_outputs(list: &str, tags: &[String]) -> String {
    let (mut state, mut outputs) = (State::of(tags), Vec::new());
    for action in split(list) {
        if !state.takes(action) {
            outputs.push(format!("[{}]{}", state.text(), inside_sorted(action, &state.tags())));
        }
    }
    outputs.sort_unstable();
    outputs.join(" ")
}

/// An action with lists of actions in it, each of them in the order of [`sort_outputs`].
fn inside_sorted(action: &str, tags: &[String]) -> String {
    let Some((name, inside)) = action.strip_suffix(')').and_then(|a| a.split_once('(')) else {
        return action.to_owned();
    };
    match name {
        "clone" | "gt" | "le" | "actions" => format!("{name}({})", sort_outputs(inside, tags)),
        "check_pkt_len" | "sample" => {
            let parts: Vec<String> =
                split(inside).into_iter().map(|part| inside_sorted(part, tags)).collect();
            format!("{name}({})", parts.join(","))
        }
        _ => action.to_owned(),
    }
}

/// The actions of a list: commas in brackets part nothing.
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

/// Whether packets of a trace would be set aside by a list inside of another action.
pub fn recirculates_inside(trace: &str) -> bool {
    let lists = trace.lines().filter_map(|l| l.strip_prefix(ACTIONS));
    lists.flat_map(split).any(|action| action.contains("recirc(") && !action.starts_with("recirc("))
}

/// The text after `key` up to a bracket, a comma or the end.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let rest = &text[text.find(key)? + key.len()..];
    Some(&rest[..rest.find([',', ')']).unwrap_or(rest.len())])
}

/// The line of a text that begins with `what`; empty when there is none.
pub fn line<'a>(text: &'a str, what: &str) -> &'a str {
    text.lines().rfind(|l| l.starts_with(what)).unwrap_or_default()
}

/// How many packets a datapath has looked up: those that met a megaflow, and those that did not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lookups {
    /// Met one.
    pub hit: u64,
    /// Did not.
    pub missed: u64,
}

impl Lookups {
    /// From the text of `dpctl/show`.
    pub fn of(text: &str) -> Lookups {
        let line = text.lines().find(|l| l.trim_start().starts_with("lookups:")).unwrap_or_default();
        let count = |word: &str| line.split(word).nth(1)?.split(' ').next()?.parse().ok();
        Lookups { hit: count("hit:").unwrap_or(0), missed: count("missed:").unwrap_or(0) }
    }

    /// Both.
    pub fn all(self) -> u64 {
        self.hit + self.missed
    }
}

/// The learning table without ages, in order; without the address of packets that have none, which the stock switch learns from
/// service headers where it takes the statistics of a megaflow without translating again.
pub fn fdb(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .filter(|l| !l.contains("00:00:00:00:00:00"))
        .map(|l| l.trim_end().rsplit_once(' ').map_or(l, |(head, _)| head.trim_end()))
        .collect();
    sorted_lines(&lines.join("\n"))
}

/// LLC and SNAP headers of frames that have their type behind these.
pub const SNAP: &str = "aaaa03000000";

/// What left by the ports, without what the stock switch makes of fragments: it brings the checksum of a transport header up to
/// date where none is (in later fragments of IPv4, also inside of a service header or behind labels), as it writes ICMP's type and
/// code there, and leaves that of an IPv6 packet as it was whose fragment header says that it is whole. It does not write to a
/// label behind a tag either. The type of the first label put on a frame with an 802.3 length it writes over the length, so that
/// what follows is taken for labels; ours stands in the SNAP header, where the type of such a frame is.
pub fn outputs(lines: &[String]) -> String {
    let blank = |line: &String| match line.split_once(' ') {
        Some((port, hex)) => format!("{port} {}", blanked(hex)),
        None => line.clone(),
    };
    lines.iter().map(blank).collect::<Vec<_>>().join("\n")
}

fn blanked(hex: &str) -> String {
    let mut out = hex.to_owned();
    for bytes in left_out(hex) {
        let digits = 2 * bytes.start..2 * bytes.end;
        if out.get(digits.clone()).is_some() {
            out.replace_range(digits, &"_".repeat(2 * bytes.len()));
        }
    }
    out
}

/// The bytes of a frame that are not compared.
fn left_out(hex: &str) -> Vec<Range<usize>> {
    let at = |i: usize| hex.get(2 * i..2 * i + 2).and_then(|b| u8::from_str_radix(b, 16).ok()).unwrap_or(0);
    let mut out = Vec::new();
    let mut l3 = 14;
    loop {
        match (at(l3 - 2), at(l3 - 1)) {
            (0x81, 0) | (0x88, 0xa8) => l3 += 4,
            // A frame in a service header.
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
                // A frame behind labels.
                let inner = left_out(hex.get(2 * l3..).unwrap_or_default());
                out.extend(inner.into_iter().map(|r| r.start + l3..r.end + l3));
                return out;
            }
        };
    }
    let (l4, proto) = match kind {
        0x0800 if at(l3 + 6) & 0x1f != 0 || at(l3 + 7) != 0 => {
            (l3 + 4 * usize::from(at(l3) & 0xf), at(l3 + 9))
        }
        // Neither an offset nor "more fragments": RFC 6946, an atomic fragment.
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

/// The megaflows with their packets and bytes, in order; `types`: frames came whose tags are of different types, which the stock
/// switch takes for the same, so that what is tagged counts differently; `failed`: some cannot be translated, and the stock switch
/// removes the megaflows that drop them whenever it looks after them.
pub fn datapath_flows(text: &str, types: bool, failed: bool) -> String {
    let text =
        ["used:", "recirc_id=", "recirc_id(", "recirc("].iter().fold(text.to_owned(), |t, key| hide(&t, key));
    // It removes the megaflow of a frame that ends in its tag at every sweep, as wider than it should be.
    // So it does with an ICMPv6 packet of another type that a match on a neighbour's address had to look at.
    // What has to be translated packet by packet has a megaflow there that says so, and none here.
    let told = |l: &&str| {
        !(l.contains("slow_path(")
            || l.starts_with("flow-dump from")
            || types && l.contains("vlan(")
            || l.contains("vlan(vid=0,cfi=0)")
            || l.contains("icmpv6(") && !l.contains("nd(")
            || failed && l.ends_with("actions:drop"))
    };
    let lines = text.lines().filter(told).map(|l| {
        let mut l = l.replace("used:never", "used:<n>s");
        // In neighbour discovery the stock switch keeps the type of an option where TCP has its flags, and shows it as such.
        if let Some((head, tail)) = l.split_once(", flags:").filter(|_| !l.contains("proto=6")) {
            l = format!("{head}{}", tail.find(',').map_or("", |at| &tail[at..]));
        }
        let Some((head, list)) = l.split_once("actions:") else { return l };
        let tag = l
            .split_once("vlan(vid=")
            .and_then(|(_, t)| t.split_once(')'))
            .map(|(t, _)| format!("push_vlan(vid={t})"));
        // Where a key's metadata stand changed between versions.
        let (key, counters) = head.split_once(", ").unwrap_or((head, ""));
        let mut key = split(key);
        key.sort_unstable();
        let key = key.join(",");
        format!("{key}, {counters}actions:{}", sort_outputs(list, tag.as_slice()))
    });
    let lines: Vec<String> = lines.collect();
    sorted_lines(&lines.join("\n"))
}

/// OpenFlow flows with counters, in order.
pub fn flows(text: &str) -> String {
    let text =
        ["duration=", "idle_age=", "hard_age=", "xid="].iter().fold(timeless(text), |t, key| hide(&t, key));
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
        let inner = |list: &str| sort_outputs(&format!("push_vlan(vid=1,pcp=0),clone({list})"), &[]);
        assert_eq!(inner("1,pop_vlan,2,push_vlan(vid=1,pcp=0),3"), inner("1,3,pop_vlan,2"));
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
        assert_eq!(hide("recirc_id(0),x", "recirc_id("), "recirc_id(0),x");
        assert_eq!(
            fdb(" port  VLAN  MAC                Age\n    1     0  50:54:00:00:00:01   12\n"),
            "    1     0  50:54:00:00:00:01\n port  VLAN  MAC"
        );
        assert_eq!(Lookups::of("x\n  lookups: hit:3 missed:4 lost:0\n"), Lookups { hit: 3, missed: 4 });
        assert_eq!(unread("WARN: x\novs-ofctl: -:16: actions are invalid\n"), Some(16));
        assert_eq!(line("a\nMegaflow: b\n", "Megaflow:"), "Megaflow: b");
        assert!(recirculates_inside("x\nDatapath actions: 1,clone(2,recirc(0x1))"));
        assert!(!recirculates_inside("x\nDatapath actions: ct(commit),recirc(0x1)"));
        assert_eq!(error("Error OFPX for: 2026-01-02T03:04:05Z|00001|x"), "Error OFPX for: 00001|x\n");
        assert_eq!(
            error("2026-01-02T03:04:05Z|00001|ofp_actions|WARN|no\nxid=0x4: Z|"),
            "00001|ofp_actions|WARN|no\nxid=<n>: Z|\n"
        );
    }
}
