//! Byte counters that differ in the stock switch.

/// The lengths of the outer headers in a run with tunnels: GRE without and with a checksum, VXLAN, and Geneve over IPv4 and IPv6
/// without options, with an option of 8 or 12 bytes, and with both.
const OUTER_LENGTHS: [u64; 9] = [42, 46, 50, 58, 62, 70, 78, 82, 90];
/// Maximum number of outer headers that one packet adds to the counter of a flow: groups and `resubmit` may send it to several
/// tunnels.
const MAX_HEADERS: u64 = 16;

/// Returns whether the flows' counters differ as expected in a run with tunnels. If the stock switch translates a packet that is
/// sent to a tunnel, it adds the outer headers to the bytes of the flows that the packet matches afterwards in the same
/// translation. It does not do so for packets that hit a megaflow.
pub fn is_expected(stock: &str, ours: &str) -> bool {
    // The texts are sorted with their byte counters, so the same flow may have different positions.
    let sorted = |text: &'_ str| {
        let mut flows: Vec<_> = text.lines().map(split_off_bytes).collect();
        flows.sort_unstable();
        flows
    };
    let (theirs, mine) = (sorted(stock), sorted(ours));
    let equal = |((theirs, stock), (mine, ours)): (&(String, u64), &(String, u64))| {
        let more = stock
            .checked_sub(*ours)
            .filter(|more| *more <= packets(mine) * MAX_HEADERS * OUTER_LENGTHS[OUTER_LENGTHS.len() - 1]);
        theirs == mine && more.is_some_and(is_sum_of_headers)
    };
    theirs.len() == mine.len() && theirs.iter().zip(&mine).all(equal)
}

/// Returns a flow without its byte counter, and the counter. A line without one has zero bytes.
fn split_off_bytes(line: &str) -> (String, u64) {
    let split = || {
        let (before, rest) = line.split_once("n_bytes=")?;
        let (bytes, after) = rest.split_once(',')?;
        Some((format!("{before}{after}"), bytes.parse().ok()?))
    };
    split().unwrap_or_else(|| (line.to_owned(), 0))
}

/// Returns the packet counter of a flow.
fn packets(flow: &str) -> u64 {
    let after = flow.split_once("n_packets=").and_then(|(_, rest)| rest.split_once(','));
    after.and_then(|(packets, _)| packets.parse().ok()).unwrap_or(0)
}

/// Returns whether this number of bytes is a sum of the lengths of outer headers.
fn is_sum_of_headers(bytes: u64) -> bool {
    let mut reached = vec![false; bytes as usize + 1];
    reached[0] = true;
    for sum in 1..reached.len() {
        reached[sum] =
            OUTER_LENGTHS.iter().any(|&len| sum.checked_sub(len as usize).is_some_and(|rest| reached[rest]));
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
        assert!(is_expected(&flows(100), &flows(100)) && is_expected(&flows(150), &flows(100)));
        assert!(
            is_expected(&flows(100 + 42 + 70), &flows(100))
                && is_expected(&flows(100 + 62 + 82), &flows(100))
        );
        assert!(
            is_expected(&flows(100 + 4 * 16 * 90), &flows(100))
                && !is_expected(&flows(142 + 4 * 16 * 90), &flows(100))
        );
        assert!(!is_expected(&flows(149), &flows(100)) && !is_expected(&flows(100), &flows(150)));
        assert!(!is_expected(&flows(150).replace("=4", "=5"), &flows(100)));
        assert!(!is_expected(&flows(100), " table=2") && !is_expected(&flows(100), ""));
        let two = |lines: [&str; 2]| lines.map(|l| format!(" n_packets=4, n_bytes={l}")).join("\n");
        assert!(is_expected(&two(["120, a", "150, b"]), &two(["100, b", "120, a"])), "in another order");
        assert!(!is_expected(&two(["120, a", "150, b"]), &two(["100, b", "121, a"])));
    }
}
