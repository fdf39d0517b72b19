//! What is known of the stock switch, and is no fault of ours: each with its reason, and as narrow as can be told.

use crate::normal;

/// Assertions that end the stock switch (3.1 and 3.7.1), and what leads there.
const ENDS: &[(&str, &str)] = &[(
    "assertion !dp_packet_is_eth(packet) failed in push_eth()",
    "it puts an Ethernet header on a packet that has one",
)];

/// Why the stock switch ended, by its log, if that is known.
pub fn end(log: &str) -> Option<&'static str> {
    ENDS.iter().find(|(assertion, _)| log.contains(assertion)).map(|(_, why)| *why)
}

/// Whether two traces differ because a header that a bucket, a clone or the bridge behind a patch port put around a packet, or took
/// off, stays so in the stock switch for what comes after, although that has the packet as it was: what is sent then is no packet.
/// Ours does it to a copy. The stock switch's actions go on as ours do inside of that copy.
pub fn header_stays(stock: &str, ours: &str) -> bool {
    let list = |text: &str| {
        normal::line(text, "Datapath actions: ").trim_start_matches("Datapath actions: ").to_owned()
    };
    let (stock, ours) = (list(stock), list(ours));
    let (stock, ours) = (normal::split(&stock), normal::split(&ours));
    let Some(at) = stock.iter().zip(&ours).position(|(a, b)| a != b) else { return false };
    let Some(copy) = ours[at].strip_prefix("clone(").and_then(|c| c.strip_suffix(')')) else { return false };
    let copy = normal::split(copy);
    let header = |action: &&str| {
        ["push_eth(", "pop_eth", "push_nsh(", "pop_nsh(", "add_mpls("].iter().any(|h| action.starts_with(h))
    };
    copy.iter().any(header) && stock[at..].starts_with(&copy)
}

/// Whether the megaflows of the stock switch are some of ours, perhaps with fewer packets. When it translates one again, as after
/// something was learned, it removes it if the mask has fields that no packet of it has (of a service header that its actions put
/// on, of neighbours, of a tag behind a tag): it takes the megaflow for wider than it should be. The next packet brings it back.
pub fn removed(stock: &str, ours: &str) -> bool {
    let told = |line: &str| match (line.split_once(", packets:"), line.split_once("actions:")) {
        (Some((key, _)), Some((_, actions))) => format!("{key} {actions}"),
        _ => line.to_owned(),
    };
    let ours: Vec<String> = ours.lines().map(told).collect();
    stock.lines().all(|line| ours.contains(&told(line)))
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
    fn a_header_stays_where_the_stock_switch_goes_on_as_in_the_copy() {
        let of = |list: &str| format!("Megaflow: x\nDatapath actions: {list}");
        let known = |a: &str, b: &str| header_stays(&of(a), &of(b));
        assert!(known("1,push_eth(src=0),2,3", "1,clone(push_eth(src=0),2),3"));
        assert!(!known("1,push_eth(src=0),4,3", "1,clone(push_eth(src=0),2),3"));
        assert!(!known("1,set(x),2,3", "1,clone(set(x),2),3"));
        assert!(!known("1,2", "1,2"));
    }

    #[test]
    fn an_end_without_a_known_assertion_is_not_known() {
        assert!(
            end("EMER|lib/packets.c:273: assertion !dp_packet_is_eth(packet) failed in push_eth()").is_some()
        );
        assert!(end("EMER|lib/packets.c:1: assertion x failed in push_eth()").is_none());
    }
}
