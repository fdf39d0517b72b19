//! Small pieces of sentences.

use dpif::DropReason;
use ovsdb::Json;

/// A number of packets.
pub fn packets(n: u64) -> String {
    if n == 1 { "1 packet".to_owned() } else { format!("{n} packets") }
}

/// The drop reason of this name.
pub fn reason_of(name: &str) -> Option<DropReason> {
    DropReason::ALL.iter().copied().find(|reason| reason.name() == name)
}

/// A JSON string; empty if it is not one.
pub fn text(of: &Json) -> &str {
    of.as_str().unwrap_or("")
}

/// Ports, in a list after the word `port` or `ports`.
pub fn ports(names: &[&str]) -> String {
    match names {
        [one] => format!("port {one}"),
        many => format!("ports {}", many.join(", ")),
    }
}
