//! Masks of written fields. Both switches write all bits of a field if the megaflow matches all of them, otherwise only the bits
//! that change. The versions of the stock switch differ in the bits that their megaflows match.

use crate::normalize;

/// Returns whether two lists of datapath actions differ only in masks of `tos` and `tclass`, and the bits that both write are equal.
pub fn is_expected(stock: &str, ours: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        text.split([',', '(', ')', '[', ']', '{', '}']).map(str::to_owned).collect()
    };
    let (stock, ours) = (words(stock), words(ours));
    stock.len() == ours.len() && stock.iter().zip(&ours).all(|(a, b)| a == b || writes_equal_bits(a, b))
}

/// Returns Sluice's text, in which each line that differs as expected, and only after `word`, is replaced by the stock switch's line.
pub fn with_masks_of(stock: &str, ours: &str, word: &str) -> String {
    let is_alike = |a: &str, b: &str| match (a.split_once(word), b.split_once(word)) {
        (Some((a, stock_actions)), Some((b, our_actions))) => {
            a == b && is_expected(stock_actions, our_actions)
        }
        _ => false,
    };
    let lines = ours.lines().map(|line| stock.lines().find(|other| is_alike(other, line)).unwrap_or(line));
    let end = if ours.ends_with('\n') { "\n" } else { "" };
    lines.collect::<Vec<_>>().join("\n") + end
}

/// Both translations of the packet fail for the same reason, after actions that add or remove headers. The headers of the stock
/// switch's packet and flow do not agree then (`trace: header around a copy`), so it matches more fields. The megaflow drops the packet
/// in both switches, and everything else is equal.
pub fn of_a_failed_translation(stock: &str, ours: &str) -> bool {
    const MEGAFLOW: &str = "Megaflow: ";
    let (stock, ours) = (normalize::trace(stock), normalize::trace(ours));
    let fields = |text: &'_ str| -> Vec<String> {
        let line = normalize::line(text, MEGAFLOW);
        line.strip_prefix(MEGAFLOW).unwrap_or_default().split(',').map(str::to_owned).collect()
    };
    let rest = |text: &str| -> Vec<String> {
        text.lines().filter(|l| !l.starts_with(MEGAFLOW)).map(str::to_owned).collect()
    };
    let theirs = fields(&stock);
    ours.contains("Translation failed (")
        && ["encap(", "decap("].iter().any(|action| ours.contains(action))
        && rest(&stock) == rest(&ours)
        && fields(&ours).iter().all(|field| theirs.contains(field))
}

fn writes_equal_bits(a: &str, b: &str) -> bool {
    let (Some((key, (value, mask))), Some((other, (theirs, their_mask)))) = (field(a), field(b)) else {
        return false;
    };
    let both = mask & their_mask;
    key == other && both != 0 && value & both == theirs & both
}

/// Returns the name, value and mask of a field `tos` or `tclass`.
fn field(word: &str) -> Option<(&str, (u8, u8))> {
    let (key, value) = word.split_once('=').filter(|(key, _)| matches!(*key, "tos" | "tclass"))?;
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u8::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    let (value, mask) = value.split_once('/').unwrap_or((value, "0xff"));
    Some((key, (number(value)?, number(mask)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_translation_may_match_more() {
        let text = |action: &str, megaflow: &str, end: &str| {
            format!(
                "    {action}\nFinal flow: unchanged\nMegaflow: {megaflow}\nDatapath actions: drop\n{end}\n"
            )
        };
        let failed = "Translation failed (Unsupported packet type), packet is dropped.";
        let ours = text("decap()", "eth,ipv6", failed);
        assert!(of_a_failed_translation(&text("decap()", "eth,ipv6,tp_src=0x87/0xff", failed), &ours));
        assert!(!of_a_failed_translation(&ours, &text("decap()", "eth,ipv6,tp_src=0x87/0xff", failed)));
        assert!(!of_a_failed_translation(&text("decap()", "eth,ip,tp_src=0x87/0xff", failed), &ours));
        assert!(!of_a_failed_translation(
            &text("drop", "eth,ipv6,x", failed),
            &text("drop", "eth,ipv6", failed)
        ));
        assert!(!of_a_failed_translation(
            &text("decap()", "eth,ipv6,x", ""),
            &text("decap()", "eth,ipv6", "")
        ));
    }

    #[test]
    fn only_masks_of_these_fields_may_differ() {
        let stock = "Datapath actions: [set(ipv6(tclass=0x12)),set(udp(dst=53))]8";
        let ours = |tclass: &str, port| {
            format!("Datapath actions: [set(ipv6(tclass={tclass})),set(udp(dst=53))]{port}")
        };
        assert!(is_expected(stock, &ours("0x2/0x3", 8)) && is_expected(stock, &ours("0x10/0xfc", 8)));
        assert!(!is_expected(stock, &ours("0x1/0x3", 8)) && !is_expected(stock, &ours("0x2/0x3", 9)));
        let two =
            |key: &str, tclass: &str| format!("a, actions:1\n{key}, actions:set(ipv6(tclass={tclass})),2\n");
        let with = |ours: &str| with_masks_of(&two("tclass=2", "0x12"), ours, "actions:");
        assert_eq!(with(&two("tclass=2", "0x10/0xfc")), two("tclass=2", "0x12"));
        assert_eq!(with(&two("tclass=2/3", "0x10/0xfc")), two("tclass=2/3", "0x10/0xfc"));
        assert_eq!(with(&two("tclass=2", "0x20/0xfc")), two("tclass=2", "0x20/0xfc"));
        assert!(!is_expected("set(ipv4(ttl=1))", "set(ipv4(ttl=1/0x3))"));
    }
}
