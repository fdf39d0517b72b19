//! The parts that `stp/show` and `rstp/show` have in common. Scripts parse the output.

/// The first columns of the table of ports: the width, and the number of characters of the text that are shown.
const COLUMNS: [(usize, usize); 3] = [(11, 10), (11, 10), (11, 10)];

/// Times in whole seconds: hello time, maximum age, forward delay.
pub(super) type Seconds = [u64; 3];

/// The lines that show the times of a bridge.
pub(super) fn times([hello, max_age, forward_delay]: Seconds) -> String {
    format!("  stp-hello-time  {hello}s\n  stp-max-age     {max_age}s\n  stp-fwd-delay   {forward_delay}s\n")
}

/// A row of the table of ports. `columns`: name, role, state. `width`: the width of the column of costs. `last`:
/// priority and number.
pub(super) fn row(columns: [&str; 3], cost: impl ToString, width: usize, last: &str) -> String {
    let mut line = "  ".to_owned();
    for (text, (width, shown)) in columns.iter().zip(COLUMNS) {
        let text: String = text.chars().take(shown).collect();
        line.push_str(&format!("{text:width$}"));
    }
    format!("{line}{:width$}{last}\n", cost.to_string())
}
