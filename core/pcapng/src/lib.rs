//! The capture file format pcapng (draft-ietf-opsawg-pcapng), in little-endian byte order: a writer, and a reader of blocks.
//!
//! Times have a resolution of nanoseconds.

mod read;
mod write;

pub use read::{Block, BlockError, Blocks, Packet, Statistics};
pub use write::{Direction, PacketBlock, Writer};

/// Link type of Ethernet frames.
pub const ETHERNET: u16 = 1;
/// Link type of packets that begin with an IP header.
pub const RAW_IP: u16 = 101;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
/// The value that tells the byte order of a section.
const MAGIC: u32 = 0x1a2b_3c4d;

const COMMENT: u16 = 1;
const IF_NAME: u16 = 2;
const IF_DESCRIPTION: u16 = 3;
const IF_TSRESOL: u16 = 9;
const USER_APPLICATION: u16 = 4;
const EPB_FLAGS: u16 = 2;
const ISB_IFRECV: u16 = 4;
const ISB_IFDROP: u16 = 5;
const ISB_FILTERACCEPT: u16 = 6;
