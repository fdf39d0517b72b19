//! "Did you mean": suggests the known name that is most similar to a mistyped name.
//!
//! A tool that is called by a name of Open vSwitch makes no suggestions, because its messages must be those of that program.

use std::sync::atomic::{AtomicBool, Ordering};

static COMPAT: AtomicBool = AtomicBool::new(false);

/// Records that the tool was called by a name of Open vSwitch: then messages have no suggestions
/// and hints, and output has no colours unless `--color` requests them.
pub fn set_compat() {
    COMPAT.store(true, Ordering::Relaxed);
}

/// Returns whether the tool was called by a name of Open vSwitch.
pub fn is_compat() -> bool {
    COMPAT.load(Ordering::Relaxed)
}

/// The hint after an error message about `given`; empty if no name is similar.
pub fn hint<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    if is_compat() {
        return String::new();
    }
    nearest(given, names).map(|name| format!(" (did you mean \"{name}\"?)")).unwrap_or_default()
}

/// The name that is reached with the fewest edits. One edit is allowed for every three letters, but
/// at least one and at most three.
fn nearest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = plain(given);
    let limit = (given.len() / 3).clamp(1, 3);
    let rated = names.into_iter().map(|name| (distance(&given, &plain(name)), name));
    rated.filter(|(edits, _)| *edits <= limit).min_by_key(|(edits, _)| *edits).map(|(_, name)| name)
}

/// The name in lower case, with dashes for underscores, for a comparison that ignores both differences.
fn plain(name: &str) -> Vec<char> {
    name.chars().map(|c| if c == '_' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// Number of insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut edits = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                edits = edits.min(before[j - 1] + 1);
            }
            row.push(edits);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names() {
        let names = ["add-port", "add-br", "del-port", "list-br", "list"];
        assert_eq!(nearest("ad-prot", names), Some("add-port"));
        assert_eq!(nearest("lsit", names), Some("list"));
        assert_eq!(nearest("LIST_BR", names), Some("list-br"));
        assert_eq!(nearest("nonsense", names), None);
        assert_eq!(hint("lst", names), " (did you mean \"list\"?)");
        assert_eq!(hint("", names), "");
    }
}
