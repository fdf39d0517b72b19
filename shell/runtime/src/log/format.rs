//! Formats messages by patterns (`%D{…}|%05N|%c%T|%p|%m`).
//!
//! Users configure the patterns, so any text is accepted: an unknown conversion prints its letter, and field widths are
//! limited.

use super::level::Level;
use std::fmt::Write;

/// Maximum width of a field in characters.
const MAX_FIELD: usize = 1024;

/// The fields of one message.
pub(super) struct Record<'a> {
    pub module: &'a str,
    pub level: Level,
    pub message: &'a str,
    pub wall_ms: u64,
    pub uptime_ms: u64,
    pub number: u32,
    pub progname: &'a str,
    pub thread: &'a str,
    pub facility: u32,
}

/// Formats a record, without a trailing newline.
pub(super) fn render(pattern: &str, r: &Record<'_>) -> String {
    let mut out = String::with_capacity(pattern.len() + r.message.len() + 32);
    let mut rest = pattern;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let left = take_char(&mut rest, '-');
        let pad = if take_char(&mut rest, '0') { '0' } else { ' ' };
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let width = rest[..digits].parse::<usize>().unwrap_or(0).min(MAX_FIELD);
        rest = &rest[digits..];
        let Some(c) = rest.chars().next() else { break };
        rest = &rest[c.len_utf8()..];
        let text = expand(c, &mut rest, r);
        let fill = width.saturating_sub(text.len());
        if !left {
            out.extend(std::iter::repeat_n(pad, fill));
        }
        out.push_str(&text);
        if left {
            out.extend(std::iter::repeat_n(pad, fill));
        }
    }
    out.push_str(rest);
    out
}

fn take_char(rest: &mut &str, c: char) -> bool {
    match rest.strip_prefix(c) {
        Some(after) => {
            *rest = after;
            true
        }
        None => false,
    }
}

/// Removes `{text}` from the beginning of `rest` and returns the text; `default` if there are no braces.
fn braces<'a>(rest: &mut &'a str, default: &'a str) -> &'a str {
    let Some(inner) = rest.strip_prefix('{') else { return default };
    match inner.split_once('}') {
        Some((text, after)) => {
            *rest = after;
            text
        }
        None => {
            *rest = "";
            inner
        }
    }
}

/// The text for conversion `c`. `rest`: the pattern after the conversion; an argument in braces is removed from it.
fn expand(c: char, rest: &mut &str, r: &Record<'_>) -> String {
    match c {
        'A' => r.progname.to_string(),
        'B' => (r.facility + r.level.syslog()).to_string(),
        'c' => {
            braces(rest, "");
            r.module.to_string()
        }
        'd' | 'D' => time_text(braces(rest, "%Y-%m-%d %H:%M:%S.###"), r.wall_ms),
        'E' => rustix::system::uname().nodename().to_string_lossy().into_owned(),
        'm' => r.message.trim_end_matches('\n').to_string(),
        'N' => r.number.to_string(),
        'n' => "\n".to_string(),
        'p' => r.level.name().to_string(),
        'P' => std::process::id().to_string(),
        'r' => r.uptime_ms.to_string(),
        't' => if r.thread.is_empty() { "main" } else { r.thread }.to_string(),
        'T' if r.thread.is_empty() => String::new(),
        'T' => format!("({})", r.thread),
        other => other.to_string(),
    }
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// The common conversions of strftime, in UTC, and `#` for digits of the fraction of a second.
pub(super) fn time_text(format: &str, wall_ms: u64) -> String {
    let secs = wall_ms / 1000;
    let (h, m, s) = (secs / 3600 % 24, secs / 60 % 60, secs % 60);
    let (year, month, day) = date_of(secs / 86_400);
    let month_name = MONTHS.get(month as usize - 1).copied().unwrap_or_default();
    let mut out = String::new();
    let mut subsecond = 0;
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c == '#' {
            let digit = wall_ms % 1000 / [100, 10, 1].get(subsecond).copied().unwrap_or(1000) % 10;
            subsecond += 1;
            let _ = write!(out, "{digit}");
            continue;
        }
        subsecond = 0;
        if c != '%' {
            out.push(c);
            continue;
        }
        let _ = match chars.next() {
            Some('Y') => write!(out, "{year}"),
            Some('y') => write!(out, "{:02}", year % 100),
            Some('m') => write!(out, "{month:02}"),
            Some('d') => write!(out, "{day:02}"),
            Some('e') => write!(out, "{day:2}"),
            Some('H') => write!(out, "{h:02}"),
            Some('M') => write!(out, "{m:02}"),
            Some('S') => write!(out, "{s:02}"),
            Some('T') => write!(out, "{h:02}:{m:02}:{s:02}"),
            Some('F') => write!(out, "{year}-{month:02}-{day:02}"),
            Some('b' | 'h') => write!(out, "{month_name}"),
            Some('a') => write!(out, "{}", DAYS[(secs / 86_400 % 7) as usize]),
            Some('s') => write!(out, "{secs}"),
            Some('z') => write!(out, "+0000"),
            Some('Z') => write!(out, "UTC"),
            Some('%') => write!(out, "%"),
            Some(other) => write!(out, "%{other}"),
            None => Ok(()),
        };
    }
    out
}

/// Converts days since 1970-01-01 to year, month and day of the Gregorian calendar. Computes with years that begin in
/// March, so that the leap day is the last day of a year, and with cycles of 400 years.
fn date_of(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + u64::from(month <= 2), month, day)
}

/// Formats a time, in milliseconds since 1970, as in reports (UTC).
pub fn moment_text(wall_ms: u64) -> String {
    time_text("%Y-%m-%d %H:%M:%S.###", wall_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record<'a>(message: &'a str) -> Record<'a> {
        Record {
            module: "bridge",
            level: Level::Info,
            message,
            wall_ms: 1_795_227_994_924,
            uptime_ms: 5,
            number: 7,
            progname: "ovs-vswitchd",
            thread: "pmd-c01/id:3",
            facility: 128,
        }
    }

    #[test]
    fn the_default_pattern() {
        let text = render("%D{%Y-%m-%dT%H:%M:%S.###Z}|%05N|%c%T|%p|%m", &record("hello\n"));
        assert_eq!(text, "2026-11-21T02:26:34.924Z|00007|bridge(pmd-c01/id:3)|INFO|hello");
    }

    #[test]
    fn odd_patterns() {
        assert_eq!(render("%-10c|%10c|%", &record("")), "bridge    |    bridge|");
        assert_eq!(render("é%D{", &record("")), "é");
        assert_eq!(time_text("%F", 951_782_400_000), "2000-02-29");
    }

    proptest::proptest! {
        #[test]
        fn never_panics(p in ".*", t: u32) {
            let mut r = record("m");
            r.wall_ms = u64::from(t) * 1000;
            render(&p, &r);
        }
    }
}
