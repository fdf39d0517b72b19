//! Encodes captured packets as pcapng: each port is an interface, and the comment of a packet contains the switch's metadata.

use crate::names::Names;
use datapath::capture::{Capture, Record, Side};
use pcapng::{Direction, ETHERNET, PacketBlock, RAW_IP, Writer};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Converts captured packets to pcapng blocks.
pub(crate) struct Encoder<'a> {
    writer: Writer,
    names: &'a Names,
    /// The numbers of interfaces by port and link type.
    interfaces: BTreeMap<(u32, u16), u32>,
    snaplen: u32,
    /// Time of the last packet, in ns since 1970.
    last: u64,
}

impl<'a> Encoder<'a> {
    /// Begins with the interfaces of the ports that the capture's specification lists, so that a reader can show them before the first packet.
    pub(crate) fn new(capture: &Capture, names: &'a Names) -> Encoder<'a> {
        let application = concat!("sluiced ", env!("CARGO_PKG_VERSION"));
        let snaplen = u32::try_from(capture.spec().snaplen).unwrap_or(u32::MAX);
        let (writer, interfaces) = (Writer::new(application), BTreeMap::new());
        let mut encoder = Encoder { writer, names, interfaces, snaplen, last: 0 };
        for &port in &capture.spec().ports {
            encoder.interface(port, ETHERNET);
        }
        encoder
    }

    fn interface(&mut self, port: u32, link: u16) -> u32 {
        if let Some(&number) = self.interfaces.get(&(port, link)) {
            return number;
        }
        let unknown = format!("port {port}");
        let name = self.names.ports.get(&port).unwrap_or(&unknown);
        let description = format!("port {port} of {}", self.names.datapath);
        let number = self.writer.interface(name, &description, link, self.snaplen);
        self.interfaces.insert((port, link), number);
        number
    }

    /// Encodes the packets that wait in the capture.
    pub(crate) fn take(&mut self, capture: &Capture) {
        for (record, bytes) in capture.take().iter() {
            let interface = self.interface(record.port, if record.is_l3 { RAW_IP } else { ETHERNET });
            let direction = if record.side.is_inbound() { Direction::Inbound } else { Direction::Outbound };
            let comment = comment(record);
            self.last = record.at.0;
            self.writer.packet(&PacketBlock {
                interface,
                at: record.at.0,
                bytes,
                len: record.len,
                direction,
                comment: &comment,
            });
        }
    }

    /// Encodes the last packets, and then the statistics, under the first interface.
    pub(crate) fn finish(&mut self, capture: &Capture) {
        self.take(capture);
        if self.writer.interfaces() == 0 {
            self.writer.interface(&self.names.datapath, "no packet was captured", ETHERNET, self.snaplen);
        }
        let n = capture.counts();
        let comment = format!(
            "wanted={} kept={} sampled_out={} over_rate={} lost={}",
            n.wanted, n.kept, n.sampled_out, n.over_rate, n.lost
        );
        self.writer.statistics(0, self.last, (n.wanted, n.kept, n.lost), &comment);
    }

    pub(crate) fn waiting(&self) -> usize {
        self.writer.waiting().len()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.writer.waiting()
    }

    pub(crate) fn consume(&mut self, n: usize) {
        self.writer.consume(n);
    }
}

/// The metadata of a packet as words `name=value`.
fn comment(record: &Record) -> String {
    let mut out = match record.side {
        Side::Rx => "side=rx".to_owned(),
        Side::Tx => "side=tx".to_owned(),
        Side::DroppedIn(reason) | Side::DroppedOut(reason) => format!("side=drop reason={}", reason.name()),
    };
    if record.recirc_id != 0 {
        let _ = write!(out, " recirc_id={:#x}", record.recirc_id);
    }
    if record.dp_hash != 0 {
        let _ = write!(out, " dp_hash={:#x}", record.dp_hash);
    }
    if let Some(ufid) = record.megaflow {
        let _ = write!(out, " megaflow={ufid}");
    }
    if record.upcall {
        out.push_str(" upcall");
    }
    out
}
