//! Reads and changes the frame in a line of sent frames: a port, and the bytes of the frame as digits.

/// Returns the offset of the type after the tags in a line's frame.
pub(super) fn type_behind_tags(line: &str) -> Option<usize> {
    (12..28).step_by(4).find(|&at| !matches!(hex(line, at..at + 2), "8100" | "88a8"))
}

/// Returns bytes of the frame in a line, as digits; empty if the frame is shorter.
pub(super) fn hex(line: &str, bytes: std::ops::Range<usize>) -> &str {
    line.split(' ').nth(1).and_then(|h| h.get(2 * bytes.start..2 * bytes.end)).unwrap_or_default()
}

/// Returns the line with `_` for each digit of these bytes of its frame.
pub(super) fn blanked(line: &str, bytes: std::ops::Range<usize>) -> String {
    let end = line.split(' ').nth(1).map_or(0, |digits| digits.len() / 2);
    let bytes = bytes.start.min(end)..bytes.end.min(end);
    let digits = 2 * bytes.len();
    replaced(line, bytes, &"_".repeat(digits))
}

/// Returns the line with these bytes of its frame replaced by other digits.
pub(super) fn replaced(line: &str, bytes: std::ops::Range<usize>, with: &str) -> String {
    let Some((port, digits)) = line.split_once(' ') else { return line.to_owned() };
    match (digits.get(..2 * bytes.start), digits.get(2 * bytes.end..)) {
        (Some(head), Some(tail)) => format!("{port} {head}{with}{tail}"),
        _ => line.to_owned(),
    }
}
