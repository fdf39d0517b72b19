//! The capture file format pcapng (draft-ietf-opsawg-pcapng), in little-endian byte order: a writer, and a reader of blocks.
//!
//! Time stamps have a resolution of one nanosecond.

mod format;
mod read;
mod write;

pub use format::{ETHERNET, RAW_IP};
pub use read::{Block, BlockError, BlockSplitter, Packet, Statistics};
pub use write::{Direction, PacketBlock, Writer};
