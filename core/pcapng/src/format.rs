//! Numbers of the file format.

/// Link type of Ethernet frames.
pub const ETHERNET: u16 = 1;
/// Link type of packets that begin with an IP header.
pub const RAW_IP: u16 = 101;

pub(crate) const SECTION: u32 = 0x0a0d_0d0a;
pub(crate) const INTERFACE: u32 = 1;
pub(crate) const STATISTICS: u32 = 5;
pub(crate) const PACKET: u32 = 6;
/// The value from which a reader detects the byte order of a section.
pub(crate) const MAGIC: u32 = 0x1a2b_3c4d;

pub(crate) const COMMENT: u16 = 1;
pub(crate) const IF_NAME: u16 = 2;
pub(crate) const IF_DESCRIPTION: u16 = 3;
pub(crate) const IF_TSRESOL: u16 = 9;
pub(crate) const USER_APPLICATION: u16 = 4;
pub(crate) const EPB_FLAGS: u16 = 2;
pub(crate) const ISB_IFRECV: u16 = 4;
pub(crate) const ISB_IFDROP: u16 = 5;
pub(crate) const ISB_FILTERACCEPT: u16 = 6;
