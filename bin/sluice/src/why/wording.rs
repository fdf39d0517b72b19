//! Helpers for the text of sentences.

use dpif::DropReason;
use ovsdb::Json;

/// A number of packets, with the singular or plural form of the word.
pub fn packets(n: u64) -> String {
    if n == 1 { "1 packet".to_owned() } else { format!("{n} packets") }
}

/// The drop reason of this name.
pub fn reason_of(name: &str) -> Option<DropReason> {
    DropReason::ALL.iter().copied().find(|reason| reason.name() == name)
}

/// The text of a JSON string; empty for other JSON values.
pub fn text(of: &Json) -> &str {
    of.as_str().unwrap_or("")
}

/// A list of ports after the word `port` or `ports`.
pub fn ports(names: &[&str]) -> String {
    match names {
        [one] => format!("port {one}"),
        many => format!("ports {}", many.join(", ")),
    }
}
