//! Expected differences from the stock switch that are not faults of Sluice. For each there is a reason and a condition, which
//! is as narrow as possible. The condition is a function that returns whether two results differ in this way; its comment describes
//! the difference.

use crate::{normalize, sent};

mod copies;
pub mod counters;
pub mod floods;
mod frame_line;
pub mod learned;
pub mod masks;
pub mod megaflows;
pub mod outputs;
mod recomputed;

/// Assertions that fail in the stock switch (3.1 or 3.7.1) and end it, with their causes.
const EXPECTED_ASSERTIONS: &[(&str, &str)] = &[
    (
        "assertion !dp_packet_is_eth(packet) failed in push_eth()",
        "ends: it pushes an Ethernet header onto a packet that has one",
    ),
    (
        "assertion state->action_set_len <= state->ofpacts_len failed in recirc_alloc_id__()",
        "ends: it recirculates with an action set that is longer than the remaining actions",
    ),
    (
        "flow->nw_frag == base_flow->nw_frag failed in commit_set_ipv6_action()",
        "ends: it writes to an IPv6 header that the packet does not have",
    ),
    (
        "flow->nsh.np == base_flow->nsh.np failed in commit_set_nsh_action()",
        "ends: it writes to an NSH header of another next protocol than that of the packet",
    ),
    (
        "assertion udp failed in packet_udp_complete_csum()",
        "ends: it completes the UDP checksum of a packet that has no UDP header",
    ),
];

/// The text of a trace before an action set.
const ACTION_SET: &str = " -> action set is: ";
/// The OpenFlow action whose two branches become lists of datapath actions.
const CHECK_PKT_LARGER: &str = "check_pkt_larger(";
/// Datapath actions that contain nested lists of actions.
const LISTS: [&str; 2] = ["check_pkt_len(", "clone("];

/// Returns the cause of an expected abort of the stock switch, given its log.
pub fn abort_cause(log: &str) -> Option<&'static str> {
    EXPECTED_ASSERTIONS.iter().find(|(assertion, _)| log.contains(assertion)).map(|(_, why)| *why)
}

/// Returns the name of the expected difference between two traces, if there is one. `is_3_1`: the stock switch is version 3.1, not
/// 3.7.1.
pub fn trace(stock: &str, ours: &str, is_3_1: bool) -> Option<&'static str> {
    type IsExpected = fn(&str, &str) -> bool;
    const OF_3_1: [(&str, IsExpected); 6] = [
        ("trace: action set executed again", action_set_again),
        ("trace: learned from an action set executed again", learned::from_action_set_again),
        ("trace: action set in a branch", action_set_in_branch),
        ("trace: header around a copy", copies::is_expected_without_megaflow),
        ("trace: context headers of NSH type 2", contexts_of_type_2),
        ("trace: write to context headers of NSH type 2", written_contexts_of_type_2),
    ];
    let named: [(_, IsExpected); 10] = [
        ("trace: header around a copy", copies::is_expected),
        ("trace: action set of the other branch", other_branch_action_set),
        ("trace: frame below an MPLS label", frame_below_a_label),
        ("trace: deleted tunnel option", deleted_option),
        ("trace: tunnel fields after a flood", floods::tunnel_fields_after_flood),
        ("trace: order of a flood", floods::order_of_flood),
        ("trace: header pending in the other branch", header_of_other_branch),
        ("trace: NSH of type 2 written without a change", |stock, ours| {
            written_contexts_of_type_2(ours, stock)
        }),
        ("trace: learned from its own execution", learned_from_execution),
        ("trace: mask of a failed translation", masks::of_a_failed_translation),
    ];
    let of_3_1 = OF_3_1.into_iter().filter(|_| is_3_1);
    of_3_1.chain(named).find(|(_, is_expected)| is_expected(stock, ours)).map(|(name, _)| name)
}

/// The stock switch executes an action set more often than Sluice: 3.1 executes it in each branch of `check_pkt_larger` and in
/// `clone`, and again after these. The actions before are equal, and Sluice sends nothing that the stock switch does not send; or
/// the additional execution recurses too deeply, so that the stock switch drops the packet.
pub fn action_set_again(stock: &str, ours: &str) -> bool {
    let sets = |text: &str| text.matches("Executing action set:").count();
    // If `clone` is the last action of its list, or the flow need not be restored after it, its actions are in the list without
    // a datapath action `clone`.
    let has_clone = ["clone(", CHECK_PKT_LARGER].iter().any(|action| ours.contains(action));
    let begins = has_same_beginning(stock, ours)
        || has_same_beginning_with_more_outputs(stock, ours)
        || has_same_beginning_without_lists(stock, ours);
    let fails = |text: &str| text.contains("Translation failed (Recursion too deep)");
    let is_explained = begins && sent::sends_no_more(ours, stock) || fails(stock) && !fails(ours);
    has_clone && sets(stock) > sets(ours) && is_explained
}

/// Returns whether the actions before the first nested list are equal, except for more outputs and header writes in the stock switch:
/// it executes the action set for a `clone` that it did not translate into a datapath action `clone`, and then restores the headers.
fn has_same_beginning_with_more_outputs(stock: &str, ours: &str) -> bool {
    let mut more = actions_before_lists(stock);
    let is_part = actions_before_lists(ours)
        .iter()
        .all(|action| more.iter().position(|other| other == action).map(|at| more.swap_remove(at)).is_some());
    let lists: usize = ours
        .lines()
        .filter_map(|l| l.strip_prefix(normalize::ACTIONS))
        .map(|l| l.matches("clone(").count())
        .sum();
    // A `clone` that became a datapath action appears twice in the trace: as OpenFlow action and as datapath action.
    let has_clone_without_list = ours.matches("clone(").count() > 2 * lists;
    is_part && has_clone_without_list && more.iter().all(|action| is_output_or_write(action))
}

/// Returns whether an action is an output or a header write. A packet-in for an invalid TTL (reason 2) counts as a write, because `dec_ttl`
/// of an action set may become one.
fn is_output_or_write(action: &str) -> bool {
    let is_invalid_ttl = action.contains("controller(reason=2,");
    is_invalid_ttl
        || action.parse::<u32>().is_ok()
        || ["set(", "push_", "pop_"].iter().any(|write| action.starts_with(write))
}

/// Returns whether Sluice's actions contain no nested list, because nothing is sent in it, and contain all actions that the stock
/// switch has before its first nested list.
fn has_same_beginning_without_lists(stock: &str, ours: &str) -> bool {
    let list = normalize::line(ours, normalize::ACTIONS).strip_prefix(normalize::ACTIONS).unwrap_or_default();
    let mut our_actions = normalize::split(list);
    let has_list = |text: &str| LISTS.iter().any(|l| normalize::line(text, normalize::ACTIONS).contains(l));
    let is_part = actions_before_lists(stock).iter().all(|action| {
        our_actions.iter().position(|a| a == action).map(|at| our_actions.swap_remove(at)).is_some()
    });
    has_list(stock) && !has_list(ours) && is_part
}

/// In 3.1, `clone` and the branch of `check_pkt_larger` for long packets begin with the current action set; in Sluice and 3.7.1
/// they begin with an empty one. So the first action set that differs has more actions in 3.1. The actions before are equal, and
/// Sluice sends nothing that the stock switch does not send, unless a group in the longer set replaces an output (OpenFlow 1.5.1,
/// section 5.6).
fn action_set_in_branch(stock: &str, ours: &str) -> bool {
    let set = longer_set_in(CHECK_PKT_LARGER, stock, ours).or_else(|| longer_set_in("clone(", stock, ours));
    // A longer set with `dec_ttl` may fail, so that the stock switch sends nothing in this branch.
    let failures = |text: &str| text.matches("decrement TTL exception").count();
    let replaced = |set: LongerSet| match set {
        LongerSet::Superset if failures(stock) > failures(ours) => true,
        LongerSet::Superset => sent::sends_no_more(ours, stock),
        LongerSet::GroupFor(port) => {
            sent::sends_no_more(ours, &format!("{stock}\n{}{port}", normalize::ACTIONS))
        }
    };
    has_same_beginning(stock, ours) && set.is_some_and(replaced)
}

/// An action set of the stock switch that has more actions than Sluice's set.
enum LongerSet {
    /// The set contains all actions of Sluice's set.
    Superset,
    /// The set has a group instead of Sluice's output to this port.
    GroupFor(u32),
}

/// Compares the action sets in the first line that differs, if it comes after this action and the set has more actions in the
/// stock switch.
fn longer_set_in(action: &str, stock: &str, ours: &str) -> Option<LongerSet> {
    // 3.1 does not print the flows of a conjunction.
    let without_conjunctions = |text: &'_ str| -> Vec<String> {
        text.lines().filter(|l| !l.contains("-> conj. ")).map(str::to_owned).collect()
    };
    let (stock, ours) = (without_conjunctions(stock), without_conjunctions(ours));
    let lines = || stock.iter().zip(&ours);
    let branch = lines().position(|(_, our_line)| our_line.contains(action))?;
    let (stock_line, our_line) =
        lines().enumerate().find(|(_, (a, b))| a != b).filter(|(at, _)| *at > branch)?.1;
    let set = |line: &'_ str| line.split_once(ACTION_SET).map(|(_, set)| set.to_owned());
    let (stock_set, our_set) = (set(stock_line)?, set(our_line)?);
    let has_group = stock_set.split(',').any(|action| action.starts_with("group:"));
    let mut kind = LongerSet::Superset;
    for action in our_set.split(',').filter(|ours| stock_set.split(',').all(|action| action != *ours)) {
        kind = LongerSet::GroupFor(action.strip_prefix("output:").filter(|_| has_group)?.parse().ok()?);
    }
    Some(kind)
}

/// Returns whether the actions before the first nested list are equal. True if neither switch has a nested list.
fn has_same_beginning(stock: &str, ours: &str) -> bool {
    actions_before_lists(stock) == actions_before_lists(ours)
}

/// Returns the actions before the first nested list, or none if there is no nested list. They have no ids, because each switch assigns
/// its own, and are sorted, because the switches flood in different orders.
fn actions_before_lists(text: &str) -> Vec<String> {
    let text = normalize::without_ids(text);
    let list =
        normalize::line(&text, normalize::ACTIONS).strip_prefix(normalize::ACTIONS).unwrap_or_default();
    let list = &list[..LISTS.iter().filter_map(|l| list.find(l)).min().unwrap_or(0)];
    let list = normalize::split(list).into_iter().filter(|action| !action.is_empty());
    let mut actions: Vec<String> = list.map(str::to_owned).collect();
    actions.sort_unstable();
    actions
}

/// The final flow is equal to the initial one, but a tunnel option was set and deleted. The stock switch still has its value in
/// memory, so it prints the flow instead of `unchanged`.
fn deleted_option(stock: &str, ours: &str) -> bool {
    let last = |text| normalize::line(text, "Final flow: ").strip_prefix("Final flow: ").map(str::to_owned);
    let (Some(first), Some(stock_last)) =
        (normalize::line(stock, "Flow: ").strip_prefix("Flow: "), last(stock))
    else {
        return false;
    };
    let same = normalize::trace(&stock.replace(&format!("Final flow: {first}"), "Final flow: unchanged"))
        == normalize::trace(ours);
    first == stock_last && same && stock.contains("delete_field:tun_metadata")
}

/// For a trace, the stock switch executes lists that recirculate the packet, and learns from that before it traces the recirculated
/// packet. The traces are equal up to the first recirculation.
fn learned_from_execution(stock: &str, ours: &str) -> bool {
    const PASS: &str = "\n====";
    let first = |text: &str| text.split_once(PASS).map(|(first, _)| normalize::trace(first));
    let learned = |text: &str| text.contains("learned port is input port");
    normalize::translates_again(stock)
        && learned(stock)
        && first(stock).is_some()
        && first(stock) == first(ours)
}

/// An output in the branch of `check_pkt_larger` for long packets is refused, so an Ethernet header stays pending. The stock switch
/// pushes it in the branch for short packets, onto a packet that has one, where Sluice writes the addresses. The rest of the
/// actions is equal.
fn header_of_other_branch(stock: &str, ours: &str) -> bool {
    const PUSH: &str = "push_eth(";
    let ends = |text: &str| {
        let is_end = |l: &&str| ["Final flow:", "Megaflow:"].iter().any(|end| l.starts_with(end));
        normalize::trace(text).lines().filter(is_end).map(str::to_owned).collect::<Vec<_>>()
    };
    let list = |text: &'_ str| normalize::line(text, normalize::ACTIONS).replace(normalize::ACTIONS, "");
    let pushes = |text: &str| list(text).matches(PUSH).count();
    let without_pushes = |text: &str| {
        let mut list = list(&normalize::without_ids(text));
        for (action, end) in [(PUSH, ")"), ("set(eth(", "))")] {
            while let Some((head, tail)) = list.split_once(action) {
                let rest = tail.split_once(end).map_or("", |(_, rest)| rest);
                list = format!("{head}{}", rest.strip_prefix(',').unwrap_or(rest));
            }
        }
        normalize::sort_outputs(&list, &[])
    };
    list(stock).contains("check_pkt_len(")
        && stock.contains("encap(")
        && pushes(stock) > pushes(ours)
        && ends(stock) == ends(ours)
        && without_pushes(stock) == without_pushes(ours)
}

/// `decap()` without a type has removed a label that was not the last one. The stock switch interprets the rest as a frame and
/// refuses to add an Ethernet header; Sluice interprets it as the next label. Both drop the packet.
fn frame_below_a_label(stock: &str, ours: &str) -> bool {
    const REFUSED: &str = "Dropping packet as encap(ethernet) is not supported for packet type ethernet.";
    let end = |text| ["Final flow:", "Megaflow:", normalize::ACTIONS].map(|what| normalize::line(text, what));
    stock.contains("decap()")
        && stock.contains(REFUSED)
        && !ours.contains(REFUSED)
        && end(stock) == end(ours)
        && end(ours)[2].strip_prefix(normalize::ACTIONS) == Some("drop")
}

/// The action sets differ at the beginning of the branch of `check_pkt_larger` for short packets: that of the stock switch contains
/// actions that a group of the action set wrote in the branch for long packets.
fn other_branch_action_set(stock: &str, ours: &str) -> bool {
    let (stock, ours) = (normalize::trace(stock), normalize::trace(ours));
    let rest = |text: &str| {
        let list = normalize::line(text, normalize::ACTIONS);
        let to_branch = list.find("le(").map_or("", |at| &list[..at]);
        (normalize::line(text, "Megaflow:").to_owned(), to_branch.to_owned())
    };
    let is_longer = matches!(longer_set_in(CHECK_PKT_LARGER, &stock, &ours), Some(LongerSet::Superset));
    (is_longer || has_more_action_sets(&stock, &ours))
        && !rest(&ours).1.is_empty()
        && rest(&stock) == rest(&ours)
}

/// Returns whether the stock switch has other lines about action sets in the branches, and the action sets of Sluice's other lines
/// are parts of them. All other lines that Sluice has are equal, but not in their order, because floods have no defined order.
fn has_more_action_sets(stock: &str, ours: &str) -> bool {
    const SET: &str = "-> action set ";
    let only = |a: &'_ str, b: &str| -> Vec<String> {
        let mut others: Vec<&str> = b.lines().map(str::trim).collect();
        let is_new = |l: &&str| others.iter().position(|o| o == l).map(|at| others.swap_remove(at)).is_none();
        let lines = a.lines().map(str::trim).filter(|l| !l.starts_with(normalize::ACTIONS));
        lines.filter(is_new).map(str::to_owned).collect()
    };
    let sets_before = |text: &'_ str| -> Vec<String> {
        let before = text.split_once(CHECK_PKT_LARGER).map_or("", |(before, _)| before);
        before.lines().filter(|l| l.contains(SET)).map(str::to_owned).collect()
    };
    let actions = |line: &'_ str| -> Vec<String> {
        let list = line.split_once(": ").map_or("", |(_, list)| list);
        list.split(',').filter(|action| !action.is_empty()).map(str::to_owned).collect()
    };
    let theirs: Vec<String> = only(stock, ours).into_iter().filter(|l| l.starts_with(SET)).collect();
    let is_part =
        |l: &String| theirs.iter().any(|t| actions(l).iter().all(|action| actions(t).contains(action)));
    ours.contains(CHECK_PKT_LARGER)
        && sets_before(stock) == sets_before(ours)
        && !theirs.is_empty()
        && only(ours, stock).iter().all(|l| l.starts_with(SET) && is_part(l))
}

/// An NSH header of metadata type 2 has no context headers. If such a header is written, 3.1 prints context headers with the value
/// 0; 3.7.1 prints none.
fn contexts_of_type_2(stock: &str, ours: &str) -> bool {
    const ZEROS: &str = ",c1=0x0,c2=0x0,c3=0x0,c4=0x0";
    actions_of_type_2(stock, ours, |stock, ours| stock.replace(ZEROS, "") == ours)
}

/// A write to a context header that the NSH header does not have changes nothing. 3.7.1 writes the unchanged values of the other
/// matched fields; 3.1 writes nothing.
fn written_contexts_of_type_2(stock: &str, ours: &str) -> bool {
    const WRITE: &str = "set(nsh(";
    let flow = normalize::line(ours, "Flow: ").to_owned() + ",";
    let has = |field: &str| flow.contains(&format!("nsh_{field},"));
    actions_of_type_2(stock, ours, |stock, ours| {
        let writes = ours.split(WRITE).skip(1).filter_map(|rest| Some(rest.split_once("))")?.0));
        let without = writes.clone().fold(ours.to_owned(), |text, fields| {
            let write = format!("{WRITE}{fields}))");
            text.replace(&format!("{write},"), "").replace(&format!(",{write}"), "").replace(&write, "")
        });
        without == stock && writes.flat_map(|fields| fields.split(',')).all(has)
    })
}

/// Returns whether the packet has an NSH header of metadata type 2, and all lines are equal, except lists of actions that are `is_expected`.
fn actions_of_type_2(stock: &str, ours: &str, is_expected: impl Fn(&str, &str) -> bool) -> bool {
    let is_type_2 = |text: &str| normalize::line(text, "Flow: ").contains("nsh_mdtype=2");
    let is_expected = |(stock, ours): (&str, &str)| {
        stock == ours || stock.starts_with(normalize::ACTIONS) && is_expected(stock, ours)
    };
    let have_type_2 = is_type_2(stock) && is_type_2(ours);
    let (stock, ours) = (normalize::trace(stock), normalize::trace(ours));
    let same_length = stock.lines().count() == ours.lines().count();
    have_type_2 && same_length && stock.lines().zip(ours.lines()).all(is_expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_headers_are_expected_in_type_2_only() {
        let text = |kind: u8, set: &str| {
            format!("Flow: nsh,nsh_mdtype={kind},nsh_np=1\nx\n{}set(nsh({set})),1", normalize::ACTIONS)
        };
        let (with, without) = ("ttl=9,spi=0x2,c1=0x0,c2=0x0,c3=0x0,c4=0x0", "ttl=9,spi=0x2");
        assert!(contexts_of_type_2(&text(2, with), &text(2, without)));
        assert!(!contexts_of_type_2(&text(1, with), &text(1, without)));
        assert!(!contexts_of_type_2(&text(2, without), &text(2, with)));
        assert!(!contexts_of_type_2(&text(2, &with.replace("c2=0x0", "c2=0x1")), &text(2, without)));
        assert!(!contexts_of_type_2(&text(2, with), &text(2, "ttl=8,spi=0x2")));
        assert!(!contexts_of_type_2(&(text(2, with) + "\nmore"), &text(2, without)));
    }

    #[test]
    fn writes_without_effect_are_expected_in_type_2_only() {
        let text = |kind: u8, state: &str| {
            format!("Flow: nsh,nsh_mdtype={kind},nsh_si=1\nx\n{}{state}1", normalize::ACTIONS)
        };
        assert!(written_contexts_of_type_2(&text(2, ""), &text(2, "set(nsh(si=1)),")));
        assert!(written_contexts_of_type_2(&text(2, "pop_vlan,"), &text(2, "pop_vlan,set(nsh(si=1)),")));
        assert!(!written_contexts_of_type_2(&text(1, ""), &text(1, "set(nsh(si=1)),")));
        assert!(!written_contexts_of_type_2(&text(2, ""), &text(2, "set(nsh(si=2)),")));
        assert!(!written_contexts_of_type_2(&text(2, "set(nsh(si=1)),"), &text(2, "")));
        assert!(!written_contexts_of_type_2(&text(2, "pop_vlan,"), &text(2, "set(nsh(si=1)),")));
    }

    #[test]
    fn a_left_over_action_set_is_expected_in_one_branch() {
        let text = |set: &str, longer: &str, shorter: &str| {
            let list = format!("check_pkt_len(size=60,gt({longer}),le({shorter}))");
            format!(
                "x\n{CHECK_PKT_LARGER}60)\n  -> action set is: {set}\nMegaflow: m\n{}{list}",
                normalize::ACTIONS
            )
        };
        let ours = text("group:1", "4", "4");
        assert!(other_branch_action_set(&text("output:2,group:1", "4", "4"), &ours));
        assert!(other_branch_action_set(&text("output:2,group:1", "4", "2"), &ours));
        assert!(!other_branch_action_set(&text("output:2,group:1", "2", "4"), &ours));
        assert!(!other_branch_action_set(&text("output:2", "4", "4"), &ours));
        assert!(!other_branch_action_set(
            &ours.replace("le(", "gt("),
            &ours.replace("le(", "gt(").replace("group:1", "group:2")
        ));
        let was = |set: &str| {
            text("group:1", "4", "4").replace("Megaflow", &format!("-> action set was{set}\nMegaflow"))
        };
        assert!(other_branch_action_set(&was(": output:2"), &was(" empty")));
        assert!(!other_branch_action_set(&was(" empty"), &was(": output:2")));
        let without = |text: &str| text.replace(CHECK_PKT_LARGER, "clone(");
        assert!(!other_branch_action_set(&without(&text("output:2,group:1", "4", "4")), &without(&ours)));
    }

    #[test]
    fn a_frame_below_a_label_is_expected_where_both_drop() {
        let refused = "Dropping packet as encap(ethernet) is not supported for packet type ethernet.";
        let text =
            |says: &str, list: &str| format!("decap()\n{says}\nMegaflow: m\n{}{list}", normalize::ACTIONS);
        assert!(frame_below_a_label(&text(refused, "drop"), &text("output:5", "drop")));
        assert!(!frame_below_a_label(&text(refused, "1"), &text("output:5", "1")));
        assert!(!frame_below_a_label(&text("output:5", "drop"), &text(refused, "drop")));
    }

    #[test]
    fn a_deleted_option_is_expected_in_the_final_flow_only() {
        let text = |last: &str, list: &str| {
            let head = "Flow: in_port=1\n\n    delete_field:tun_metadata0";
            format!("{head}\nFinal flow: {last}\nMegaflow: m\n{}{list}", normalize::ACTIONS)
        };
        let ours = text("unchanged", "6");
        assert!(deleted_option(&text("in_port=1", "6"), &ours));
        assert!(!deleted_option(&text("in_port=2", "6"), &ours));
        assert!(!deleted_option(&text("in_port=1", "7"), &ours));
        assert!(!deleted_option(
            &text("in_port=1", "6").replace("delete", "set"),
            &ours.replace("delete", "set")
        ));
    }

    #[test]
    fn an_execution_may_teach_addresses_for_the_next_pass() {
        let text =
            |list: &str, next: &str| format!("Flow: x\n{}{list}\n\n====\n{next}\n", normalize::ACTIONS);
        let stock = text("clone(recirc(0x1))", " -> learned port is input port, dropping");
        let ours = text("clone(recirc(0x2))", " -> learned that a is on port p1");
        assert!(learned_from_execution(&stock, &ours) && !learned_from_execution(&ours, &stock));
        assert!(!learned_from_execution(&stock, &ours.replace("Flow: x", "Flow: y")));
        assert!(!learned_from_execution(&stock.replace("clone(", "(").replace("recirc(", "r("), &ours));
    }

    #[test]
    fn a_header_may_be_pending_in_the_other_branch() {
        let text = |pushes: &str, port: u32| {
            let list = format!("check_pkt_len(size=60,gt(1),le({pushes}{port},2))");
            format!(
                "    encap(ethernet)\nFinal flow: unchanged\nMegaflow: eth\n{}{list}\n",
                normalize::ACTIONS
            )
        };
        let push = "push_eth(src=50:54:00:00:00:05,dst=50:54:00:00:00:04),";
        assert!(header_of_other_branch(&text(push, 3), &text("", 3)));
        assert!(header_of_other_branch(&text(push, 3), &text("set(eth(dst=50:54:00:00:00:04)),", 3)));
        assert!(!header_of_other_branch(&text("", 3), &text(push, 3)));
        assert!(!header_of_other_branch(&text(push, 3), &text("", 4)));
        assert!(!header_of_other_branch(
            &text(push, 3),
            &text("", 3).replace("Megaflow: eth", "Megaflow: ip")
        ));
    }

    #[test]
    fn an_action_set_executed_again_is_expected_after_branches() {
        let text = |action: &str, times: usize, list: &str| {
            let sets = "--. Executing action set:\n".repeat(times);
            format!("    {action}\n{sets}Megaflow: m\n{}{list}", normalize::ACTIONS)
        };
        let larger = |times, list| text("check_pkt_larger(60)->NXM_NX_REG0[0]", times, list);
        let ours = larger(1, "1,check_pkt_len(size=60,gt(2),le(3)),5");
        assert!(action_set_again(&larger(2, "1,check_pkt_len(size=60,gt(2,5),le(3,5)),5"), &ours));
        assert!(action_set_again(
            &larger(2, "2,1,check_pkt_len(size=60,gt(2,5),le(3)),5"),
            &larger(1, "1,2,check_pkt_len(size=60,gt(2),le(3)),5")
        ));
        assert!(!action_set_again(&larger(1, "1,check_pkt_len(size=60,gt(2,5),le(3,5)),5"), &ours));
        assert!(!action_set_again(&larger(2, "4,check_pkt_len(size=60,gt(2,5),le(3,5)),5"), &ours));
        assert!(!action_set_again(&larger(2, "1,check_pkt_len(size=60,gt(2),le(4)),5"), &ours));
        let failed =
            format!("{}\nTranslation failed (Recursion too deep), packet is dropped.", larger(2, "drop"));
        assert!(action_set_again(&failed, &ours) && !action_set_again(&failed, &failed));
        let id =
            |text: String, id: &str| text.replace(",1,check", &format!(",userspace(recirc_id={id}),1,check"));
        let again = larger(2, "5,1,check_pkt_len(size=60,gt(2,5),le(3,5)),5");
        let once = larger(1, "5,1,check_pkt_len(size=60,gt(2),le(3)),5");
        assert!(action_set_again(&id(again.clone(), "7"), &id(once.clone(), "9")));
        assert!(!action_set_again(&id(again, "7"), &id(once, "0")));
        let copy = |times, list: &str| text("clone(output:2)", times, list);
        assert!(action_set_again(&copy(2, "1,clone(2)"), &copy(1, "1,clone()")));
        assert!(action_set_again(&copy(2, "1,2,5,5"), &copy(1, "1,2,5")));
        assert!(!action_set_again(&copy(2, "1,2,5"), &copy(1, "1,2,6")));
        // The actions of the first `clone` are in the list without a datapath action `clone`.
        let copies = |times, list| text("clone(output:1)\n    clone(output:6)", times, list);
        assert!(action_set_again(&copies(3, "1,2,6,clone(6,6)"), &copies(1, "1,2,clone(6)")));
        assert!(action_set_again(&copies(3, "1,2,set(a),6,set(b),clone(6,6)"), &copies(1, "1,2,clone(6)")));
        let ttl = "1,2,6,userspace(controller(reason=2,x)),clone(6,6)";
        assert!(action_set_again(&copies(3, ttl), &copies(1, "1,2,clone(6)")));
        assert!(!action_set_again(&copies(3, "1,2,6,userspace(a),clone(6,6)"), &copies(1, "1,2,clone(6)")));
        assert!(!action_set_again(&copies(3, "1,3,6,clone(6,6)"), &copies(1, "1,2,clone(6)")));
        assert!(!action_set_again(&copy(2, "1,6,clone(2)"), &copy(1, "1,clone(2)")));
        // In the `clone`, Sluice sends nothing, and the stock switch executes the action set.
        let asks = "userspace(pid=0,controller(reason=2))";
        let empty = copy(1, &format!("trunc(64),5,{asks}"));
        let full = copy(2, &format!("trunc(64),5,clone(push_vlan(vid=0),{asks}),{asks}"));
        assert!(action_set_again(&full, &empty));
        assert!(!action_set_again(&full.replace(",5,", ",4,"), &empty));
        assert!(!action_set_again(&full.replace("(64)", "(65)"), &empty));
        assert!(!action_set_again(&text("output:2", 2, "1,2,5"), &text("output:2", 1, "1,2")));
    }

    #[test]
    fn an_action_set_is_expected_to_last_in_a_branch_of_3_1() {
        let text = |before: &str, set: &str, longer: &str| {
            let list = format!("5,check_pkt_len(size=60,gt({longer}),le(3)),1");
            format!(
                "{before}\ncheck_pkt_larger(60)->NXM_NX_REG0[0]\n  -> action set is: {set}\nMegaflow: m\n{}{list}",
                normalize::ACTIONS
            )
        };
        let ours = text("x", "output:3", "3");
        let theirs = text("x", "dec_ttl,output:3", "set(ipv6(hlimit=63)),3");
        assert_eq!(trace(&theirs, &ours, true), Some("trace: action set in a branch"));
        assert_eq!(trace(&theirs, &ours, false), None);
        assert_eq!(trace(&ours, &theirs, true), None);
        assert_eq!(trace(&text("x", "dec_ttl,output:3", "2"), &ours, true), None);
        assert_eq!(trace(&theirs.replace("5,", "4,"), &ours, true), None);
        assert_eq!(trace(&text("y", "dec_ttl,output:3", "3"), &ours, true), None);
        let failed = theirs.replace("gt(set(ipv6(hlimit=63)),3)", "gt(userspace(x))");
        assert_ne!(failed, theirs);
        assert_eq!(trace(&failed, &ours, true), None);
        let failed = failed.replace("Megaflow", ">> IPv6 decrement TTL exception\nMegaflow");
        assert_eq!(trace(&failed, &ours, true), Some("trace: action set in a branch"));
        // A group replaces an output of one packet.
        let ours = text("x", "output:6", "6");
        let theirs = text("x", "dec_ttl,group:1", "set(ipv6(hlimit=63)),2");
        assert_eq!(trace(&theirs, &ours, true), Some("trace: action set in a branch"));
        assert_eq!(trace(&theirs.replace("group", "output"), &ours, true), None);
        assert_eq!(trace(&theirs, &ours.replace("gt(6)", "gt(6,6)"), true), None);
        let (ours, theirs) =
            (text("x", "output:3", "3"), text("x", "dec_ttl,output:3", "set(ipv6(hlimit=63)),3"));
        // The same within a `clone`; without one it is not expected.
        let in_copy = |text: &str, action: &str| text.replace("check_pkt_larger(60)->NXM_NX_REG0[0]", action);
        let copies = |action| trace(&in_copy(&theirs, action), &in_copy(&ours, action), true);
        assert_eq!(copies("clone(resubmit(,3))"), Some("trace: action set in a branch"));
        assert_eq!(copies("resubmit(,3)"), None);
        let set = |set: &str| text(&format!(" -> action set is: {set}"), "output:3", "3");
        assert_eq!(trace(&set("dec_ttl,output:3"), &set("output:3"), true), None);
    }

    #[test]
    fn an_end_by_another_assertion_is_not_expected() {
        assert!(
            abort_cause("EMER|lib/packets.c:273: assertion !dp_packet_is_eth(packet) failed in push_eth()")
                .is_some()
        );
        assert!(abort_cause("EMER|lib/packets.c:1: assertion x failed in push_eth()").is_none());
    }
}
