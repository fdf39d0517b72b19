//! `pmd-rxq-affinity`: `queue:core` pairs, as in `0:3,1:7`.

use std::collections::BTreeMap;
use units::{CoreId, QueueId};

/// Parses the pairs; `None` if the text is not a list of pairs. If a queue is named twice, the last pair counts. Numbers
/// of queues and cores that do not exist are accepted: such a queue has no effect, and such a core has no PMD thread.
pub fn parse(text: &str) -> Option<BTreeMap<QueueId, CoreId>> {
    let mut pairs = BTreeMap::new();
    for item in text.split([',', ' ', '\t', '\r', '\n']).filter(|item| !item.is_empty()) {
        let (queue, core) = item.split_once([':', '='])?;
        let (queue, core) = (number(queue)?, number(core)?);
        if let Ok(queue) = u16::try_from(queue) {
            pairs.insert(QueueId(queue), CoreId(core));
        }
    }
    Some(pairs)
}

/// Parses a number as C does: hexadecimal after `0x`, octal after `0`. `None` if it does not fit an `int`.
fn number(text: &str) -> Option<u32> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None if text.len() > 1 && text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    u32::from_str_radix(digits, radix).ok().filter(|n| i32::try_from(*n).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_and_invalid_pairs() {
        let of = |text| parse(text).map(|m| m.iter().map(|(q, c)| (q.0, c.0)).collect::<Vec<_>>());
        assert_eq!(of("0:3,1:7,3:8"), Some(vec![(0, 3), (1, 7), (3, 8)]));
        assert_eq!(of(""), Some(vec![]));
        assert_eq!(of("0:3, 0:4"), Some(vec![(0, 4)]));
        assert_eq!(of("0x1:010,70000:1,2=99999999"), Some(vec![(1, 8), (2, 99_999_999)]));
        for bad in ["0", "0:", ":1", "a:b", "0:-1", "0:08", "0:0x", "0:2147483648"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
