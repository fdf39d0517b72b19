//! `pmd-rxq-affinity`: `queue:core` pairs, as in `0:3,1:7`.

use std::collections::BTreeMap;
use units::{CoreId, QueueId};

/// The pairs; `None` where the text is not a list of them. A queue that is named twice is where it is named last.
pub fn parse(text: &str) -> Option<BTreeMap<QueueId, CoreId>> {
    let pair = |item: &str| {
        let (queue, core) = item.split_once([':', '='])?;
        Some((QueueId(number(queue)?), CoreId(number(core)?)))
    };
    text.split([',', ' ', '\t', '\r', '\n']).filter(|item| !item.is_empty()).map(pair).collect()
}

fn number<T: TryFrom<u32>>(text: &str) -> Option<T> {
    let value = match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
        None => text.parse().ok()?,
    };
    T::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_and_what_is_none() {
        let of = |text| parse(text).map(|m| m.iter().map(|(q, c)| (q.0, c.0)).collect::<Vec<_>>());
        assert_eq!(of("0:3,1:7,3:8"), Some(vec![(0, 3), (1, 7), (3, 8)]));
        assert_eq!(of(""), Some(vec![]));
        assert_eq!(of("0:3, 0:4"), Some(vec![(0, 4)]));
        for bad in ["0", "0:", ":1", "a:b", "0:-1", "70000:1"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
