//! Captures the packets of one direction for a short time.

use crate::appctl::{ControlSession, Failure};
use ovsdb::Json;
use pcapng::{Block, BlockSplitter};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Maximum number of packets that are captured per second in each direction: enough to see the ports and drops of a flow, at a low cost
/// for the switch.
const RATE: u64 = 2000;
/// Time limit for the daemon to send the remaining packets.
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// The captured packets of one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectionCapture {
    /// Number of packets by port and capture point: `rx`, `tx` or the name of a drop reason.
    pub counts: BTreeMap<(String, String), u64>,
    /// The first packet that was received.
    pub first: Option<FirstPacket>,
    /// Whether only a part of the packets was captured, because there were too many.
    pub is_incomplete: bool,
}

/// A received packet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FirstPacket {
    pub datapath: String,
    pub port: String,
    pub bytes: Vec<u8>,
    pub megaflow: Option<String>,
}

impl DirectionCapture {
    /// Number of packets at a capture point, over all ports.
    pub fn sum(&self, point: &str) -> u64 {
        self.counts.iter().filter(|((_, at), _)| at == point).map(|(_, n)| n).sum()
    }

    /// The ports that had packets at a capture point.
    pub fn ports(&self, point: &str) -> Vec<&str> {
        self.counts.keys().filter(|(_, at)| at == point).map(|(port, _)| port.as_str()).collect()
    }

    /// Drops: port, reason, number.
    pub fn drops(&self) -> Vec<(&str, &str, u64)> {
        let drops = self.counts.iter().filter(|((_, at), _)| at != "rx" && at != "tx");
        drops.map(|((port, reason), n)| (port.as_str(), reason.as_str(), *n)).collect()
    }

    /// Adds the packets that were captured in another datapath, which has other ports. The first packet is kept if there is one.
    fn merge(&mut self, other: DirectionCapture) {
        self.counts.extend(other.counts);
        self.first = self.first.take().or(other.first);
        self.is_incomplete |= other.is_incomplete;
    }

    fn add(&mut self, (datapath, port): (&str, &str), packet: &pcapng::Packet<'_>) {
        let words: Vec<(&str, &str)> =
            packet.comment.split(' ').filter_map(|word| word.split_once('=')).collect();
        let word = |name| words.iter().find(|(n, _)| *n == name).map(|(_, value)| *value);
        let point = word("reason").or(word("side")).unwrap_or("rx");
        *self.counts.entry((port.to_owned(), point.to_owned())).or_default() += 1;
        let known = word("megaflow").map(str::to_owned);
        match &mut self.first {
            // The first packet of a flow has no megaflow yet, so take the megaflow of a later packet.
            Some(first) if first.megaflow.is_none() && first.port == port && point == "rx" => {
                first.megaflow = known
            }
            None if point == "rx" => {
                let (datapath, port) = (datapath.to_owned(), port.to_owned());
                self.first =
                    Some(FirstPacket { datapath, port, bytes: packet.bytes.to_vec(), megaflow: known });
            }
            _ => {}
        }
    }

    /// As JSON.
    pub fn object(&self) -> Json {
        let counts = self.counts.iter();
        let counts = counts
            .map(|((port, point), n)| serde_json::json!({ "port": port, "point": point, "packets": n }));
        serde_json::json!({ "counts": counts.collect::<Vec<_>>(), "incomplete": self.is_incomplete })
    }
}

/// Running captures: the datapath and the socket of each.
pub struct Watch(Vec<(String, UnixStream)>);

impl Watch {
    /// Starts to capture packets of a flow in all given datapaths.
    pub fn start(session: &mut ControlSession, datapaths: &[String], flow: &str) -> Result<Watch, Failure> {
        let mut one = |datapath: &String| {
            let words = [format!("datapath={datapath}"), format!("flow={flow}"), format!("rate={RATE}")];
            let reply = session.ask_with_args("capture/start", &words)?;
            let path = reply["socket"].as_str().unwrap_or_default();
            let stream = UnixStream::connect(path)
                .map_err(|e| Failure::Fatal(format!("{path}: {}", runtime::error_text(&e))))?;
            Ok((datapath.clone(), stream))
        };
        Ok(Watch(datapaths.iter().map(&mut one).collect::<Result<_, Failure>>()?))
    }

    /// Ends the captures and returns the captured packets.
    pub fn end(self) -> Result<DirectionCapture, Failure> {
        let mut all = DirectionCapture::default();
        for (datapath, stream) in self.0 {
            let seen = finish_capture(&datapath, stream);
            all.merge(seen.map_err(|e| Failure::Fatal(format!("the capture: {}", runtime::error_text(&e))))?);
        }
        Ok(all)
    }
}

/// Ends a capture and reads its remaining packets.
fn finish_capture(datapath: &str, mut stream: UnixStream) -> io::Result<DirectionCapture> {
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(DRAIN_TIME))?;
    let (mut blocks, mut seen, mut ports) =
        (BlockSplitter::default(), DirectionCapture::default(), Vec::new());
    let (mut bytes, deadline) = (vec![0; 1 << 16], Instant::now() + DRAIN_TIME);
    while Instant::now() < deadline {
        let n = match stream.read(&mut bytes)? {
            0 => break,
            n => n,
        };
        blocks.push(&bytes[..n]);
        let invalid = |e: pcapng::BlockError| io::Error::new(ErrorKind::InvalidData, e.to_string());
        while let Some((_, block)) = blocks.next_block().map_err(invalid)? {
            match block {
                Block::Interface(name, _) => ports.push(name.to_owned()),
                Block::Packet(packet) => {
                    let port = ports.get(packet.interface as usize).map_or("?", String::as_str);
                    seen.add((datapath, port), &packet);
                }
                Block::Statistics(s) => seen.is_incomplete = s.received > s.accepted,
                _ => {}
            }
        }
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_counted_by_place() {
        let mut seen = DirectionCapture::default();
        let mut add = |port, comment| {
            seen.add(("dp", port), &pcapng::Packet { bytes: &[1], comment, ..pcapng::Packet::default() })
        };
        add("p1", "side=rx upcall");
        add("p1", "side=rx megaflow=17");
        add("p1", "side=drop reason=datapath_drop_meter");
        add("p2", "side=tx");
        assert_eq!((seen.sum("rx"), seen.ports("tx")), (2, vec!["p2"]));
        assert_eq!(seen.drops(), [("p1", "datapath_drop_meter", 1)]);
        let mut other = DirectionCapture::default();
        let packet = pcapng::Packet { bytes: &[2], comment: "side=rx", ..pcapng::Packet::default() };
        other.add(("other", "p3"), &packet);
        seen.merge(other);
        assert_eq!((seen.sum("rx"), seen.ports("rx")), (3, vec!["p1", "p3"]));
        assert_eq!(
            seen.first,
            Some(FirstPacket {
                datapath: "dp".into(),
                port: "p1".into(),
                bytes: vec![1],
                megaflow: Some("17".into())
            })
        );
    }
}
