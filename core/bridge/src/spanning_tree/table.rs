//! The parts of `stp/show` and `rstp/show` that are the same in both. Scripts parse them.

/// Widths of the columns of a table of ports, up to the last one, with the number of characters that are shown.
const COLUMNS: [(usize, usize); 3] = [(11, 10), (11, 10), (11, 10)];

/// Times in whole seconds: hello time, maximum age, forward delay.
pub(super) type Seconds = [u64; 3];

/// The lines of times.
pub(super) fn times([hello, max_age, forward_delay]: Seconds) -> String {
    format!("  stp-hello-time  {hello}s\n  stp-max-age     {max_age}s\n  stp-fwd-delay   {forward_delay}s\n")
}

/// A row: name, role and state; cost, with the width of its column; priority and number.
pub(super) fn row(columns: [&str; 3], cost: impl ToString, width: usize, last: &str) -> String {
    let mut line = "  ".to_owned();
    for (text, (width, shown)) in columns.iter().zip(COLUMNS) {
        let text: String = text.chars().take(shown).collect();
        line.push_str(&format!("{text:width$}"));
    }
    format!("{line}{:width$}{last}\n", cost.to_string())
}
