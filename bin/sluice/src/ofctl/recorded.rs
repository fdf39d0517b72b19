//! Prints recorded OpenFlow messages from a file of messages or a capture of TCP packets.

use super::context::Context;
use super::fail::{Fail, fail, print};
use flow::text::NoNames;
use openflow::text::message_text;
use openflow::{message_len, take_frame};
use packet::{Tcp, ipproto};
use runtime::{Module, error_text};
use std::collections::HashMap;
use std::io::Read;
use std::net::Ipv4Addr;
use transport::OPENFLOW_PORT;

static PCAP: Module = Module::new("pcap");
/// The port that OpenFlow used before IANA assigned 6653.
const OLD_PORT: u16 = 6633;

fn read(file: &str) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match file {
        "-" => std::io::stdin().read_to_end(&mut bytes)?,
        path => std::fs::File::open(path)?.read_to_end(&mut bytes)?,
    };
    Ok(bytes)
}

/// `ofp-parse`: prints the OpenFlow messages in a file.
pub fn print_messages(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let file = &args[0];
    let bytes = read(file).map_err(|e| Fail::Message(format!("{file}: open ({})", error_text(&e))))?;
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let len = match message_len(rest) {
            Ok(len) => len,
            Err(_) => {
                let len = rest.get(2..4).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
                return fail(format!("{file}: {len}-byte message is too short for OpenFlow"));
            }
        };
        let Some((frame, left)) = len.and_then(|len| rest.split_at_checked(len)) else {
            return fail(format!("{file}: unexpected end of file mid-message"));
        };
        print(&message_text(frame, &NoNames, cx.settings.verbosity.saturating_add(2)))?;
        rest = left;
    }
    Ok(())
}

/// One direction of a TCP connection: address and port of the sender and the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Direction {
    from: (u32, u16),
    to: (u32, u16),
}

/// State of one direction of a connection.
#[derive(Default)]
struct Stream {
    /// The next sequence number.
    next: u32,
    /// The bytes of an incomplete message.
    bytes: Vec<u8>,
}

/// `ofp-parse-pcap`: prints the OpenFlow messages in a capture file.
pub fn print_capture(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let file = &args[0];
    let bytes = read(file).map_err(|e| {
        let why = error_text(&e);
        runtime::warn!(PCAP, "{file}: failed to open pcap file for reading ({why})");
        Fail::Message(format!("{file}: open failed ({why})"))
    })?;
    let Some(frames) = frames(&bytes) else {
        runtime::warn!(PCAP, "{file}: failed to read pcap header");
        return fail(format!("{file}: open failed (Protocol error)"));
    };
    let ports: Vec<u16> = match &args[1..] {
        [] => vec![OPENFLOW_PORT, OLD_PORT],
        given => given.iter().filter_map(|p| p.parse().ok()).collect(),
    };
    let mut streams = HashMap::new();
    let mut first = true;
    for frame in frames {
        let Some((direction, tcp, payload)) = segment(frame) else { continue };
        if !ports.contains(&direction.from.1) && !ports.contains(&direction.to.1) {
            continue;
        }
        let Some(stream) = append_segment(&mut streams, direction, &tcp, payload) else { continue };
        while let Ok(Some(message)) = take_frame(&mut stream.bytes) {
            let end = |(ip, port): (u32, u16)| format!("{}.{port}", Ipv4Addr::from(ip));
            let gap = if std::mem::take(&mut first) { "" } else { "\n" };
            let text = message_text(&message, &NoNames, cx.settings.verbosity.saturating_add(1));
            print(&format!("{gap}{} > {}:\n{text}", end(direction.from), end(direction.to)))?;
        }
    }
    Ok(())
}

/// The frames of a capture file (the classic pcap format, in either byte order); `None`: not a capture file.
fn frames(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    const HEADER: usize = 24;
    const RECORD: usize = 16;
    let little = match bytes.first_chunk::<4>()? {
        [0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1] => true,
        [0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d] => false,
        _ => return None,
    };
    let mut rest = bytes.get(HEADER..)?;
    let mut frames = Vec::new();
    while let Some((record, behind)) = rest.split_at_checked(RECORD) {
        let len = [record[8], record[9], record[10], record[11]];
        let len = if little { u32::from_le_bytes(len) } else { u32::from_be_bytes(len) };
        let Some((frame, left)) = behind.split_at_checked(len as usize) else { break };
        frames.push(frame);
        rest = left;
    }
    Some(frames)
}

/// The TCP segment in an IPv4 frame.
fn segment(frame: &[u8]) -> Option<(Direction, Tcp<'_>, &[u8])> {
    let mut flow = flow::Flow::default();
    let layers = flow::extract::extract(frame, 0, &mut flow);
    if flow.dl_type != packet::ethertype::IPV4 || flow.nw_proto != ipproto::TCP {
        return None;
    }
    let end = frame.len().checked_sub(layers.l2_pad)?;
    let data = frame.get(layers.l4?..end)?;
    let (tcp, _) = Tcp::parse_checked(data)?;
    let payload = data.get(tcp.header_len()..)?;
    Some((Direction { from: (flow.nw_src, flow.tp_src), to: (flow.nw_dst, flow.tp_dst) }, tcp, payload))
}

/// Appends a segment to its stream. Returns `None` for a segment that begins or ends a stream, is empty,
/// or is out of order.
fn append_segment<'a>(
    streams: &'a mut HashMap<Direction, Stream>,
    direction: Direction,
    tcp: &Tcp<'_>,
    payload: &[u8],
) -> Option<&'a mut Stream> {
    const FIN_RST: u16 = 5;
    const SYN: u16 = 2;
    let (seq, flags) = (tcp.seq(), tcp.flags());
    if flags & SYN != 0 {
        streams.insert(direction, Stream { next: seq.wrapping_add(1), bytes: Vec::new() });
        return None;
    }
    if flags & FIN_RST != 0 {
        streams.remove(&direction);
        return None;
    }
    if payload.is_empty() {
        return None;
    }
    let stream = streams.entry(direction).or_insert(Stream { next: seq, bytes: Vec::new() });
    if seq != stream.next {
        return None;
    }
    stream.next = seq.wrapping_add(payload.len() as u32);
    stream.bytes.extend_from_slice(payload);
    Some(stream)
}
