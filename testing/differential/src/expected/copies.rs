//! Headers that are added or removed in a bucket, a `clone` or the bridge behind a patch port.
//!
//! Afterwards the stock switch restores the flow, but not the packet's headers, so the following writes and outputs apply to
//! a malformed packet. Sluice uses a copy of the packet, or omits the header if the packet is not sent. It sends to the same
//! ports. Everything before such a header must be equal, and the outputs after it.

use super::floods;
use crate::normalize::{self, State};

/// The message of the stock switch if such a packet would need actions that no datapath supports.
const NO_SUCH_ACTION: &str = "Uses action(s) not supported by datapath";

/// Returns whether two traces differ only as described above.
pub fn is_expected(stock: &str, ours: &str) -> bool {
    has_expected_outputs(stock, ours, |line| !line.starts_with(normalize::ACTIONS))
}

/// [`is_expected`] for a stock switch of another version: the texts and megaflows are not compared.
pub fn is_expected_without_megaflow(stock: &str, ours: &str) -> bool {
    has_expected_outputs(stock, ours, |line| line.starts_with("Final flow:"))
}

/// Returns whether two traces differ only in these headers. `is_compared` selects the lines that must be equal, besides the outputs.
fn has_expected_outputs(stock: &str, ours: &str, is_compared: fn(&str) -> bool) -> bool {
    let (mut theirs, mut mine) = (sent(stock), sent(ours));
    let first = theirs.iter().position(|s| s.changed_headers).unwrap_or(theirs.len());
    if mine.len() < first || !normalize::HEADERS.iter().any(|h| stock.contains(h)) {
        return false;
    }
    let before = sorted(theirs.drain(..first)) == sorted(mine.drain(..first));
    // The malformed packet may match other flows than Sluice's packet.
    if stock.contains(NO_SUCH_ACTION) && !ours.contains(NO_SUCH_ACTION) {
        return before;
    }
    let names = |list: Vec<Sent>| sorted(list.into_iter().map(|s| Sent { state: String::new(), ..s }));
    // The order of a flood is not defined, so lines about its outputs may have another order.
    let rest = |text: &str| {
        let trace = normalize::trace(&floods::without_leftover_fields(text));
        let mut lines: Vec<_> =
            trace.lines().filter(|l| is_compared(l)).map(|l| l.trim().to_owned()).collect();
        lines.sort_unstable();
        lines
    };
    before && names(theirs) == names(mine) && rest(stock) == rest(ours)
}

/// Returns the actions sorted, because the order of a flood is not defined.
fn sorted(list: impl Iterator<Item = Sent>) -> Vec<(String, String)> {
    let mut list: Vec<_> = list.map(|s| (s.state, s.action)).collect();
    list.sort_unstable();
    list
}

/// An action that ends the processing of a packet or of a copy.
struct Sent {
    /// The changes of the packet before the action.
    state: String,
    /// Whether a header was added or removed before the action.
    changed_headers: bool,
    /// The action, with the lists that contain it.
    action: String,
}

/// Returns the outputs of a trace, including those in `clone`.
fn sent(text: &str) -> Vec<Sent> {
    let mut out = Vec::new();
    let text = normalize::without_ids(text);
    for list in text.lines().filter_map(|l| l.strip_prefix(normalize::ACTIONS)) {
        add_outputs(list, &mut State::of(normalize::tag(&text).as_slice()), "", &mut out);
    }
    out
}

fn add_outputs(list: &str, state: &mut State, path: &str, out: &mut Vec<Sent>) {
    for action in normalize::split(list) {
        let (name, inside) = action.strip_suffix(')').and_then(|a| a.split_once('(')).unwrap_or((action, ""));
        match name {
            "clone" => add_outputs(inside, &mut state.clone(), path, out),
            "gt" | "le" | "actions" | "check_pkt_len" | "sample" => {
                add_outputs(inside, &mut state.clone(), &format!("{path}{name}."), out);
            }
            // Nothing is sent.
            "" | "drop" => {}
            _ if state.apply(action) => {}
            _ => out.push(Sent {
                state: state.text(),
                changed_headers: state.changed_headers(),
                action: format!("{path}{action}"),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differ(stock: &str, ours: &str) -> bool {
        let text = |list: &str| format!("Megaflow: x\n{}{list}", normalize::ACTIONS);
        !is_expected(&text(stock), &text(ours))
    }

    #[test]
    fn outputs_after_a_header_are_compared_by_port() {
        assert!(!differ("1,push_eth(src=0),2,3", "1,clone(push_eth(src=0),2),3"));
        assert!(!differ("push_eth(src=0),2,set(y),3", "clone(push_eth(src=0),2),set(x),3"));
        assert!(!differ("set(z),2,push_eth(src=0),push_vlan(vid=1),3", "clone(set(z),2),set(x),3"));
        assert!(!differ(
            "check_pkt_len(size=60,gt(pop_eth,2),le(3))",
            "check_pkt_len(size=60,gt(clone(pop_eth,2)),le(3))"
        ));
        assert!(!differ("1,set(x),pop_eth", "1,clone(set(x),pop_eth),clone()"));
        let asks = |id: u32| format!("userspace(pid=0,controller(recirc_id={id}))");
        assert!(!differ(
            &format!("1,push_eth(src=0),2,{}", asks(3)),
            &format!("1,clone(push_eth(src=0),2),{}", asks(4))
        ));
        assert!(differ("1,push_eth(src=0),2,4", "1,clone(push_eth(src=0),2),3"));
        assert!(differ("1,push_eth(src=0),2", "1,clone(push_eth(src=0),2),3"));
    }

    #[test]
    fn outputs_before_a_header_are_compared_with_their_changes() {
        assert!(differ("1,set(x),2,3", "1,clone(set(x),2),3"));
        assert!(differ("set(y),1,push_eth(src=0),2,3", "set(x),1,clone(push_eth(src=0),2),3"));
    }

    #[test]
    fn megaflows_of_another_version_may_differ() {
        let text = |mask: &str, last: &str, list: &str| {
            format!("Final flow: {last}\nMegaflow: {mask}\n{}{list}", normalize::ACTIONS)
        };
        let ours = text("a", "x", "1,clone(push_eth(src=0),2),3");
        let stock = |last: &str, port: u8| text("b", last, &format!("1,push_eth(src=0),2,{port}"));
        assert!(is_expected_without_megaflow(&stock("x", 3), &ours) && !is_expected(&stock("x", 3), &ours));
        assert!(
            !is_expected_without_megaflow(&stock("y", 3), &ours)
                && !is_expected_without_megaflow(&stock("x", 4), &ours)
        );
    }

    #[test]
    fn tunnel_fields_that_a_flood_leaves_may_differ() {
        let text = |flags: &str, refused: usize, list: &str| {
            let lines = "Not tunneling to our own address\n".repeat(refused);
            let last = format!("Final flow: tun_tos=0,tun_flags={flags},eth");
            format!("{lines}{last}\nMegaflow: x\n{}{list}", normalize::ACTIONS)
        };
        let stock = |refused| text("df|key", refused, "1,push_eth(src=0),2,3");
        let ours = |refused| text("df|csum|key", refused, "1,clone(push_eth(src=0),2),3");
        assert!(is_expected(&stock(2), &ours(2)));
        assert!(!is_expected(&stock(1), &ours(1)));
        assert!(!is_expected(&stock(2), &ours(2).replace("tun_tos=0", "tun_tos=1")));
    }

    #[test]
    fn unsupported_actions_are_compared_up_to_the_header() {
        let broken =
            format!("{}1,push_eth(src=0),set(icmpv6(type=1)),2\n  - {NO_SUCH_ACTION}.", normalize::ACTIONS);
        let ours = |list: &str| format!("{}{list}", normalize::ACTIONS);
        assert!(is_expected(&broken, &ours("1,clone(push_eth(src=0),2),3,4")));
        assert!(!is_expected(&broken, &ours("7,clone(push_eth(src=0),2),3,4")));
    }
}
