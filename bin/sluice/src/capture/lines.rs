//! Captured packets as lines of text: time, port, direction, length, header fields, and the metadata of the switch.

use flow::Flow;
use flow::flow::VLANS_MAX;
use flow::text::{NoNames, flow_text};
use pcapng::{Block, ETHERNET, Packet};

/// Formats blocks as lines. Keeps the interfaces seen so far, because a packet refers to its interface by number.
#[derive(Default)]
pub struct LineFormatter {
    interfaces: Vec<(String, u16)>,
}

impl LineFormatter {
    /// The line of text for a packet; `None` for other blocks.
    pub fn format_block(&mut self, block: &Block<'_>) -> Option<String> {
        match block {
            Block::Interface(name, link_type) => {
                self.interfaces.push(((*name).to_owned(), *link_type));
                None
            }
            Block::Packet(packet) => Some(self.packet(packet)),
            _ => None,
        }
    }

    fn packet(&self, packet: &Packet<'_>) -> String {
        let unknown = ("?".to_owned(), ETHERNET);
        let (name, link_type) = self.interfaces.get(packet.interface as usize).unwrap_or(&unknown);
        // The two lowest bits of `epb_flags` (pcapng) are the direction; 2: outbound.
        let is_sent = packet.flags & 3 == 2;
        let rest = |word| packet.comment.strip_prefix(word).unwrap_or("").trim_start();
        let (direction, details) = match (packet.comment.split(' ').next().unwrap_or(""), is_sent) {
            ("side=drop", false) => ("drop after rx", rest("side=drop")),
            ("side=drop", true) => ("drop at tx", rest("side=drop")),
            (side @ "side=tx", _) => ("tx", rest(side)),
            (side, _) => ("rx", rest(side)),
        };
        let details = if details.is_empty() { String::new() } else { format!("  [{details}]") };
        let fields = if packet.bytes.is_empty() {
            "bytes unknown".to_owned()
        } else {
            fields(packet.bytes, *link_type)
        };
        let time = time_of_day(packet.at);
        format!("{time} {name} {direction}, {} bytes: {fields}{details}", packet.len)
    }
}

/// Addresses, protocol and ports of a packet, in the syntax of flows.
fn fields(bytes: &[u8], link_type: u16) -> String {
    let mut flow = Flow::ZERO;
    if link_type != ETHERNET {
        let ethertype = if bytes[0] >> 4 == 6 { 0x86dd } else { 0x0800 };
        flow.packet_type = 1 << 16 | ethertype;
    }
    flow::extract::extract(bytes, VLANS_MAX, &mut flow);
    flow_text(&flow, &NoNames)
}

/// The time of day in UTC, with microseconds.
fn time_of_day(nanos: u64) -> String {
    let seconds = nanos / 1_000_000_000;
    let (h, m, s) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{h:02}:{m:02}:{s:02}.{:06}", nanos / 1000 % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_a_line() {
        let mut lines = LineFormatter::default();
        assert_eq!(lines.format_block(&Block::Interface("p1", 1)), None);
        let udp =
            Flow { dl_type: 0x0800, nw_proto: 17, nw_ttl: 64, nw_src: 0x0a00_0001, tp_dst: 53, ..Flow::ZERO };
        let bytes = flow::compose::compose(&udp, b"");
        let at = (3600 * 25 + 62) * 1_000_000_000 + 7_000;
        let packet = Packet {
            interface: 0,
            at,
            bytes: &bytes,
            len: 60,
            flags: 2,
            comment: "side=drop reason=datapath_drop_tx_mtu_exceeded",
        };
        let line = lines.format_block(&Block::Packet(packet)).unwrap();
        assert!(line.starts_with("01:01:02.000007 p1 drop at tx, 60 bytes: udp,"), "{line}");
        assert!(
            line.contains("nw_src=10.0.0.1") && line.ends_with("  [reason=datapath_drop_tx_mtu_exceeded]"),
            "{line}"
        );
        let received = Packet { interface: 9, bytes: &[], comment: "side=rx", ..Packet::default() };
        assert_eq!(
            lines.format_block(&Block::Packet(received)).unwrap(),
            "00:00:00.000000 ? rx, 0 bytes: bytes unknown"
        );
        // A packet without an Ethernet header.
        lines.format_block(&Block::Interface("gre", pcapng::RAW_IP));
        let received = Packet { interface: 1, bytes: &bytes[14..], comment: "side=rx", ..Packet::default() };
        assert!(lines.format_block(&Block::Packet(received)).unwrap().contains("nw_src=10.0.0.1"));
    }
}
