//! What is known of the stock switch, and is no fault of ours: each with its reason, and as narrow as can be told.

/// Assertions that end the stock switch (3.1 and 3.7.1), and what leads there.
const ENDS: &[(&str, &str)] = &[(
    "assertion !dp_packet_is_eth(packet) failed in push_eth()",
    "it puts an Ethernet header on a packet that has one",
)];

/// Why the stock switch ended, by its log, if that is known.
pub fn end(log: &str) -> Option<&'static str> {
    ENDS.iter().find(|(assertion, _)| log.contains(assertion)).map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_without_a_known_assertion_is_not_known() {
        assert!(
            end("EMER|lib/packets.c:273: assertion !dp_packet_is_eth(packet) failed in push_eth()").is_some()
        );
        assert!(end("EMER|lib/packets.c:1: assertion x failed in push_eth()").is_none());
    }
}
