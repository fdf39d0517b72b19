//! Encapsulation of a message: UDP, IPv4 and Ethernet (RFC 5881).

use super::message::Message;
use super::settings::Settings;
use flow::compose::compose;
use flow::extract::extract;
use flow::flow::VLANS_MAX;
use flow::{Flow, Mac};
use packet::{Udp, ethertype, ipproto};

/// UDP destination port of messages (§4).
pub const UDP_PORT: u16 = 3784;
/// TTL of messages. Received messages must have this TTL, too, because it proves that the sender is a direct neighbour (§5).
pub const TTL: u8 = 255;

/// First UDP source port of messages (§4).
const FIRST_SOURCE_PORT: u16 = 49_152;
/// Destination MAC address of messages if none is configured.
const DEFAULT_DESTINATION_MAC: Mac = Mac([0x00, 0x23, 0x20, 0x00, 0x00, 0x01]);
/// Type of service: internetwork control (RFC 791).
const TOS: u8 = 0xc0;

/// The UDP source port of session number `n`.
pub(super) fn source_port(n: u16) -> u16 {
    FIRST_SOURCE_PORT + n % (u16::MAX - FIRST_SOURCE_PORT + 1)
}

/// Encapsulates a message in a frame from a port with address `mac`.
pub(super) fn frame(message: &Message, settings: &Settings, mac: Mac, source_port: u16) -> Vec<u8> {
    let flow = Flow {
        dl_src: settings.local_src.unwrap_or(mac),
        dl_dst: settings.local_dst.unwrap_or(DEFAULT_DESTINATION_MAC),
        dl_type: ethertype::IPV4,
        nw_src: settings.filter.ip.to_bits(),
        nw_dst: settings.ip_dst.to_bits(),
        nw_proto: ipproto::UDP,
        nw_tos: TOS,
        nw_ttl: TTL,
        tp_src: source_port,
        tp_dst: UDP_PORT,
        ..Flow::ZERO
    };
    compose(&flow, &message.encode())
}

/// The payload of the frame's UDP datagram, without padding.
pub fn payload(frame: &[u8]) -> Option<&[u8]> {
    let mut flow = Flow::ZERO;
    let at = extract(frame, VLANS_MAX, &mut flow).l4.filter(|_| flow.nw_proto == ipproto::UDP)?;
    let datagram = frame.get(at..)?;
    let (udp, _) = Udp::parse(datagram)?;
    datagram.get(Udp::LEN..usize::from(udp.len_field()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_round_trips_through_its_frame() {
        let message = Message { detect_mult: 3, my_discriminator: 9, ..Message::default() };
        let mac = Mac([2, 0, 0, 0, 0, 1]);
        let settings = Settings::default();
        let mut frame = frame(&message, &settings, mac, source_port(16_385));
        let flow = flow::extract::extract_from(&frame, 1);
        assert_eq!((flow.dl_src, flow.dl_dst), (mac, DEFAULT_DESTINATION_MAC));
        assert_eq!((flow.nw_src, flow.nw_dst), (0xa9fe_0101, 0xa9fe_0100));
        assert_eq!((flow.nw_ttl, flow.nw_tos, flow.tp_src, flow.tp_dst), (255, 0xc0, 49_153, 3784));
        assert_eq!(payload(&frame), Some(&message.encode()[..]));
        frame.extend([0; 9]);
        assert_eq!(payload(&frame), Some(&message.encode()[..]));
        assert!((0..60).all(|len| payload(&frame[..len]).is_none()));
    }
}
