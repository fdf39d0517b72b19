//! Layer 2: Ethernet, VLAN tags (IEEE 802.1Q), 802.2 LLC/SNAP, MPLS (RFC 3032), and ARP (RFC 826).

use crate::view::{be16, be32, part, view};

/// Ethernet types.
pub mod ethertype {
    #![allow(missing_docs)]
    pub const IPV4: u16 = 0x0800;
    pub const ARP: u16 = 0x0806;
    pub const TEB: u16 = 0x6558;
    pub const RARP: u16 = 0x8035;
    pub const VLAN: u16 = 0x8100;
    pub const QINQ: u16 = 0x88a8;
    pub const IPV6: u16 = 0x86dd;
    pub const MPLS: u16 = 0x8847;
    pub const MPLS_MCAST: u16 = 0x8848;
    pub const LACP: u16 = 0x8809;
    pub const NSH: u16 = 0x894f;
    pub const LLDP: u16 = 0x88cc;
    /// The smallest type; smaller numbers are lengths.
    pub const MIN: u16 = 0x0600;
    /// Stands for "no type": an 802.2 frame without an Ethernet type.
    pub const NONE: u16 = 0x05ff;

    /// The TPID of a VLAN tag.
    #[inline]
    pub fn is_vlan(dl_type: u16) -> bool {
        matches!(dl_type, VLAN | QINQ)
    }

    /// MPLS, unicast or multicast.
    #[inline]
    pub fn is_mpls(dl_type: u16) -> bool {
        matches!(dl_type, MPLS | MPLS_MCAST)
    }

    /// ARP or reverse ARP.
    #[inline]
    pub fn is_arp(dl_type: u16) -> bool {
        matches!(dl_type, ARP | RARP)
    }
}

view!(
    /// Both Ethernet addresses; the type or a tag follows.
    Ethernet, 12
);

impl Ethernet<'_> {
    /// Destination.
    #[inline]
    pub fn dst(&self) -> [u8; 6] {
        part::<0, 6, 12>(self.0)
    }

    /// Source.
    #[inline]
    pub fn src(&self) -> [u8; 6] {
        part::<6, 6, 12>(self.0)
    }
}

view!(
    /// A VLAN tag, TPID first.
    VlanTag, 4
);

impl VlanTag<'_> {
    /// The TPID: 0x8100 or 0x88a8 in a VLAN tag.
    #[inline]
    pub fn tpid(&self) -> u16 {
        be16::<0, 4>(self.0)
    }

    /// PCP, DEI and VID.
    #[inline]
    pub fn tci(&self) -> u16 {
        be16::<2, 4>(self.0)
    }
}

view!(
    /// The type or length field.
    TypeField, 2
);

impl TypeField<'_> {
    /// The value of the field.
    #[inline]
    pub fn value(&self) -> u16 {
        be16::<0, 2>(self.0)
    }
}

view!(
    /// 802.2 LLC with SNAP.
    LlcSnap, 8
);

impl LlcSnap<'_> {
    /// The Ethernet type; `None`: the frame is another kind of LLC frame.
    #[inline]
    fn ethertype(&self) -> Option<u16> {
        let snap = part::<0, 6, 8>(self.0) == [0xaa, 0xaa, 0x03, 0, 0, 0];
        snap.then(|| be16::<6, 8>(self.0))
    }
}

/// The Ethernet type at the front of the data, and its payload. In an 802.3 frame the type is at the end of LLC and
/// SNAP; a frame without a type has the bytes after the length as payload.
#[inline]
pub fn ethertype_of(data: &[u8]) -> Option<(u16, &[u8])> {
    let (field, after) = TypeField::parse(data)?;
    if field.value() >= ethertype::MIN {
        return Some((field.value(), after));
    }
    let snap = LlcSnap::parse(after).and_then(|(llc, payload)| Some((llc.ethertype()?, payload)));
    let (dl_type, payload) = snap.unwrap_or((ethertype::NONE, after));
    Some((if dl_type >= ethertype::MIN { dl_type } else { ethertype::NONE }, payload))
}

view!(
    /// An MPLS label stack entry.
    MplsEntry, 4
);

impl MplsEntry<'_> {
    /// Label, TC, bottom of stack, TTL.
    #[inline]
    pub fn lse(&self) -> u32 {
        be32::<0, 4>(self.0)
    }

    /// Returns whether this is the last entry of the stack.
    #[inline]
    pub fn is_bottom(&self) -> bool {
        self.lse() & 0x100 != 0
    }
}

view!(
    /// ARP for Ethernet and IPv4.
    Arp, 28
);

impl Arp<'_> {
    /// Returns whether the message is for Ethernet and IPv4 addresses; otherwise the fields below have no meaning.
    #[inline]
    pub fn is_ethernet_ipv4(&self) -> bool {
        part::<0, 6, 28>(self.0) == [0, 1, 8, 0, 6, 4]
    }

    /// Operation: 1 request, 2 reply.
    #[inline]
    pub fn op(&self) -> u16 {
        be16::<6, 28>(self.0)
    }

    /// Sender hardware address.
    #[inline]
    pub fn sha(&self) -> [u8; 6] {
        part::<8, 6, 28>(self.0)
    }

    /// Sender protocol address.
    #[inline]
    pub fn spa(&self) -> u32 {
        be32::<14, 28>(self.0)
    }

    /// Target hardware address.
    #[inline]
    pub fn tha(&self) -> [u8; 6] {
        part::<18, 6, 28>(self.0)
    }

    /// Target protocol address.
    #[inline]
    pub fn tpa(&self) -> u32 {
        be32::<24, 28>(self.0)
    }
}
