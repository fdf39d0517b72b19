//! Layer 4: TCP (RFC 9293), UDP (RFC 768), SCTP (RFC 9260), ICMP (RFC 792), ICMPv6 (RFC 4443), IGMP (RFC 2236).

use crate::view::{be16, be32, view};

/// Declares the port accessors of a header that begins with its ports.
macro_rules! ports {
    ($name:ident, $len:literal) => {
        impl $name<'_> {
            /// Source port.
            #[inline]
            pub fn src(&self) -> u16 {
                be16::<0, $len>(self.0)
            }

            /// Destination port.
            #[inline]
            pub fn dst(&self) -> u16 {
                be16::<2, $len>(self.0)
            }
        }
    };
}

view!(
    /// TCP without options.
    Tcp, 20
);
ports!(Tcp, 20);

impl<'a> Tcp<'a> {
    /// A header with a valid data offset, and its payload. `None`: the data is too short or the offset invalid.
    #[inline]
    pub fn parse_checked(data: &'a [u8]) -> Option<(Tcp<'a>, &'a [u8])> {
        let (tcp, _) = Tcp::parse(data)?;
        data.get(tcp.header_len()..).filter(|_| tcp.header_len() >= Tcp::LEN).map(|rest| (tcp, rest))
    }

    /// Sequence number.
    #[inline]
    pub fn seq(&self) -> u32 {
        be32::<4, 20>(self.0)
    }

    /// Acknowledgement number.
    #[inline]
    pub fn ack(&self) -> u32 {
        be32::<8, 20>(self.0)
    }

    /// Length of the header with options, from its data offset field, in bytes.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.0[12] >> 4) * 4
    }

    /// The twelve bits after the data offset: reserved bits and flags.
    #[inline]
    pub fn flags(&self) -> u16 {
        be16::<12, 20>(self.0) & 0x0fff
    }

    /// Receive window, not scaled.
    #[inline]
    pub fn window(&self) -> u16 {
        be16::<14, 20>(self.0)
    }
}

view!(
    /// UDP.
    Udp, 8
);
ports!(Udp, 8);

impl Udp<'_> {
    /// Length of header and payload, from the length field, in bytes.
    #[inline]
    pub fn len_field(&self) -> u16 {
        be16::<4, 8>(self.0)
    }

    /// Checksum; zero for none.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16::<6, 8>(self.0)
    }
}

view!(
    /// SCTP common header.
    Sctp, 12
);
ports!(Sctp, 12);

view!(
    /// ICMP.
    Icmp, 8
);

impl Icmp<'_> {
    /// Type.
    #[inline]
    pub fn icmp_type(&self) -> u8 {
        self.0[0]
    }

    /// Code.
    #[inline]
    pub fn code(&self) -> u8 {
        self.0[1]
    }

    /// Identifier of echo messages.
    #[inline]
    pub fn id(&self) -> u16 {
        be16::<4, 8>(self.0)
    }
}

view!(
    /// ICMPv6 with the word that follows the checksum.
    Icmpv6, 8
);

impl Icmpv6<'_> {
    /// Type.
    #[inline]
    pub fn icmp_type(&self) -> u8 {
        self.0[0]
    }

    /// Code.
    #[inline]
    pub fn code(&self) -> u8 {
        self.0[1]
    }

    /// The word after the checksum: reserved bits and flags of neighbour discovery.
    #[inline]
    pub fn word(&self) -> u32 {
        be32::<4, 8>(self.0)
    }

    /// Identifier of echo messages.
    #[inline]
    pub fn id(&self) -> u16 {
        be16::<4, 8>(self.0)
    }

    /// Returns whether the message is a neighbour solicitation or advertisement.
    #[inline]
    pub fn is_nd(&self) -> bool {
        self.code() == 0 && matches!(self.icmp_type(), 135 | 136)
    }
}

view!(
    /// IGMP.
    Igmp, 8
);

impl Igmp<'_> {
    /// Type.
    #[inline]
    pub fn igmp_type(&self) -> u8 {
        self.0[0]
    }

    /// Maximum response time.
    #[inline]
    pub fn code(&self) -> u8 {
        self.0[1]
    }

    /// Group address.
    #[inline]
    pub fn group(&self) -> u32 {
        be32::<4, 8>(self.0)
    }
}
