//! The grammar of `-v` and `vlog/set`: `module:destination:level` in any order, `PATTERN:destination:pattern`
//! and `FACILITY:name`. The parser has no state: the caller supplies a function that looks up modules.

use super::level::{Dest, Level};

/// A parsed specification.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Spec {
    /// A level. `None`: all modules; all destinations.
    Levels { module: Option<String>, dest: Option<Dest>, level: Level },
    /// A pattern. `None`: all destinations.
    Pattern { dest: Option<Dest>, pattern: String },
    /// A syslog facility, as its number.
    Facility(u32),
}

const FACILITIES: [(&str, u32); 22] = [
    ("kern", 0),
    ("user", 1),
    ("mail", 2),
    ("daemon", 3),
    ("auth", 4),
    ("syslog", 5),
    ("lpr", 6),
    ("news", 7),
    ("uucp", 8),
    ("clock", 9),
    ("ftp", 11),
    ("ntp", 12),
    ("audit", 13),
    ("alert", 14),
    ("local0", 16),
    ("local1", 17),
    ("local2", 18),
    ("local3", 19),
    ("local4", 20),
    ("local5", 21),
    ("local6", 22),
    ("local7", 23),
];

fn is_separator(c: char) -> bool {
    matches!(c, ' ' | ',' | ':' | '\t')
}

/// Splits off the next word; also returns the text after its separator.
fn word(s: &str) -> Option<(&str, &str)> {
    let s = s.trim_start_matches(is_separator);
    if s.is_empty() {
        return None;
    }
    let end = s.find(is_separator).unwrap_or(s.len());
    Some((s.get(..end)?, s.get(end + 1..).unwrap_or("")))
}

/// Parses a specification; the error is the text of the reply.
pub(super) fn parse(s: &str, is_module: impl Fn(&str) -> bool) -> Result<Spec, String> {
    if let Some((first, rest)) = word(s) {
        if first.eq_ignore_ascii_case("PATTERN") {
            let (d, pattern) = word(rest).ok_or("missing destination")?;
            let dest = match d.eq_ignore_ascii_case("ANY") {
                true => None,
                false => Some(Dest::from_name(d).ok_or(format!("unknown destination \"{d}\""))?),
            };
            return Ok(Spec::Pattern { dest, pattern: pattern.to_string() });
        }
        if first.eq_ignore_ascii_case("FACILITY") {
            let found = FACILITIES.iter().find(|(n, _)| n.eq_ignore_ascii_case(rest));
            return found.map(|(_, v)| Spec::Facility(v << 3)).ok_or("invalid facility".into());
        }
    }
    let (mut module, mut dest, mut level) = (None, None, None);
    let mut rest = s;
    while let Some((w, after)) = word(rest) {
        rest = after;
        if w.eq_ignore_ascii_case("ANY") {
            continue;
        } else if let Some(d) = Dest::from_name(w) {
            if dest.replace(d).is_some() {
                return Err("cannot specify multiple destinations".into());
            }
        } else if let Some(l) = Level::from_name(w) {
            if level.replace(l).is_some() {
                return Err("cannot specify multiple levels".into());
            }
        } else if is_module(w) {
            if module.replace(w.to_string()).is_some() {
                return Err("cannot specify multiple modules".into());
            }
        } else {
            return Err(format!("no destination, level, or module \"{w}\""));
        }
    }
    Ok(Spec::Levels { module, dest, level: level.unwrap_or(Level::Dbg) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(s: &str) -> Result<Spec, String> {
        parse(s, |m| m == "bridge")
    }

    #[test]
    fn the_grammar() {
        let all = Spec::Levels { module: None, dest: Some(Dest::File), level: Level::Dbg };
        assert_eq!(p("ANY:file"), Ok(all));
        let one = Spec::Levels { module: Some("bridge".into()), dest: None, level: Level::Warn };
        assert_eq!(p("warn bridge"), Ok(one));
        let pattern = Spec::Pattern { dest: Some(Dest::File), pattern: "%c:%m".into() };
        assert_eq!(p("PATTERN:file:%c:%m"), Ok(pattern));
        assert_eq!(p("FACILITY:local1"), Ok(Spec::Facility(17 << 3)));
        assert_eq!(p("foo:file"), Err("no destination, level, or module \"foo\"".into()));
        assert_eq!(p("PATTERN"), Err("missing destination".into()));
        assert_eq!(p("PATTERN:xx:y"), Err("unknown destination \"xx\"".into()));
        assert_eq!(p("FACILITY:xx"), Err("invalid facility".into()));
        assert_eq!(p("dbg info"), Err("cannot specify multiple levels".into()));
    }

    proptest::proptest! {
        #[test]
        fn never_panics(s in ".*") {
            let _ = p(&s);
        }
    }
}
