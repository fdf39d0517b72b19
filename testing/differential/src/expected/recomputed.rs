//! A checksum that the stock switch computes from the whole message.
//!
//! A write to the reserved field or the option type of a neighbour message (`set(nd_ext(...))`) changes the checksum of ICMPv6. Sluice updates it
//! (RFC 1624), so a message that arrived with a wrong checksum keeps one. The stock switch computes it again, so the message looks valid
//! afterwards.

use super::frame_line::{blanked, hex, type_behind_tags};
use crate::checksum::{fold, sum};
use crate::normalize;

/// Bytes from the type behind the tags: the IPv6 header, its addresses, the message of ICMPv6, and the end of the checksum.
const HEADER: usize = 2;
const NEXT_HEADER: usize = HEADER + 6;
const ADDRESSES: std::ops::Range<usize> = HEADER + 8..HEADER + 40;
const MESSAGE: usize = HEADER + 40;
const CHECKSUM: std::ops::Range<usize> = MESSAGE + 2..MESSAGE + 4;
const ICMPV6: u8 = 58;

/// Returns whether only these checksums differ, because the packet had a wrong one.
pub(super) fn is_expected(stock: &str, ours: &str, packet: &[u8], actions: &str) -> bool {
    let without = |text: &str| {
        let lines: Vec<String> = text.lines().map(without_checksum).collect();
        normalize::sorted_lines(&lines.join("\n"))
    };
    actions.contains("set(nd_ext(") && has_wrong_checksum(packet) && without(stock) == without(ours)
}

fn without_checksum(line: &str) -> String {
    match type_behind_tags(line) {
        Some(at)
            if hex(line, at..at + 2) == "86dd"
                && hex(line, at + NEXT_HEADER..at + NEXT_HEADER + 1) == "3a" =>
        {
            blanked(line, at + CHECKSUM.start..at + CHECKSUM.end)
        }
        _ => line.to_owned(),
    }
}

/// Whether a frame is a message of ICMPv6 directly behind the IPv6 header, with a wrong checksum.
fn has_wrong_checksum(frame: &[u8]) -> bool {
    let at = (12..28).step_by(4).find(|at| !matches!(frame.get(*at..at + 2), Some([0x81, 0] | [0x88, 0xa8])));
    let Some(ip) =
        at.and_then(|at| frame.get(at..)).filter(|ip| ip.len() > MESSAGE && ip[NEXT_HEADER] == ICMPV6)
    else {
        return false;
    };
    let message = &ip[MESSAGE..];
    let total = sum(&ip[ADDRESSES]) + sum(message) + message.len() as u32 + u32::from(ICMPV6);
    fold(total) != [0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A neighbour solicitation with this byte in its source address, and its sender's checksum.
    fn packet(source: u8) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([0x81, 0, 0, 7, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 24, ICMPV6, 255]);
        frame.extend([0x20, 1, 0x0d, source]);
        frame.extend([0; 28]);
        frame.extend([135, 0, 0x37, 0x89]);
        frame.extend([0; 20]);
        frame
    }

    fn line(frame: &[u8], checksum: &str) -> String {
        let digits: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
        blanked(&format!("p1 {digits}"), 60..62).replace("____", checksum)
    }

    #[test]
    fn a_wrong_checksum_may_have_become_right() {
        let good = packet(0xb8);
        let at = (0..=u16::MAX).find(|sum| {
            let mut frame = good.clone();
            frame[60..62].copy_from_slice(&sum.to_be_bytes());
            !has_wrong_checksum(&frame)
        });
        let mut valid = good;
        valid[60..62].copy_from_slice(&at.unwrap().to_be_bytes());
        let mut wrong = valid.clone();
        wrong[29] ^= 4;
        let (stock, ours) = (line(&wrong, "1234"), line(&wrong, "5678"));
        let actions = "set(nd_ext(nd_reserved=0x5)),1";
        assert!(is_expected(&stock, &ours, &wrong, actions));
        assert!(!is_expected(&stock, &ours, &valid, actions));
        assert!(!is_expected(&stock, &ours, &wrong, "set(nd(target=::1)),1"));
        assert!(!is_expected(&stock, &ours.replacen("8100", "8101", 1), &wrong, actions));
    }
}
