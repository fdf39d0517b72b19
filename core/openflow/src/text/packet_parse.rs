//! Parses packet-outs.

use super::action_in::parse_actions;
use super::arguments::{error, integer, port_value};
use super::flow_in::split_actions;
use super::hex::hex_bytes;
use super::protocol::Protocols;
use crate::flow_mod::NO_BUFFER;
use crate::packet_io::PacketOut;
use flow::text::{NameMap, TextError, next_key_value};
use flow::{FieldId, Match};
use units::OfPort;

/// Size of an Ethernet header in bytes, which is the minimum length of a packet.
const ETHERNET_HEADER: usize = 14;

/// Parses a packet written in hexadecimal digits.
pub fn parse_packet(hex: &str) -> Result<Vec<u8>, TextError> {
    match hex_bytes(hex) {
        (_, rest) if !rest.is_empty() => error("Trailing garbage in packet data"),
        (packet, _) if packet.len() < ETHERNET_HEADER => error("Packet data too short for Ethernet"),
        (packet, _) => Ok(packet),
    }
}

/// Parses `in_port=… packet=… actions=…`; also returns the formats that can encode the packet-out.
pub fn parse_packet_out(text: &str, names: &dyn NameMap) -> Result<(PacketOut, Protocols), TextError> {
    let (mut fields, actions) = split_actions(text);
    let mut usable = Protocols::ANY;
    let mut matching = Match::CATCHALL;
    matching.set(FieldId::InPort, u128::from(OfPort::CONTROLLER.0));
    let mut packet = None;
    while let Some((key, value)) = next_key_value(&mut fields) {
        match key {
            _ if value.is_empty() => return error(format!("field {key} missing value")),
            "in_port" => matching.set(FieldId::InPort, u128::from(in_port(value, names)?.0)),
            "packet_type" => {
                let parts = value.split_once(',').map(|(ns, t)| (integer(ns.trim()), integer(t.trim())));
                let Some((Some(ns), Some(kind))) = parts else {
                    return error(format!("{key}({value}) can't be interpreted"));
                };
                matching.set(FieldId::PacketType, u128::from((ns & 0xffff) << 16 | kind & 0xffff));
            }
            "packet" => {
                packet = Some(parse_packet(value).map_err(|e| TextError(format!("packet: {}", e.0)))?)
            }
            _ => match FieldId::from_name(key) {
                Some(field) => usable &= Protocols::of_usable(matching.parse_field(field, value, names)?),
                None => return error(format!("unknown keyword {key}")),
            },
        }
    }
    let Some(packet) = packet else { return error("must specify packet") };
    let actions = actions.map_or(Ok(Vec::new()), |a| parse_actions(a, names))?;
    usable &= Protocols::of_actions(&actions);
    Ok((PacketOut { buffer_id: NO_BUFFER, metadata: matching, actions, packet }, usable))
}

fn in_port(value: &str, names: &dyn NameMap) -> Result<OfPort, TextError> {
    let port = port_value(value, names)?;
    let special = [OfPort::LOCAL, OfPort::NONE, OfPort::CONTROLLER].contains(&port);
    if port > OfPort::MAX && !special {
        return error(format!("{value} is not a valid OpenFlow port for PACKET_OUT"));
    }
    Ok(port)
}
