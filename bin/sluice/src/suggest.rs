//! "Did you mean": the known name that a mistyped one is nearest to.
//!
//! Under a name of Open vSwitch a tool says what that tool says and no more, so there is no suggestion.

use std::sync::atomic::{AtomicBool, Ordering};

static SILENT: AtomicBool = AtomicBool::new(false);

/// No suggestions in this process.
pub fn keep_silent() {
    SILENT.store(true, Ordering::Relaxed);
}

/// Whether the tool goes by a name of Open vSwitch.
pub fn is_silent() -> bool {
    SILENT.load(Ordering::Relaxed)
}

/// What to put behind a complaint about `given`; empty if no name is near.
pub fn hint<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    if is_silent() {
        return String::new();
    }
    nearest(given, names).map(|name| format!(" (did you mean \"{name}\"?)")).unwrap_or_default()
}

/// The name that takes the fewest edits, at most one in three letters.
fn nearest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = plain(given);
    let limit = (given.len() / 3).clamp(1, 3);
    let rated = names.into_iter().map(|name| (distance(&given, &plain(name)), name));
    rated.filter(|(edits, _)| *edits <= limit).min_by_key(|(edits, _)| *edits).map(|(_, name)| name)
}

/// Letter case and the kind of dash are no typing errors.
fn plain(name: &str) -> Vec<char> {
    name.chars().map(|c| if c == '_' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// Insertions, deletions, replacements and swaps of neighbours that make one word of the other.
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
