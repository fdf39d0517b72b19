//! Captures the packets of one direction for a short time.

use crate::appctl::{ControlSession, Failure};
use ovsdb::Json;
use pcapng::{Block, Blocks};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Packets of each direction that are captured in a second: enough to count them, at a low cost.
const RATE: u64 = 2000;
/// How long the daemon may take to send the remaining packets.
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// What was seen of one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Packets by port and where they were seen: `rx`, `tx` or the name of a drop reason.
    pub counts: BTreeMap<(String, String), u64>,
    /// The first packet that was received: its port, its bytes, its megaflow.
    pub first: Option<First>,
    /// More packets came than were captured.
    pub is_part: bool,
}

/// A received packet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct First {
    pub datapath: String,
    pub port: String,
    pub bytes: Vec<u8>,
    pub megaflow: Option<String>,
}

impl Seen {
    /// Packets that were seen there, at all ports.
    pub fn sum(&self, place: &str) -> u64 {
        self.counts.iter().filter(|((_, at), _)| at == place).map(|(_, n)| n).sum()
    }

    /// The ports at which packets were seen there.
    pub fn ports(&self, place: &str) -> Vec<&str> {
        self.counts.keys().filter(|(_, at)| at == place).map(|(port, _)| port.as_str()).collect()
    }

    /// Drops: port, reason, number.
    pub fn drops(&self) -> Vec<(&str, &str, u64)> {
        let drops = self.counts.iter().filter(|((_, at), _)| at != "rx" && at != "tx");
        drops.map(|((port, reason), n)| (port.as_str(), reason.as_str(), *n)).collect()
    }

    /// Adds what was seen in another datapath, which has other ports. The first packet of the first one counts.
    fn merge(&mut self, other: Seen) {
        self.counts.extend(other.counts);
        self.first = self.first.take().or(other.first);
        self.is_part |= other.is_part;
    }

    fn add(&mut self, (datapath, port): (&str, &str), packet: &pcapng::Packet<'_>) {
        let words: Vec<(&str, &str)> =
            packet.comment.split(' ').filter_map(|word| word.split_once('=')).collect();
        let word = |name| words.iter().find(|(n, _)| *n == name).map(|(_, value)| *value);
        let place = word("reason").or(word("side")).unwrap_or("rx");
        *self.counts.entry((port.to_owned(), place.to_owned())).or_default() += 1;
        let known = word("megaflow").map(str::to_owned);
        match &mut self.first {
            // The first packet of a flow has no megaflow yet.
            Some(first) if first.megaflow.is_none() && first.port == port && place == "rx" => {
                first.megaflow = known
            }
            None if place == "rx" => {
                let (datapath, port) = (datapath.to_owned(), port.to_owned());
                self.first = Some(First { datapath, port, bytes: packet.bytes.to_vec(), megaflow: known });
            }
            _ => {}
        }
    }

    /// As JSON.
    pub fn object(&self) -> Json {
        let counts = self.counts.iter();
        let counts =
            counts.map(|((port, place), n)| serde_json::json!({ "port": port, "seen": place, "packets": n }));
        serde_json::json!({ "counts": counts.collect::<Vec<_>>(), "more": self.is_part })
    }
}

/// Captures that run: the datapath and the socket of each.
pub struct Watch(Vec<(String, UnixStream)>);

impl Watch {
    /// Starts to capture packets of this flow in all these datapaths.
    pub fn start(session: &mut ControlSession, datapaths: &[String], flow: &str) -> Result<Watch, Failure> {
        let mut one = |datapath: &String| {
            let words = [format!("datapath={datapath}"), format!("flow={flow}"), format!("rate={RATE}")];
            let reply = session.ask_about("capture/start", &words)?;
            let path = reply["socket"].as_str().unwrap_or_default();
            let stream = UnixStream::connect(path)
                .map_err(|e| Failure::Fatal(format!("{path}: {}", runtime::error_text(&e))))?;
            Ok((datapath.clone(), stream))
        };
        Ok(Watch(datapaths.iter().map(&mut one).collect::<Result<_, Failure>>()?))
    }

    /// Ends the captures and returns what was seen.
    pub fn end(self) -> Result<Seen, Failure> {
        let mut all = Seen::default();
        for (datapath, stream) in self.0 {
            let seen = rest(&datapath, stream);
            all.merge(seen.map_err(|e| Failure::Fatal(format!("the capture: {}", runtime::error_text(&e))))?);
        }
        Ok(all)
    }
}

/// Ends a capture and reads what is left of it.
fn rest(datapath: &str, mut stream: UnixStream) -> io::Result<Seen> {
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(DRAIN_TIME))?;
    let (mut blocks, mut seen, mut ports) = (Blocks::default(), Seen::default(), Vec::new());
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
                Block::Statistics(s) => seen.is_part = s.received > s.accepted,
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
        let mut seen = Seen::default();
        let mut add = |port, comment| {
            seen.add(("dp", port), &pcapng::Packet { bytes: &[1], comment, ..pcapng::Packet::default() })
        };
        add("p1", "side=rx upcall");
        add("p1", "side=rx megaflow=17");
        add("p1", "side=drop reason=datapath_drop_meter");
        add("p2", "side=tx");
        assert_eq!((seen.sum("rx"), seen.ports("tx")), (2, vec!["p2"]));
        assert_eq!(seen.drops(), [("p1", "datapath_drop_meter", 1)]);
        let mut other = Seen::default();
        let packet = pcapng::Packet { bytes: &[2], comment: "side=rx", ..pcapng::Packet::default() };
        other.add(("other", "p3"), &packet);
        seen.merge(other);
        assert_eq!((seen.sum("rx"), seen.ports("rx")), (3, vec!["p1", "p3"]));
        assert_eq!(
            seen.first,
            Some(First {
                datapath: "dp".into(),
                port: "p1".into(),
                bytes: vec![1],
                megaflow: Some("17".into())
            })
        );
    }
}
