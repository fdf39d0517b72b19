//! A sampled packet, with its path through the bridge as far as it is known.

use crate::write::WriteBigEndian;
use std::net::Ipv4Addr;

/// Kind of a sample: a sampled packet.
pub(super) const FLOW_SAMPLE: u32 = 1;
/// Kind of a sample: counters.
pub(super) const COUNTERS_SAMPLE: u32 = 2;

/// Formats of the records of a sampled packet.
mod format {
    pub const HEADER: u32 = 1;
    pub const SWITCH: u32 = 1001;
    pub const MPLS: u32 = 1006;
    pub const TUNNEL_EGRESS: u32 = 1023;
    pub const TUNNEL_INGRESS: u32 = 1024;
    pub const VNI_EGRESS: u32 = 1029;
    pub const VNI_INGRESS: u32 = 1030;
}

/// Header protocol: Ethernet.
const ETHERNET: u32 = 1;
/// Bytes of the frame check sequence, which sampled packets do not contain.
const FCS: u32 = 4;
/// The bit of a label stack entry that marks the last one.
const BOTTOM: u32 = 0x100;

/// Where a packet is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Sent to the interface with this index.
    Interface(u32),
    /// Dropped for an unknown reason.
    Dropped,
    /// Sent to this many ports; 1: a port without an interface index.
    Ports(u32),
}

impl Output {
    /// The word that samples contain (sFlow version 5, "Input/output port information").
    pub fn word(self) -> u32 {
        match self {
            Output::Interface(index) => index & 0x3fff_ffff,
            Output::Dropped => 0x4000_0000 | 256,
            Output::Ports(ports) => 0x8000_0000 | ports & 0x3fff_ffff,
        }
    }

    /// Decodes the word of a sample.
    pub fn of_word(word: u32) -> Output {
        match word >> 30 {
            0 if word != 0 => Output::Interface(word),
            2 => Output::Ports(word & 0x3fff_ffff),
            _ => Output::Dropped,
        }
    }

    /// Whether there is exactly one output.
    pub fn is_single(self) -> bool {
        matches!(self, Output::Interface(_) | Output::Ports(1))
    }
}

/// The outer IPv4 header of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OuterHeader {
    /// The protocol; 0: unknown.
    pub protocol: u8,
    /// Source.
    pub src: Ipv4Addr,
    /// Destination.
    pub dst: Ipv4Addr,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// TOS.
    pub tos: u8,
    /// The key or the network identifier; 0: none.
    pub key: u64,
}

/// A sampled packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// The first bytes of the packet.
    pub header: &'a [u8],
    /// Length of the packet in bytes.
    pub length: u32,
    /// Interface index of the port that received the packet; 0: unknown.
    pub input: u32,
    /// Where the packet is sent.
    pub output: Output,
    /// VLAN tag (TCI) when received.
    pub in_tci: u16,
    /// VLAN tag (TCI) when sent.
    pub out_tci: u16,
    /// The tunnel through which the packet was received.
    pub in_tunnel: Option<OuterHeader>,
    /// The tunnel through which the packet is sent.
    pub out_tunnel: Option<OuterHeader>,
    /// MPLS label stack when sent, the outermost label first.
    pub labels: Vec<u32>,
}

/// A record: its format and its content.
pub(super) type Record = (u32, Vec<u8>);

pub(super) fn put_record(body: &mut Vec<u8>, (format, content): &Record) {
    body.u32(*format);
    body.u32(content.len() as u32);
    body.bytes(content);
}

/// Appends zeros until the length is a multiple of 4 bytes.
pub(super) fn pad(content: &mut Vec<u8>) {
    content.resize(content.len().next_multiple_of(4), 0);
}

impl Sample<'_> {
    /// The records of the sample, with at most `header` bytes of the packet.
    pub(super) fn records(&self, header: usize) -> Vec<Record> {
        let mut records = vec![(format::SWITCH, self.switch()), (format::HEADER, self.bytes(header))];
        let single = self.output.is_single();
        if single && !self.labels.is_empty() {
            records.push((format::MPLS, self.mpls()));
        }
        if let Some(outer) = self.out_tunnel.filter(|_| single) {
            put_tunnel(&mut records, &outer, [format::VNI_EGRESS, format::TUNNEL_EGRESS]);
        }
        if let Some(outer) = self.in_tunnel {
            put_tunnel(&mut records, &outer, [format::VNI_INGRESS, format::TUNNEL_INGRESS]);
        }
        records
    }

    fn switch(&self) -> Vec<u8> {
        let mut content = Vec::new();
        for tci in [self.in_tci, self.out_tci] {
            content.u32(u32::from(tci & 0xfff));
            content.u32(u32::from(tci >> 13));
        }
        content
    }

    fn bytes(&self, header: usize) -> Vec<u8> {
        let header = &self.header[..self.header.len().min(header)];
        let mut content = Vec::new();
        content.u32(ETHERNET);
        content.u32(self.length.saturating_add(FCS));
        content.u32(FCS);
        content.u32(header.len() as u32);
        content.bytes(header);
        pad(&mut content);
        content
    }

    fn mpls(&self) -> Vec<u8> {
        let mut content = Vec::new();
        // The next hop, which is unknown: the IPv4 address 0.
        content.u32(1);
        content.u32(0);
        // The length of the label stack when received: not reported, because the packet's bytes contain the stack.
        content.u32(0);
        content.u32(self.labels.len() as u32);
        for (i, label) in self.labels.iter().enumerate() {
            let last = i + 1 == self.labels.len();
            content.u32(label & !BOTTOM | if last { BOTTOM } else { 0 });
        }
        content
    }
}

fn put_tunnel(records: &mut Vec<Record>, outer: &OuterHeader, [vni, tunnel]: [u32; 2]) {
    if outer.key != 0 {
        let mut content = Vec::new();
        content.u32(outer.key as u32);
        records.push((vni, content));
    }
    let mut content = Vec::new();
    // The length of the outer packet is not known yet.
    content.u32(0);
    content.u32(u32::from(outer.protocol));
    content.bytes(&outer.src.octets());
    content.bytes(&outer.dst.octets());
    content.u32(u32::from(outer.src_port));
    content.u32(u32::from(outer.dst_port));
    // TCP flags.
    content.u32(0);
    content.u32(u32::from(outer.tos));
    records.push((tunnel, content));
}
