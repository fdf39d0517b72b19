//! The result of reading an outer header, and errors.

use flow::Tunnel;

/// A parsed outer header.
#[derive(Clone, Debug, PartialEq)]
pub struct Popped<'a> {
    /// Its fields.
    pub tunnel: Tunnel,
    /// Geneve options, as bytes.
    pub options: &'a [u8],
    /// The type of the inner packet.
    pub packet_type: u32,
    /// Number of bytes to remove in front of the inner packet.
    pub header: usize,
    /// End of the inner packet; padding of a short outer frame follows.
    pub end: usize,
}

/// Why a header is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PopError {
    /// The frame ends within the header, or a length field is wrong.
    Short,
    /// Not an IP packet.
    NotIp,
    /// Unknown version.
    Version,
    /// IPv4 options.
    IpOptions,
    /// A fragment.
    Fragment,
    /// A checksum is wrong.
    Checksum,
    /// It is of another protocol than the tunnel.
    Protocol,
    /// Unknown flags, or flags for which the tunnel is not configured.
    Flags,
    /// The tunnel cannot carry the inner packet's type.
    Carried,
    /// Malformed options.
    Options,
    /// The path has segments left.
    Segments,
}

/// State of a parser after the transport header.
pub(crate) struct Reading<'a> {
    pub(crate) tunnel: Tunnel,
    /// The tunnel's own header and its payload.
    pub(crate) data: &'a [u8],
    /// Offset of `data` in the frame.
    pub(crate) at: usize,
}

impl<'a> Reading<'a> {
    /// Returns the result: the header ends after `len` bytes of `data`, and a packet of this type follows.
    pub(crate) fn ends(self, len: usize, packet_type: u32) -> Result<Popped<'a>, PopError> {
        let inner = self.data.get(len..).ok_or(PopError::Short)?;
        let header = self.at + len;
        let end = header + inner.len();
        Ok(Popped { tunnel: self.tunnel, options: &[], packet_type, header, end })
    }
}
