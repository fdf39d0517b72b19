//! Limits for clients, so that no client can use unlimited memory or time.

use ovsdb::stream;

/// The limits of remotes: those of `--ovsdb-limits`, or the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of a message in bytes.
    pub bytes: usize,
    /// Maximum number of JSON values in a message.
    pub values: usize,
    /// Maximum number of operations of a transaction.
    pub operations: usize,
    /// Maximum number of connected clients of a remote.
    pub sessions: usize,
}

impl Default for Limits {
    /// Sized for OVN's northd, which writes a whole southbound database in one transaction: 100,000
    /// operations are about 30 MB and 3 million values.
    fn default() -> Limits {
        Limits { bytes: 64 << 20, values: 16 << 20, operations: 1 << 20, sessions: 1024 }
    }
}

impl Limits {
    /// Parses `bytes=…,values=…,operations=…,sessions=…`; limits that are not named keep their default.
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
    fn limits_that_are_not_named_keep_their_default() {
        let limits = Limits::parse("operations=5,bytes=1000").unwrap();
        assert_eq!(limits, Limits { operations: 5, bytes: 1000, ..Limits::default() });
        for wrong in ["", "bytes", "bytes=0", "bytes=x", "rows=4"] {
            assert!(Limits::parse(wrong).is_err(), "{wrong}");
        }
    }
}
