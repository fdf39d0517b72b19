//! Copies a capture from its socket to a file, a pipe or lines of text.

use super::lines::LineFormatter;
use super::sink::Sink;
use pcapng::{Block, BlockSplitter};
use runtime::signals::Signals;
use std::io::{self, ErrorKind, Read};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Interval at which signals are checked.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Time limit for the daemon to send the remaining packets after the end of the capture.
const DRAIN_TIME: Duration = Duration::from_secs(10);

/// The destination of captured packets.
pub struct Output {
    sink: Sink,
    /// If set, a line of text is written for each packet; otherwise the blocks of pcapng unchanged.
    lines: Option<LineFormatter>,
}

impl Output {
    pub fn blocks(to: OwnedFd) -> Output {
        Output { sink: Sink::new(to), lines: None }
    }

    pub fn lines(to: OwnedFd) -> Output {
        Output { sink: Sink::new(to), lines: Some(LineFormatter::default()) }
    }

    /// Writes a block. `Err`: the reader has closed the pipe, or the file cannot be written.
    fn write_block(&mut self, bytes: &[u8], block: &Block<'_>, signals: &Signals) -> io::Result<()> {
        match &mut self.lines {
            None => self.sink.write(bytes, signals),
            Some(lines) => match lines.format_block(block) {
                Some(line) => self.sink.write(format!("{line}\n").as_bytes(), signals),
                None => Ok(()),
            },
        }
    }
}

/// Whether the error only means that the reader has closed the pipe, or that it does not read and the user has ended the tool.
fn is_end(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::TimedOut)
}

/// Copies a capture until `packets_max` packets are written, a signal arrives, or the reader of the output closes its pipe.
/// Returns a summary for the user. It is an error if the daemon closes the connection earlier.
pub fn copy(path: &str, mut output: Output, packets_max: Option<u64>) -> io::Result<String> {
    let signals = Signals::install()?;
    let mut socket = UnixStream::connect(path)?;
    socket.set_read_timeout(Some(SIGNAL_CHECK_INTERVAL))?;
    let (mut blocks, mut packets, mut statistics) = (BlockSplitter::default(), 0, String::new());
    let mut bytes = vec![0; 1 << 16];
    let mut end: Option<Instant> = None;
    while end.is_none_or(|end| end.elapsed() < DRAIN_TIME) {
        let is_over = packets_max.is_some_and(|max| packets >= max) || signals.received().is_some();
        if is_over && end.is_none() {
            end = Some(Instant::now());
            socket.shutdown(Shutdown::Write)?;
        }
        let n = match socket.read(&mut bytes) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                continue;
            }
            Err(e) => return Err(e),
        };
        blocks.push(&bytes[..n]);
        let invalid = |e: pcapng::BlockError| io::Error::new(ErrorKind::InvalidData, e.to_string());
        while let Some((bytes, block)) = blocks.next_block().map_err(invalid)? {
            match block {
                // Discard further packets after `packets_max` packets were written.
                Block::Packet(_) if packets_max.is_some_and(|max| packets >= max) => continue,
                Block::Packet(_) => packets += 1,
                Block::Statistics(s) => statistics = s.comment.to_owned(),
                _ => {}
            }
            match output.write_block(bytes, &block, &signals) {
                Err(e) if is_end(&e) => return Ok(summary(packets, "")),
                done => done?,
            }
        }
        match output.sink.flush(&signals) {
            Err(e) if is_end(&e) => return Ok(summary(packets, "")),
            done => done?,
        }
    }
    if end.is_none() {
        return Err(io::Error::new(ErrorKind::UnexpectedEof, "the daemon has closed the connection"));
    }
    Ok(summary(packets, &statistics))
}

/// The summary for the user: the number of packets written, and why packets are missing. `counts`: the daemon's statistics as
/// words `name=number`.
fn summary(packets: u64, counts: &str) -> String {
    let count = |name: &str| {
        let word = counts.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        word.and_then(|n| n.parse::<u64>().ok()).unwrap_or(0)
    };
    let mut out = format!("{packets} packets captured, {} lost", count("lost"));
    for (name, text) in [("over_rate", "over the rate"), ("sampled_out", "not sampled")] {
        if count(name) != 0 {
            out += &format!(", {} {text}", count(name));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_counts_missing_packets() {
        assert_eq!(summary(5, ""), "5 packets captured, 0 lost");
        let counts = "wanted=20 kept=5 sampled_out=0 over_rate=12 lost=3";
        assert_eq!(summary(5, counts), "5 packets captured, 3 lost, 12 over the rate");
    }
}
