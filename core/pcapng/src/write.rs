//! The writer: encodes blocks.

use crate::format::{
    COMMENT, EPB_FLAGS, IF_DESCRIPTION, IF_NAME, IF_TSRESOL, INTERFACE, ISB_FILTERACCEPT, ISB_IFDROP,
    ISB_IFRECV, MAGIC, PACKET, SECTION, STATISTICS, USER_APPLICATION,
};

/// The direction of a packet, from the interface's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The interface received it.
    Inbound,
    /// The interface sent it.
    Outbound,
}

/// A packet to be written.
#[derive(Clone, Copy, Debug)]
pub struct PacketBlock<'a> {
    /// The number of its interface, as [`Writer::interface`] returned it.
    pub interface: u32,
    /// Time stamp in nanoseconds since 1970.
    pub at: u64,
    /// The captured bytes.
    pub bytes: &'a [u8],
    /// The packet's original length in bytes.
    pub len: u32,
    /// Its direction.
    pub direction: Direction,
    /// A comment; empty: none.
    pub comment: &'a str,
}

/// Writes blocks into a buffer, from which the caller removes the bytes.
#[derive(Debug)]
pub struct Writer {
    out: Vec<u8>,
    interfaces: u32,
}

impl Writer {
    /// Begins a section. `application`: the name of the program that writes it.
    pub fn new(application: &str) -> Writer {
        let mut writer = Writer { out: Vec::new(), interfaces: 0 };
        writer.block(SECTION, |out| {
            out.extend(MAGIC.to_le_bytes());
            out.extend(1u16.to_le_bytes());
            out.extend(0u16.to_le_bytes());
            // The length of the section is not known in advance.
            out.extend(u64::MAX.to_le_bytes());
            option(out, USER_APPLICATION, application.as_bytes());
            end_options(out);
        });
        writer
    }

    /// Describes an interface and returns its number.
    pub fn interface(&mut self, name: &str, description: &str, link_type: u16, snaplen: u32) -> u32 {
        self.block(INTERFACE, |out| {
            out.extend(link_type.to_le_bytes());
            out.extend([0; 2]);
            out.extend(snaplen.to_le_bytes());
            option(out, IF_NAME, name.as_bytes());
            option(out, IF_DESCRIPTION, description.as_bytes());
            option(out, IF_TSRESOL, &[9]);
            end_options(out);
        });
        self.interfaces += 1;
        self.interfaces - 1
    }

    /// Writes a packet.
    pub fn packet(&mut self, packet: &PacketBlock<'_>) {
        self.block(PACKET, |out| {
            out.extend(packet.interface.to_le_bytes());
            time(out, packet.at);
            out.extend((packet.bytes.len() as u32).to_le_bytes());
            out.extend(packet.len.to_le_bytes());
            out.extend(packet.bytes);
            pad(out, packet.bytes.len());
            let direction: u32 = match packet.direction {
                Direction::Inbound => 1,
                Direction::Outbound => 2,
            };
            option(out, EPB_FLAGS, &direction.to_le_bytes());
            option(out, COMMENT, packet.comment.as_bytes());
            end_options(out);
        });
    }

    /// Writes the statistics of an interface: numbers of packets received, accepted by the filter, and lost.
    pub fn statistics(
        &mut self,
        interface: u32,
        at: u64,
        (received, accepted, lost): (u64, u64, u64),
        comment: &str,
    ) {
        self.block(STATISTICS, |out| {
            out.extend(interface.to_le_bytes());
            time(out, at);
            option(out, COMMENT, comment.as_bytes());
            option(out, ISB_IFRECV, &received.to_le_bytes());
            option(out, ISB_IFDROP, &lost.to_le_bytes());
            option(out, ISB_FILTERACCEPT, &accepted.to_le_bytes());
            end_options(out);
        });
    }

    /// Number of interfaces described so far.
    pub fn interfaces(&self) -> u32 {
        self.interfaces
    }

    /// The bytes in the buffer.
    pub fn waiting(&self) -> &[u8] {
        &self.out
    }

    /// Removes the first `n` bytes from the buffer.
    pub fn consume(&mut self, n: usize) {
        self.out.drain(..n.min(self.out.len()));
    }

    /// Writes a block of this type, with its length before and after the bytes that `body` writes.
    fn block(&mut self, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
        let start = self.out.len();
        self.out.extend(kind.to_le_bytes());
        self.out.extend([0; 4]);
        body(&mut self.out);
        let len = ((self.out.len() - start + 4) as u32).to_le_bytes();
        self.out[start + 4..start + 8].copy_from_slice(&len);
        self.out.extend(len);
    }
}

fn time(out: &mut Vec<u8>, at: u64) {
    out.extend(((at >> 32) as u32).to_le_bytes());
    out.extend((at as u32).to_le_bytes());
}

fn pad(out: &mut Vec<u8>, len: usize) {
    out.resize(out.len() + len.next_multiple_of(4) - len, 0);
}

/// Writes an option. A value that is too long for an option is truncated; an empty value is not written.
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX) - 3)];
    if value.is_empty() {
        return;
    }
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    out.extend(value);
    pad(out, value.len());
}

fn end_options(out: &mut Vec<u8>) {
    out.extend([0; 4]);
}
