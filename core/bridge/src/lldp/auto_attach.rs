//! The TLVs of auto-attach (draft-unbehagen-lldp-spb-03 section 6): the element of a participant, and the
//! assignments of services to VLANs.
//!
//! Both TLVs begin with a digest of 32 bytes. The digest of a message without authentication is zero; digests
//! of received messages are not checked, as in Open vSwitch.

use std::collections::BTreeMap;

/// OUI of the organization that defines these TLVs.
pub(super) const OUI: [u8; 3] = [0x00, 0x04, 0x0d];
pub(super) const ELEMENT: u8 = 11;
pub(super) const ASSIGNMENTS: u8 = 12;

const DIGEST_LEN: usize = 32;
const ASSIGNMENT_LEN: usize = 5;
/// Maximum number of assignments in a message. All are in one TLV, after the organization (3 bytes), the subtype (1) and the digest.
pub const ASSIGNMENTS_MAX: usize = (super::tlv::VALUE_MAX - 4 - DIGEST_LEN) / ASSIGNMENT_LEN;
/// The largest number of a service (I-SID).
pub const ISID_MAX: u32 = 0x00ff_ffff;
const VLAN_MASK: u16 = 0x0fff;

/// The type of a client that is a virtual switch.
const VIRTUAL_SWITCH: u8 = 14;

/// Identity of a system: its MAC address, the kind of its connection, and reserved bytes.
pub type SystemId = [u8; 10];

/// Announces that the sender takes part in auto-attach, and its role (`kind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// Type of the element, 6 bits; 2 is a server.
    pub kind: u8,
    /// Six bits: whether the sender tags its packets, and how it provisions VLANs.
    pub state: u8,
    /// The VLAN of management; 0: none.
    pub management_vlan: u16,
    /// The sender.
    pub system: SystemId,
}

impl Element {
    /// The element of this switch; its system id contains `mac`.
    pub fn of_switch(mac: [u8; 6]) -> Element {
        let mut system = SystemId::default();
        system[..6].copy_from_slice(&mac);
        Element { kind: VIRTUAL_SWITCH, state: 0, management_vlan: 0, system }
    }

    /// Parses the value after the subtype. `None`: the value is too short.
    pub(super) fn decode(value: &[u8]) -> Option<Element> {
        let (word, rest) = value.get(DIGEST_LEN..)?.split_first_chunk()?;
        let word = u32::from_be_bytes(*word);
        Some(Element {
            kind: (word >> 26) as u8,
            state: (word >> 20) as u8 & 0x3f,
            management_vlan: (word >> 8) as u16 & VLAN_MASK,
            system: *rest.first_chunk()?,
        })
    }

    /// The value with organization and subtype.
    pub(super) fn encode(&self) -> Vec<u8> {
        let word = u32::from(self.kind) << 26
            | u32::from(self.state & 0x3f) << 20
            | u32::from(self.management_vlan & VLAN_MASK) << 8;
        let mut value = start(ELEMENT);
        value.extend(word.to_be_bytes());
        value.extend(self.system);
        value
    }
}

/// What a server decided about an assignment (4 bits).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status(pub u8);

impl Status {
    /// Name of the status, as `autoattach/show-isid` prints it.
    pub fn name(self) -> &'static str {
        match self.0 {
            2 => "Active",
            3 => "Reject (Generic)",
            4 => "Reject (AA resources unavailable)",
            6 => "Reject (Invalid)",
            8 => "Reject (VLAN resources unavailable)",
            9 => "Reject (Application interaction issue)",
            _ => "Undefined",
        }
    }
}

/// A service (I-SID) and the VLAN that carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Number of the service, 24 bits.
    pub isid: u32,
    /// VLAN.
    pub vlan: u16,
    /// The decision of the server; 0 in a request.
    pub status: Status,
}

/// Parses the value after the subtype.
///
/// # Errors
///
/// `None` if the value is too short for the digest; otherwise the text of the problem: the last assignment is incomplete.
pub(super) fn decode_assignments(value: &[u8]) -> Result<Vec<Assignment>, Option<&'static str>> {
    let value = value.get(DIGEST_LEN..).ok_or(None)?;
    let (assignments, rest) = value.as_chunks::<ASSIGNMENT_LEN>();
    if !rest.is_empty() {
        return Err(Some("an incomplete assignment of a service to a VLAN"));
    }
    let decode = |&[a, b, c, d, e]: &[u8; ASSIGNMENT_LEN]| {
        let word = u16::from_be_bytes([a, b]);
        let (isid, status) = (u32::from_be_bytes([0, c, d, e]), Status((word >> 12) as u8));
        Assignment { isid, vlan: word & VLAN_MASK, status }
    };
    Ok(assignments.iter().map(decode).collect())
}

/// The value with organization and subtype. Only the first [`ASSIGNMENTS_MAX`] assignments fit.
pub(super) fn encode_assignments(assignments: &[Assignment]) -> Vec<u8> {
    let mut value = start(ASSIGNMENTS);
    for Assignment { isid, vlan, status } in assignments.iter().take(ASSIGNMENTS_MAX) {
        value.extend((u16::from(status.0) << 12 | vlan & VLAN_MASK).to_be_bytes());
        value.extend(&isid.to_be_bytes()[1..]);
    }
    value
}

/// The beginning of a value: organization, subtype and a digest of zeros.
fn start(subtype: u8) -> Vec<u8> {
    let mut value = OUI.to_vec();
    value.push(subtype);
    value.extend([0; DIGEST_LEN]);
    value
}

/// The requests for these services, in the order of their numbers.
pub(super) fn requests(mappings: &BTreeMap<u32, u16>) -> Vec<Assignment> {
    let request = |(isid, vlan): (&u32, &u16)| Assignment { isid: *isid, vlan: *vlan, status: Status(0) };
    mappings.iter().map(request).collect()
}
