//! Byte counters that the stock switch counts differently.

/// Lengths of the outer headers that a run with tunnels adds: GRE without and with checksum, VXLAN, and Geneve over IPv4 and IPv6 without
/// options, with one of 8 or 12 bytes, and with both.
const OUTER: [u64; 9] = [42, 46, 50, 58, 62, 70, 78, 82, 90];
/// Most outer headers that one packet adds to the counter of a flow: groups and `resubmit` lead it into several tunnels.
const MOST: u64 = 16;

/// Returns whether the flows' counters differ as expected in a run with tunnels: while the stock switch translates a packet and sends it into
/// a tunnel, it adds the outer headers to the bytes of the flows that follow in the same translation. It does not if the packet
/// hits a megaflow.
pub fn alike(stock: &str, ours: &str) -> bool {
    let (theirs, mine): (Vec<_>, Vec<_>) = (stock.lines().collect(), ours.lines().collect());
    let equal = |(theirs, mine): (&&str, &&str)| {
        let (Some((theirs, stock)), Some((mine, ours))) = (bytes_apart(theirs), bytes_apart(mine)) else {
            return theirs == mine;
        };
        let more =
            stock.checked_sub(ours).filter(|more| *more <= packets(&mine) * MOST * OUTER[OUTER.len() - 1]);
        theirs == mine && more.is_some_and(of_outer_headers)
    };
    theirs.len() == mine.len() && theirs.iter().zip(&mine).all(equal)
}

/// A flow without its byte counter, and that counter.
fn bytes_apart(line: &str) -> Option<(String, u64)> {
    let (before, rest) = line.split_once("n_bytes=")?;
    let (bytes, after) = rest.split_once(',')?;
    Some((format!("{before}{after}"), bytes.parse().ok()?))
}

/// The packet counter of a flow.
fn packets(flow: &str) -> u64 {
    let after = flow.split_once("n_packets=").and_then(|(_, rest)| rest.split_once(','));
    after.and_then(|(packets, _)| packets.parse().ok()).unwrap_or(0)
}

/// Returns whether outer headers have this sum of lengths.
fn of_outer_headers(bytes: u64) -> bool {
    let mut reached = vec![false; bytes as usize + 1];
    reached[0] = true;
    for sum in 1..reached.len() {
        reached[sum] =
            OUTER.iter().any(|&len| sum.checked_sub(len as usize).is_some_and(|rest| reached[rest]));
    }
    reached[bytes as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_outer_headers_may_be_counted() {
        let flows =
            |bytes| format!(" table=1, n_packets=4, n_bytes={bytes}, priority=1 actions=drop\n table=2");
        assert!(alike(&flows(100), &flows(100)) && alike(&flows(150), &flows(100)));
        assert!(alike(&flows(100 + 42 + 70), &flows(100)) && alike(&flows(100 + 62 + 82), &flows(100)));
        assert!(
            alike(&flows(100 + 4 * 16 * 90), &flows(100)) && !alike(&flows(142 + 4 * 16 * 90), &flows(100))
        );
        assert!(!alike(&flows(149), &flows(100)) && !alike(&flows(100), &flows(150)));
        assert!(!alike(&flows(150).replace("=4", "=5"), &flows(100)));
        assert!(!alike(&flows(100), " table=2") && !alike(&flows(100), ""));
    }
}
