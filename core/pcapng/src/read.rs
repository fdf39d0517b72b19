//! The reader: splits a stream of bytes into blocks, and parses the block types that [`Writer`](crate::Writer) writes.
//!
//! It only reads sections in little-endian byte order. Every length is checked, and a block has at most [`BLOCK_MAX`] bytes.

use crate::format::{
    COMMENT, EPB_FLAGS, IF_NAME, INTERFACE, ISB_FILTERACCEPT, ISB_IFDROP, ISB_IFRECV, MAGIC, PACKET, SECTION,
    STATISTICS,
};

/// Maximum length of a block in bytes: several times a packet of 64 KB with its options.
pub const BLOCK_MAX: usize = 1 << 20;

/// Why bytes are not valid blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockError {
    /// A length is invalid, or longer than [`BLOCK_MAX`].
    Length,
    /// A section does not begin with the magic number in little-endian byte order.
    Magic,
}

impl std::fmt::Display for BlockError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            BlockError::Length => "invalid block length",
            BlockError::Magic => "not a pcapng file in little-endian byte order",
        })
    }
}

/// A packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Number of its interface.
    pub interface: u32,
    /// Time stamp, in units of the interface.
    pub at: u64,
    /// The captured bytes.
    pub bytes: &'a [u8],
    /// The packet's original length in bytes.
    pub len: u32,
    /// `epb_flags`: bits 0 and 1 are 1 for a received packet, 2 for a sent one.
    pub flags: u32,
    /// Its comment.
    pub comment: &'a str,
}

/// Statistics of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics<'a> {
    /// Number of the interface.
    pub interface: u32,
    /// Number of packets received.
    pub received: u64,
    /// Number of packets that the filter accepted.
    pub accepted: u64,
    /// Number of packets that were lost.
    pub lost: u64,
    /// A comment.
    pub comment: &'a str,
}

/// A block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block<'a> {
    /// The beginning of a section.
    Section,
    /// An interface: its name and link type.
    Interface(&'a str, u16),
    /// A packet.
    Packet(Packet<'a>),
    /// Statistics of an interface.
    Statistics(Statistics<'a>),
    /// A block of another type, or one whose body is malformed.
    Other,
}

/// Splits a stream of bytes, which arrives in pieces, into blocks.
#[derive(Debug, Default)]
pub struct BlockSplitter {
    bytes: Vec<u8>,
    /// Number of bytes at the beginning of `bytes` that belong to blocks returned already.
    done: usize,
}

impl BlockSplitter {
    /// Appends bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.done);
        self.done = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete block: its bytes and its parsed content. `None`: more bytes are needed.
    pub fn next_block(&mut self) -> Result<Option<(&[u8], Block<'_>)>, BlockError> {
        let rest = &self.bytes[self.done..];
        let (Some(kind), Some(len)) = (word(rest, 0), word(rest, 4)) else { return Ok(None) };
        let len = len as usize;
        if kind == SECTION && word(rest, 8).is_some_and(|magic| magic != MAGIC) {
            return Err(BlockError::Magic);
        }
        if !(12..=BLOCK_MAX).contains(&len) || !len.is_multiple_of(4) {
            return Err(BlockError::Length);
        }
        let start = self.done;
        if rest.len() < len {
            return Ok(None);
        }
        if word(rest, len - 4) != Some(len as u32) {
            return Err(BlockError::Length);
        }
        self.done += len;
        let block = &self.bytes[start..start + len];
        Ok(Some((block, parse(kind, &block[8..len - 4]))))
    }

    /// Number of bytes that belong to an incomplete block.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.done
    }
}

fn parse(kind: u32, body: &[u8]) -> Block<'_> {
    let parsed = match kind {
        SECTION => Some(Block::Section),
        INTERFACE => interface(body),
        PACKET => packet(body).map(Block::Packet),
        STATISTICS => statistics(body).map(Block::Statistics),
        _ => None,
    };
    parsed.unwrap_or(Block::Other)
}

fn interface(body: &[u8]) -> Option<Block<'_>> {
    let link = u16::from_le_bytes(body.get(..2)?.try_into().ok()?);
    let name =
        options(body.get(8..)?).find(|(code, _)| *code == IF_NAME).map_or("", |(_, value)| text(value));
    Some(Block::Interface(name, link))
}

fn packet(body: &[u8]) -> Option<Packet<'_>> {
    let kept = word(body, 12)? as usize;
    let end = 20usize.checked_add(kept)?;
    let bytes = body.get(20..end)?;
    let mut packet = Packet {
        interface: word(body, 0)?,
        at: time(body, 4)?,
        bytes,
        len: word(body, 16)?,
        ..Packet::default()
    };
    for (code, value) in options(body.get(end.next_multiple_of(4)..).unwrap_or_default()) {
        match code {
            COMMENT => packet.comment = text(value),
            EPB_FLAGS => packet.flags = word(value, 0)?,
            _ => {}
        }
    }
    Some(packet)
}

fn statistics(body: &[u8]) -> Option<Statistics<'_>> {
    let mut out = Statistics { interface: word(body, 0)?, ..Statistics::default() };
    let number = |value: &[u8]| Some(u64::from_le_bytes(value.get(..8)?.try_into().ok()?));
    for (code, value) in options(body.get(12..)?) {
        match code {
            COMMENT => out.comment = text(value),
            ISB_IFRECV => out.received = number(value)?,
            ISB_IFDROP => out.lost = number(value)?,
            ISB_FILTERACCEPT => out.accepted = number(value)?,
            _ => {}
        }
    }
    Some(out)
}

/// Code and value of each option, up to the first incomplete one.
fn options(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let code = u16::from_le_bytes(rest.get(..2)?.try_into().ok()?);
        let len = usize::from(u16::from_le_bytes(rest.get(2..4)?.try_into().ok()?));
        let value = rest.get(4..4 + len)?;
        rest = rest.get((4 + len).next_multiple_of(4)..).unwrap_or_default();
        (code != 0).then_some((code, value))
    })
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or("")
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn time(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from(word(bytes, at)?) << 32 | u64::from(word(bytes, at + 4)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Direction, ETHERNET, PacketBlock, Writer};
    use proptest::prelude::*;

    fn blocks(bytes: &[u8], pieces: usize) -> Vec<String> {
        let (mut reader, mut out) = (BlockSplitter::default(), Vec::new());
        for piece in bytes.chunks(pieces) {
            reader.push(piece);
            while let Some((_, block)) = reader.next_block().unwrap() {
                out.push(format!("{block:?}"));
            }
        }
        assert_eq!(reader.left(), 0);
        out
    }

    #[test]
    fn what_is_written_is_read() {
        let mut writer = Writer::new("test 1");
        let port = writer.interface("p1", "port 1", ETHERNET, 96);
        let (at, comment) = (5_000_000_000_000_000_007, "side=rx");
        let direction = Direction::Outbound;
        writer.packet(&PacketBlock {
            interface: port,
            at,
            bytes: &[1, 2, 3, 4, 5],
            len: 60,
            direction,
            comment,
        });
        writer.statistics(port, at, (9, 8, 1), "");
        let packet = Packet { interface: 0, at, bytes: &[1, 2, 3, 4, 5], len: 60, flags: 2, comment };
        let statistics = Statistics { interface: 0, received: 9, accepted: 8, lost: 1, comment: "" };
        let wanted =
            [Block::Section, Block::Interface("p1", 1), Block::Packet(packet), Block::Statistics(statistics)];
        let wanted = wanted.map(|block| format!("{block:?}"));
        for pieces in [1, 7, 1000] {
            assert_eq!(blocks(writer.waiting(), pieces), wanted);
        }
        writer.consume(usize::MAX);
        assert!(writer.waiting().is_empty());
    }

    #[test]
    fn impossible_lengths_are_refused() {
        let refused = |bytes: &[u8]| {
            let mut reader = BlockSplitter::default();
            reader.push(bytes);
            reader.next_block().map(|_| ()).unwrap_err()
        };
        assert_eq!(refused(&[6, 0, 0, 0, 8, 0, 0, 0]), BlockError::Length);
        assert_eq!(refused(&[6, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]), BlockError::Length);
        assert_eq!(refused(&[6, 0, 0, 0, 12, 0, 0, 0, 16, 0, 0, 0]), BlockError::Length);
        assert_eq!(
            refused(&[0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, 28, 0x1a, 0x2b, 0x3c, 0x4d]),
            BlockError::Magic
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0u32..8) {
            parse(kind, &bytes);
            let mut whole = Vec::new();
            let len = (bytes.len().next_multiple_of(4) + 12) as u32;
            whole.extend(kind.to_le_bytes());
            whole.extend(len.to_le_bytes());
            whole.extend(&bytes);
            whole.resize(len as usize - 4, 0);
            whole.extend(len.to_le_bytes());
            let mut reader = BlockSplitter::default();
            reader.push(&whole);
            prop_assert!(reader.next_block().unwrap().is_some());
            let mut reader = BlockSplitter::default();
            reader.push(&bytes);
            while let Ok(Some(_)) = reader.next_block() {}
        }
    }
}
