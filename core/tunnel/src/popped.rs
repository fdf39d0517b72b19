//! The result of reading an outer header, and its errors.

use flow::Tunnel;

/// The outer headers of a packet, parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct Popped<'a> {
    /// The fields of the outer headers.
    pub tunnel: Tunnel,
    /// The Geneve options.
    pub options: &'a [u8],
    /// The type of the inner packet, as in [`flow::Flow::packet_type`].
    pub packet_type: u32,
    /// Length of the outer headers: these bytes must be removed in front of the inner packet.
    pub header: usize,
    /// Offset of the end of the inner packet in the frame; padding of a short outer frame may follow.
    pub end: usize,
}

/// Why a received header is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PopError {
    /// The frame ends within the header, or a length field is wrong.
    Short,
    /// Not an IP packet.
    NotIp,
    /// Unknown version of a header.
    Version,
    /// The outer IPv4 header has options.
    IpOptions,
    /// The outer packet is a fragment.
    Fragment,
    /// A checksum is wrong.
    Checksum,
    /// The packet has another protocol than the tunnel.
    Protocol,
    /// Unknown flags, or flags for which the tunnel is not configured.
    Flags,
    /// The tunnel cannot carry the inner packet's type.
    InnerPacketType,
    /// Malformed options.
    Options,
    /// The segment routing header has segments left.
    Segments,
}

/// State of the parser after IP and UDP.
pub(crate) struct ParserState<'a> {
    pub(crate) tunnel: Tunnel,
    /// The tunnel header and its payload.
    pub(crate) data: &'a [u8],
    /// Offset of `data` in the frame.
    pub(crate) at: usize,
}

impl<'a> ParserState<'a> {
    /// Makes the result: the outer headers end after `len` bytes of `data`, and a packet of this type follows.
    pub(crate) fn finish(self, len: usize, packet_type: u32) -> Result<Popped<'a>, PopError> {
        let inner = self.data.get(len..).ok_or(PopError::Short)?;
        let header = self.at + len;
        let end = header + inner.len();
        Ok(Popped { tunnel: self.tunnel, options: &[], packet_type, header, end })
    }
}
