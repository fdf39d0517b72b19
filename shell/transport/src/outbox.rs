//! Bytes on their way out of a non-blocking stream.
//!
//! The owner looks at `len` to drop a peer that does not read.

use std::io::{self, ErrorKind, Write};

const COMPACT_FROM: usize = 64 * 1024;

/// What is still to be written.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    written: usize,
    /// The stream took bytes that it has not sent yet.
    held: bool,
}

impl Outbox {
    /// An empty one.
    pub fn new() -> Outbox {
        Outbox::default()
    }

    /// Adds bytes at the end.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// How much waits. What a stream (TLS) holds back counts as one.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.written + usize::from(self.held)
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes as much as the stream takes now.
    pub fn flush(&mut self, stream: &mut impl Write) -> io::Result<()> {
        while let Some(rest) = self.bytes.get(self.written..).filter(|r| !r.is_empty()) {
            match stream.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => self.written += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.held = match stream.flush() {
            Err(e) if e.kind() == ErrorKind::WouldBlock => true,
            other => other.map(|()| false)?,
        };
        // Moving the rest to the front costs as much as what was written, so not every time.
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
        } else if self.written >= COMPACT_FROM.max(self.bytes.len() / 2) {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Narrow(Vec<u8>, usize);

    impl Write for Narrow {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            let n = self.1.min(buf.len());
            if n == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.1 -= n;
            self.0.extend_from_slice(&buf[..n]);
            Ok(n)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn keeps_order_over_partial_writes() {
        let mut out = Outbox::new();
        let mut sink = Narrow(Vec::new(), 0);
        let sent: Vec<u8> = (0..200_000u32).map(|i| i as u8).collect();
        for piece in sent.chunks(30_000) {
            out.push(piece);
            sink.1 = 20_000;
            out.flush(&mut sink).unwrap();
        }
        assert_eq!(out.len(), 60_000);
        sink.1 = 100_000;
        out.flush(&mut sink).unwrap();
        assert!(out.is_empty());
        assert_eq!(sink.0, sent);
    }
}
