//! A message (IEEE 802.1AB clause 8): parsing and serialization.

use super::auto_attach::{self, Assignment, Element};
use super::tlv::{self, Tlv, kind};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use thiserror::Error;

/// Maximum length in bytes of an identifier or a text (8.5.2 to 8.5.7).
const TEXT_MAX: usize = 255;
/// Maximum number of management addresses that are stored.
const ADDRESSES_MAX: usize = 16;
/// The numbers of address families in a management address.
const FAMILY_IPV4: u8 = 1;
const FAMILY_IPV6: u8 = 2;
/// Bytes after a management address: the kind and the number of an interface, and the length of an object identifier.
const AFTER_ADDRESS: usize = 5;

/// An identifier of a chassis or a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// The kind of the identifier, 1 to 7.
    pub subtype: u8,
    /// The identifier, 1 to 255 bytes.
    pub bytes: Vec<u8>,
}

impl Id {
    /// A MAC address as the identifier of a chassis.
    pub fn chassis_mac(mac: [u8; 6]) -> Id {
        Id { subtype: 4, bytes: mac.to_vec() }
    }

    /// The name of a device as the identifier of a port.
    pub fn port_name(name: &str) -> Id {
        Id { subtype: 5, bytes: truncated(name.as_bytes()).to_vec() }
    }

    fn decode(value: &[u8]) -> Result<Id, Refusal> {
        match value {
            [] | [_] => Err(Refusal::TooShort("Port/Chassis Id")),
            [0 | 8.., ..] => Err(Refusal::Malformed("an identifier of an unknown kind")),
            [subtype, bytes @ ..] if bytes.len() <= TEXT_MAX => {
                Ok(Id { subtype: *subtype, bytes: bytes.to_vec() })
            }
            _ => Err(Refusal::Malformed("an identifier that is too long")),
        }
    }

    fn encode(&self) -> Vec<u8> {
        [&[self.subtype], truncated(&self.bytes)].concat()
    }
}

/// A message of LLDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The system that sent it.
    pub chassis: Id,
    /// The port that sent it.
    pub port: Id,
    /// Time in seconds that the message is valid; 0: the sender withdraws its information (shutdown LLDPDU).
    pub ttl: u16,
    /// Description of the port.
    pub port_description: String,
    /// Name of the system.
    pub system_name: String,
    /// Description of the system.
    pub system_description: String,
    /// System capabilities and enabled capabilities: bits of [`capability`].
    pub capabilities: Option<(u16, u16)>,
    /// Addresses for management.
    pub addresses: Vec<IpAddr>,
    /// Participation in auto-attach.
    pub element: Option<Element>,
    /// Services and their VLANs.
    pub assignments: Vec<Assignment>,
    /// Number of elements that were not understood.
    pub unrecognized: u64,
}

/// Bits of capabilities (table 8-4).
pub mod capability {
    /// A bridge.
    pub const BRIDGE: u16 = 1 << 2;
    /// The names of the bits, from the lowest.
    pub const NAMES: [&str; 11] = [
        "other",
        "repeater",
        "bridge",
        "wlan-access-point",
        "router",
        "telephone",
        "docsis",
        "station",
        "c-vlan",
        "s-vlan",
        "two-port-mac-relay",
    ];
}

/// Why a frame is not a valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// An element is shorter than its smallest content.
    #[error("{0} TLV too short")]
    TooShort(&'static str),
    /// Another error.
    #[error("{0}")]
    Malformed(&'static str),
}

fn truncated(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(TEXT_MAX)]
}

/// A received text, in which every byte that is not valid UTF-8 is replaced.
fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(truncated(value)).into_owned()
}

impl Message {
    /// Parses the payload of a frame. Elements of unknown types are counted and skipped (9.2.7.7.2).
    ///
    /// # Errors
    ///
    /// The payload is truncated, a mandatory element is missing, repeated or in the wrong place, or an element is malformed.
    pub fn decode(payload: &[u8]) -> Result<Message, Refusal> {
        let mut rest = payload;
        let mut mandatory = |wanted: u8, missing: &'static str| {
            let (tlv, after) = next(rest)?;
            rest = after;
            if tlv.kind == wanted { Ok(tlv.value) } else { Err(Refusal::Malformed(missing)) }
        };
        let chassis = Id::decode(mandatory(kind::CHASSIS_ID, "a first TLV that is no chassis ID")?)?;
        let port = Id::decode(mandatory(kind::PORT_ID, "a second TLV that is no port ID")?)?;
        let ttl = mandatory(kind::TTL, "a third TLV that is no TTL")?;
        let ttl = u16::from_be_bytes(*ttl.first_chunk().ok_or(Refusal::TooShort("TTL"))?);
        let mut message = Message { ttl, ..Message::new(chassis, port) };
        loop {
            let (tlv, after) = next(rest)?;
            rest = after;
            match tlv.kind {
                kind::END if tlv.value.is_empty() => return Ok(message),
                kind::END => return Err(Refusal::Malformed("an end TLV that is not empty")),
                kind::CHASSIS_ID | kind::PORT_ID | kind::TTL => {
                    return Err(Refusal::Malformed("a mandatory TLV that is repeated"));
                }
                _ => message.add(tlv)?,
            }
        }
    }

    /// A message with the mandatory elements and a TTL of 0.
    pub(super) fn new(chassis: Id, port: Id) -> Message {
        Message {
            chassis,
            port,
            ttl: 0,
            port_description: String::new(),
            system_name: String::new(),
            system_description: String::new(),
            capabilities: None,
            addresses: Vec::new(),
            element: None,
            assignments: Vec::new(),
            unrecognized: 0,
        }
    }

    /// Adds an optional element.
    fn add(&mut self, Tlv { kind, value }: Tlv<'_>) -> Result<(), Refusal> {
        match kind {
            kind::PORT_DESCRIPTION => self.port_description = text(value),
            kind::SYSTEM_NAME => self.system_name = text(value),
            kind::SYSTEM_DESCRIPTION => self.system_description = text(value),
            kind::CAPABILITIES => {
                let &[a, b, c, d] = value.first_chunk().ok_or(Refusal::TooShort("System capabilities"))?;
                self.capabilities = Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])));
            }
            kind::MANAGEMENT_ADDRESS => {
                let address = management_address(value)?;
                self.addresses.extend(address.filter(|_| self.addresses.len() < ADDRESSES_MAX));
            }
            kind::ORGANIZATION => self.add_of_organization(value)?,
            _ => self.unrecognized += 1,
        }
        Ok(())
    }

    /// Adds an element that an organization defines.
    fn add_of_organization(&mut self, value: &[u8]) -> Result<(), Refusal> {
        let (&[a, b, c, subtype], value) =
            value.split_first_chunk().ok_or(Refusal::TooShort("Organisational"))?;
        match ([a, b, c], subtype) {
            (auto_attach::OUI, auto_attach::ELEMENT) => {
                self.element = Some(Element::decode(value).ok_or(Refusal::TooShort("ELEMENT"))?);
            }
            (auto_attach::OUI, auto_attach::ASSIGNMENTS) => {
                let refuse = |why| match why {
                    None => Refusal::TooShort("ISID_VLAN_ASGNS"),
                    Some(why) => Refusal::Malformed(why),
                };
                self.assignments = auto_attach::decode_assignments(value).map_err(refuse)?;
            }
            _ => self.unrecognized += 1,
        }
        Ok(())
    }

    /// Serializes the message. Identifiers and texts are truncated to 255 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Vec::new();
        tlv::put(&mut to, kind::CHASSIS_ID, &self.chassis.encode());
        tlv::put(&mut to, kind::PORT_ID, &self.port.encode());
        tlv::put(&mut to, kind::TTL, &self.ttl.to_be_bytes());
        let texts = [
            (kind::SYSTEM_NAME, &self.system_name),
            (kind::SYSTEM_DESCRIPTION, &self.system_description),
            (kind::PORT_DESCRIPTION, &self.port_description),
        ];
        for (kind, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            tlv::put(&mut to, kind, truncated(text.as_bytes()));
        }
        if let Some((can_be, is)) = self.capabilities {
            tlv::put(&mut to, kind::CAPABILITIES, &[can_be.to_be_bytes(), is.to_be_bytes()].concat());
        }
        for address in &self.addresses {
            tlv::put(&mut to, kind::MANAGEMENT_ADDRESS, &encode_address(*address));
        }
        if let Some(element) = &self.element {
            tlv::put(&mut to, kind::ORGANIZATION, &element.encode());
        }
        if !self.assignments.is_empty() {
            tlv::put(&mut to, kind::ORGANIZATION, &auto_attach::encode_assignments(&self.assignments));
        }
        tlv::put(&mut to, kind::END, &[]);
        to
    }
}

fn next(rest: &[u8]) -> Result<(Tlv<'_>, &[u8]), Refusal> {
    tlv::split(rest).ok_or(Refusal::Malformed("a truncated message"))
}

/// The address in a management address (8.5.9); `None` if its family is neither IPv4 nor IPv6.
fn management_address(value: &[u8]) -> Result<Option<IpAddr>, Refusal> {
    let short = Refusal::TooShort("Management address");
    let (&len, rest) = value.split_first().ok_or(short)?;
    let (address, rest) = rest.split_at_checked(usize::from(len)).ok_or(short)?;
    if rest.len() < AFTER_ADDRESS {
        return Err(short);
    }
    Ok(match address.split_first() {
        Some((&FAMILY_IPV4, bytes)) => <[u8; 4]>::try_from(bytes).ok().map(|b| Ipv4Addr::from(b).into()),
        Some((&FAMILY_IPV6, bytes)) => <[u8; 16]>::try_from(bytes).ok().map(|b| Ipv6Addr::from(b).into()),
        _ => None,
    })
}

/// A management address whose interface is unknown (subtype 1, number 0), without an object identifier.
fn encode_address(address: IpAddr) -> Vec<u8> {
    let (family, bytes) = match address {
        IpAddr::V4(ip) => (FAMILY_IPV4, ip.octets().to_vec()),
        IpAddr::V6(ip) => (FAMILY_IPV6, ip.octets().to_vec()),
    };
    let len = bytes.len() as u8 + 1;
    [&[len, family], bytes.as_slice(), &[1, 0, 0, 0, 0, 0]].concat()
}

impl fmt::Display for Id {
    /// A text if the identifier is one, an address, or bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_text = |b: &u8| b.is_ascii_graphic() || *b == b' ';
        if self.subtype != 4 && self.subtype != 3 && self.bytes.iter().all(is_text) {
            return f.write_str(&String::from_utf8_lossy(&self.bytes));
        }
        f.write_str(&hex(&self.bytes))
    }
}

/// Bytes as two digits each, separated by colons.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}
