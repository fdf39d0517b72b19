//! Addresses that only the stock switch learns.

use crate::packet::Packet;

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
            .map(|(port, who)| (port.into(), who.trim().into()))
            .collect()
    };
    let (theirs, mine) = (only_in_first(stock, ours), only_in_first(ours, stock));
    // In Sluice the address may still be at its previous port.
    theirs.iter().all(|(port, _)| ports.contains(port))
        && mine.iter().all(|(_, who)| theirs.iter().any(|(_, other)| other == who))
}

#[cfg(test)]
mod tests {
    use super::*;

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
