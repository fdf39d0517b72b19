//! Addresses that only the stock switch learns.

use crate::normalize;
use crate::packet::Packet;
use crate::sent;

/// The number of the patch port in each bridge.
const PATCH: &str = "10";

/// Returns whether the learned addresses differ as expected. `NORMAL` drops a frame that ends within its tag in both switches.
/// But when the stock switch counts later frames of the megaflow, it parses the megaflow's key, which does not contain the type
/// of the tag, and learns the address at the frame's port, and in the other bridge at the patch port.
pub fn is_expected(stock: &str, ours: &str, packets: &[Packet]) -> bool {
    let is_partial = |p: &&Packet| (14..18).contains(&p.bytes.len()) && p.bytes[12..14] == [0x81, 0];
    let mut ports: Vec<String> = packets.iter().filter(is_partial).map(|p| p.port.to_string()).collect();
    if !ports.is_empty() {
        ports.push(PATCH.to_owned());
    }
    let only_in_first = |a: &str, b: &str| -> Vec<(String, String)> {
        let lines = a.lines().filter(|l| !b.lines().any(|o| o == *l));
        lines
            .filter_map(|l| l.trim().split_once(' '))
            .map(|(port, vlan_and_mac)| (port.into(), vlan_and_mac.trim().into()))
            .collect()
    };
    let (theirs, mine) = (only_in_first(stock, ours), only_in_first(ours, stock));
    // In Sluice the address may still be at its previous port.
    theirs.iter().all(|(port, _)| ports.contains(port))
        && mine.iter().all(|(_, vlan_and_mac)| theirs.iter().any(|(_, other)| other == vlan_and_mac))
}

/// Returns whether a trace differs because 3.1 executes an action set twice: in `clone` or a branch of
/// `check_pkt_larger`, and again after it. The action set sends a packet, whose source and
/// destination addresses are equal, to the other bridge. The first execution learns the address there. The
/// second execution finds the address at the packet's ingress port and drops the packet, which Sluice floods.
/// All other lines of Sluice's trace are also in the trace of the stock switch.
pub fn from_action_set_again(stock: &str, ours: &str) -> bool {
    const LEARNED: &str = "learned port is input port, dropping";
    let sets = |text: &str| text.matches("Executing action set:").count();
    let actions = |text: &str| normalize::line(text, normalize::ACTIONS).to_owned();
    let depends = |line: &&str| line.contains("flooding") || line.starts_with(normalize::ACTIONS);
    let mut theirs: Vec<&str> = stock.lines().map(str::trim).collect();
    let is_in_theirs = ours.lines().filter(|line| !depends(line)).all(|line| {
        let at = theirs.iter().position(|other| *other == line.trim());
        at.map(|at| theirs.swap_remove(at)).is_some()
    });
    sets(stock) > sets(ours)
        && stock.matches(LEARNED).count() > ours.matches(LEARNED).count()
        && ours.contains("no learned MAC for destination, flooding")
        && is_in_theirs
        && sent::sends_no_more(&actions(stock), &actions(ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_set_that_is_executed_again_may_find_the_address_that_it_learned() {
        let set = "--. Executing action set:\n  output:10\n";
        let ours = format!(
            "clone(resubmit(,3))\n{set}  -> no learned MAC for destination, flooding\nDatapath actions: 101,7,100"
        );
        let dropped = "  -> learned port is input port, dropping\n";
        let stock = format!("clone(resubmit(,3))\n{set}{dropped}{set}{dropped}Datapath actions: 100");
        assert!(from_action_set_again(&stock, &ours));
        assert!(!from_action_set_again(&ours, &stock));
        assert!(!from_action_set_again(&stock.replace("actions: 100", "actions: 100,8"), &ours));
        assert!(!from_action_set_again(&stock.replace("resubmit(,3)", "resubmit(,4)"), &ours));
        assert!(!from_action_set_again(&stock.replacen("Executing action set", "x", 1), &ours));
    }

    #[test]
    fn only_senders_of_partial_tags_may_differ() {
        let packet = |port, len| {
            let mut bytes = vec![0; len];
            bytes[12] = 0x81;
            Packet { port, bytes }
        };
        let (stock, ours) = (" port  VLAN\n    2    10  50:54:00:00:00:01", " port  VLAN");
        assert!(is_expected(stock, ours, &[packet(2, 17)]));
        assert!(is_expected(&stock.replace("    2    10", "   10    10"), ours, &[packet(2, 17)]));
        let elsewhere = stock.replace("    2", "    4");
        assert!(
            is_expected(stock, &elsewhere, &[packet(2, 17)])
                && !is_expected(&elsewhere, stock, &[packet(2, 17)])
        );
        assert!(!is_expected(stock, ours, &[packet(2, 18)]) && !is_expected(stock, ours, &[packet(3, 17)]));
        assert!(!is_expected(ours, stock, &[packet(2, 17)]) && is_expected(stock, stock, &[]));
    }
}
