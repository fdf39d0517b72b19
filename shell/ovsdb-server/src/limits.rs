//! Limits on clients, so that none can use memory or time without bound.

use ovsdb::stream;

/// Limits of `--ovsdb-limits`, and their defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of a message.
    pub bytes: usize,
    /// Maximum JSON values in a message.
    pub values: usize,
    /// Maximum operations of a transaction.
    pub operations: usize,
    /// Maximum clients of a remote at a time.
    pub sessions: usize,
}

impl Default for Limits {
    /// The defaults allow OVN's northd to write a whole southbound database in one transaction: 100,000 operations are
    /// about 30 MB and 3 million values.
    fn default() -> Limits {
        Limits { bytes: 64 << 20, values: 16 << 20, operations: 1 << 20, sessions: 1024 }
    }
}

impl Limits {
    /// Parses `bytes=…,values=…,operations=…,sessions=…`; missing ones keep their defaults.
    pub fn parse(text: &str) -> Result<Limits, String> {
        let mut limits = Limits::default();
        for part in text.split(',') {
            let (name, value) =
                part.split_once('=').ok_or_else(|| format!("\"{part}\" is not NAME=NUMBER"))?;
            let number = value.parse().ok().filter(|n: &usize| *n > 0);
            let number = number.ok_or_else(|| format!("{name}: \"{value}\" is not a number above 0"))?;
            match name {
                "bytes" => limits.bytes = number,
                "values" => limits.values = number,
                "operations" => limits.operations = number,
                "sessions" => limits.sessions = number,
                _ => {
                    return Err(format!("\"{name}\" is not one of bytes, values, operations and sessions"));
                }
            }
        }
        Ok(limits)
    }

    pub(crate) fn of_messages(&self) -> stream::Limits {
        stream::Limits { bytes: self.bytes, values: self.values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_docs_tell_the_defaults() {
        let page = include_str!("../../../docs/settings.md");
        let Limits { bytes, values, operations, sessions } = Limits::default();
        let all = [("bytes", bytes), ("values", values), ("operations", operations), ("sessions", sessions)];
        for (name, number) in all {
            assert!(page.contains(&format!("| `{name}` | {number} |")), "{name}");
        }
    }

    #[test]
    fn missing_limits_keep_their_defaults() {
        let limits = Limits::parse("operations=5,bytes=1000").unwrap();
        assert_eq!(limits, Limits { operations: 5, bytes: 1000, ..Limits::default() });
        for wrong in ["", "bytes", "bytes=0", "bytes=x", "rows=4"] {
            assert!(Limits::parse(wrong).is_err(), "{wrong}");
        }
    }
}
