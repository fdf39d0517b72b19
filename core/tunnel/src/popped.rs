//! What is read of an outer header, and why one is refused.

use flow::Tunnel;

/// What an outer header says.
#[derive(Clone, Debug, PartialEq)]
pub struct Popped<'a> {
    /// Its fields.
    pub tunnel: Tunnel,
    /// Options of Geneve, as they stand in the header.
    pub options: &'a [u8],
    /// The type of the inner packet.
    pub packet_type: u32,
    /// How many bytes to take off in front of the inner packet.
    pub header: usize,
    /// Where the inner packet ends: padding of a short outer frame follows.
    pub end: usize,
}

/// Why a header is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PopError {
    /// The frame ends within the header, or its lengths are not true.
    Short,
    /// It is no IP packet.
    NotIp,
    /// A version that is not known.
    Version,
    /// IPv4 options.
    IpOptions,
    /// A fragment.
    Fragment,
    /// A checksum is wrong.
    Checksum,
    /// It is of another protocol than the tunnel.
    Protocol,
    /// Flags that nobody knows the meaning of, or that the tunnel is not configured for.
    Flags,
    /// It carries something that the tunnel cannot carry.
    Carried,
    /// Options that are not well-formed.
    Options,
    /// Segments are left of the path.
    Segments,
}

/// What is behind the transport header, while it is being read.
pub(crate) struct Reading<'a> {
    pub(crate) tunnel: Tunnel,
    /// The tunnel's own header and what it carries.
    pub(crate) data: &'a [u8],
    /// Where that starts in the frame.
    pub(crate) at: usize,
}

impl<'a> Reading<'a> {
    /// The header ends after `len` bytes of `data`; a packet of this type follows.
    pub(crate) fn ends(self, len: usize, packet_type: u32) -> Result<Popped<'a>, PopError> {
        let inner = self.data.get(len..).ok_or(PopError::Short)?;
        let header = self.at + len;
        let end = header + inner.len();
        Ok(Popped { tunnel: self.tunnel, options: &[], packet_type, header, end })
    }
}
