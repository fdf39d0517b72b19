//! What is known of the stock switch, and is no fault of ours: each with its reason, and as narrow as can be told.

use crate::normal;
use crate::table::Table;

/// Assertions that end the stock switch (3.1 and 3.7.1), and what leads there.
const ENDS: &[(&str, &str)] = &[
    (
        "assertion !dp_packet_is_eth(packet) failed in push_eth()",
        "it puts an Ethernet header on a packet that has one",
    ),
    (
        "assertion state->action_set_len <= state->ofpacts_len failed in recirc_alloc_id__()",
        "it sets an action set aside that it takes for longer than all that is left to do",
    ),
];

/// Why the stock switch ended, by its log, if that is known.
pub fn end(log: &str) -> Option<&'static str> {
    ENDS.iter().find(|(assertion, _)| log.contains(assertion)).map(|(_, why)| *why)
}

/// A trace with the copies that a header is put on, or taken off, told as if they were none, and without what is written to packets
/// after that. The header that a bucket, a clone or the bridge behind a patch port puts around a packet stays so in the stock switch
/// for what comes after, although that has the packet as it was: what is written and sent then is no packet. Ours does it to a
/// copy, and all else has to be the same.
pub fn without_copies(trace: &str) -> String {
    let line = |line: &str| match line.strip_prefix("Datapath actions: ") {
        Some(list) => format!("Datapath actions: {}", opened(list, &mut false).join(",")),
        None => line.to_owned(),
    };
    trace.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// A list of actions, and the lists in it, with the content of such copies in their places; `changed`: a header has been put on or
/// taken off.
fn opened(list: &str, changed: &mut bool) -> Vec<String> {
    let mut out = Vec::new();
    for action in normal::split(list) {
        let (name, inside) = action.strip_suffix(')').and_then(|a| a.split_once('(')).unwrap_or((action, ""));
        match name {
            "clone" if normal::split(inside).iter().any(|a| changes_headers(a)) => {
                out.extend(opened(inside, changed));
            }
            "clone" | "gt" | "le" | "actions" | "check_pkt_len" | "sample" => {
                out.push(format!("{name}({})", opened(inside, &mut changed.clone()).join(",")));
            }
            "set" | "push_vlan" | "pop_vlan" if *changed => {}
            _ => {
                *changed |= changes_headers(action);
                out.push(action.to_owned());
            }
        }
    }
    out
}

fn changes_headers(action: &str) -> bool {
    ["push_eth(", "pop_eth", "push_nsh(", "pop_nsh(", "add_mpls("].iter().any(|h| action.starts_with(h))
}

/// Whether the megaflows of the stock switch are some of ours, perhaps with fewer packets. When it translates one again, as after
/// something was learned, it removes it if the mask has fields that no packet of it has (of a service header that its actions put
/// on, of neighbours, of a tag behind a tag, of ports in a fragment): it takes the megaflow for wider than it should be. The next
/// packet brings it back. The text of a megaflow does not show such fields; that ours are as they should be is known from traces.
pub fn removed(stock: &str, ours: &str) -> bool {
    let told = |line: &str| match (line.split_once(", packets:"), line.split_once("actions:")) {
        (Some((key, _)), Some((_, actions))) => format!("{key} {actions}"),
        _ => line.to_owned(),
    };
    let ours: Vec<String> = ours.lines().map(told).collect();
    stock.lines().all(|line| ours.contains(&told(line)))
}

/// Whether what left differs in frames with two tags alone, of a table that sends packets to its controller. For that the stock
/// switch reads the packet again, and takes the second tag, which it does not look behind by default, for the network header: what
/// is written to that afterwards lands four bytes before its place.
pub fn read_again(stock: &str, ours: &str, table: &Table) -> bool {
    let asks = table.flows.iter().chain(&table.groups).any(|l| l.to_lowercase().contains("controller"));
    let tagged = |line: &&str| {
        let tag = |at| line.split(' ').nth(1).and_then(|hex| hex.get(at..at + 4));
        tag(24) == Some("8100") && tag(32) == Some("8100")
    };
    let only = |a: &str, b: &str| a.lines().filter(|l| !b.lines().any(|o| o == *l)).all(|l| tagged(&l));
    asks && only(stock, ours) && only(ours, stock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn megaflows_may_be_removed_but_not_differ() {
        let ours = "a, packets:2, bytes:9, actions:1\nb, packets:0, bytes:0, actions:2";
        assert!(removed("a, packets:1, bytes:4, actions:1", ours) && removed("", ours));
        assert!(!removed("a, packets:2, bytes:9, actions:2", ours));
        assert!(!removed("c, packets:0, bytes:0, actions:1", ours));
    }

    #[test]
    fn copies_with_headers_are_opened_and_no_others() {
        let of = |list: &str| without_copies(&format!("Megaflow: x\nDatapath actions: {list}"));
        assert_eq!(of("1,push_eth(src=0),2,3"), of("1,clone(push_eth(src=0),2),3"));
        assert_eq!(
            of("check_pkt_len(size=60,gt(pop_eth,2),le(3))"),
            of("check_pkt_len(size=60,gt(clone(pop_eth,2)),le(3))")
        );
        assert_ne!(of("1,push_eth(src=0),2,4"), of("1,clone(push_eth(src=0),2),3"));
        assert_ne!(of("1,set(x),2,3"), of("1,clone(set(x),2),3"));
        assert_eq!(of("push_eth(src=0),2,set(y),3"), of("clone(push_eth(src=0),2),set(x),3"));
        assert_ne!(of("set(y),push_eth(src=0),2,3"), of("set(x),clone(push_eth(src=0),2),3"));
    }

    #[test]
    fn two_tags_and_a_controller_are_known() {
        let table = Table { flows: vec!["flow add actions=CONTROLLER:128".to_owned()], groups: Vec::new() };
        let frame = |tags: &str, end: u8| format!("p1 {:024}{tags}0800{end:02x}", 0);
        let (two, one) = ("8100001e8100a01e", "8100001e");
        assert!(read_again(&frame(two, 1), &frame(two, 2), &table));
        assert!(!read_again(&frame(one, 1), &frame(one, 2), &table));
        assert!(!read_again(&frame(two, 1), &frame(two, 2), &Table::default()));
    }

    #[test]
    fn an_end_without_a_known_assertion_is_not_known() {
        assert!(
            end("EMER|lib/packets.c:273: assertion !dp_packet_is_eth(packet) failed in push_eth()").is_some()
        );
        assert!(end("EMER|lib/packets.c:1: assertion x failed in push_eth()").is_none());
    }
}
