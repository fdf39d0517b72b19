//! Addresses that only the stock switch learns.

use crate::packet::Packet;

/// The patch port of either bridge.
const PATCH: &str = "10";

/// Returns whether the learned addresses differ as expected: `NORMAL` of both drops a frame that ends within its tag.
/// When the stock switch counts later frames for the megaflow, it parses the megaflow's key, which lacks the type of
/// the tag, and learns from it: at the frame's port, and behind the patch port.
pub fn alike(stock: &str, ours: &str, packets: &[Packet]) -> bool {
    let partial = |p: &&Packet| (14..18).contains(&p.bytes.len()) && p.bytes[12..14] == [0x81, 0];
    let mut ports: Vec<String> = packets.iter().filter(partial).map(|p| p.port.to_string()).collect();
    if !ports.is_empty() {
        ports.push(PATCH.to_owned());
    }
    let alone = |a: &str, b: &str| -> Vec<(String, String)> {
        let lines = a.lines().filter(|l| !b.lines().any(|o| o == *l));
        lines
            .filter_map(|l| l.trim().split_once(' '))
            .map(|(port, who)| (port.into(), who.trim().into()))
            .collect()
    };
    let (theirs, mine) = (alone(stock, ours), alone(ours, stock));
    // In Sluice it is still at its previous port.
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
        assert!(alike(stock, ours, &[packet(2, 17)]));
        assert!(alike(&stock.replace("    2    10", "   10    10"), ours, &[packet(2, 17)]));
        let elsewhere = stock.replace("    2", "    4");
        assert!(alike(stock, &elsewhere, &[packet(2, 17)]) && !alike(&elsewhere, stock, &[packet(2, 17)]));
        assert!(!alike(stock, ours, &[packet(2, 18)]) && !alike(stock, ours, &[packet(3, 17)]));
        assert!(!alike(ours, stock, &[packet(2, 17)]) && alike(stock, stock, &[]));
    }
}
