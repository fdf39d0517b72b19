//! Bytes to be written to a non-blocking stream.
//!
//! The bytes are stored in pieces, so that a long message is neither copied nor moved. Written pieces are freed. The owner
//! calls `len` to detect a peer that does not read, and `pushed` and `written` to measure how long bytes wait.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};

/// Short messages are joined into pieces of at most this many bytes. A longer message is a separate piece.
const PIECE_LEN: usize = 64 * 1024;
/// Maximum number of bytes written by one [`Outbox::flush`], so that a fast reader does not keep the thread busy: writing
/// 1 MiB to a Unix socket takes about 0.3 ms.
const FLUSH_MAX: usize = 1 << 20;

/// The queue of bytes to be written.
#[derive(Debug, Default)]
pub struct Outbox {
    pieces: VecDeque<Vec<u8>>,
    /// Number of bytes of the first piece that are already written.
    front: usize,
    /// Number of bytes in all pieces that are not written yet.
    len: usize,
    pushed: u64,
    /// Whether a TLS stream has accepted bytes that it has not sent yet.
    tls_pending: bool,
}

impl Outbox {
    /// An empty queue.
    pub fn new() -> Outbox {
        Outbox::default()
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        match self.pieces.back_mut() {
            Some(last) if last.len() + bytes.len() <= PIECE_LEN => last.extend_from_slice(bytes),
            _ => self.pieces.push_back(bytes.to_vec()),
        }
        self.add_len(bytes.len());
    }

    /// Appends bytes. They are not copied if there are at least `PIECE_LEN` of them.
    pub fn push_owned(&mut self, bytes: Vec<u8>) {
        if bytes.len() < PIECE_LEN {
            return self.push(&bytes);
        }
        self.add_len(bytes.len());
        self.pieces.push_back(bytes);
    }

    fn add_len(&mut self, len: usize) {
        self.len += len;
        self.pushed += len as u64;
    }

    /// Number of bytes to be written. All bytes that a TLS stream has accepted but not sent yet count as one byte.
    pub fn len(&self) -> usize {
        self.len + usize::from(self.tls_pending)
    }

    /// Returns whether all bytes are written and sent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of bytes appended since the start.
    pub fn pushed(&self) -> u64 {
        self.pushed
    }

    /// Number of bytes that the stream accepted since the start.
    pub fn written(&self) -> u64 {
        self.pushed - self.len as u64
    }

    /// Writes until the stream blocks or `FLUSH_MAX` bytes are written; after the latter, the stream is still writable.
    pub fn flush(&mut self, stream: &mut impl Write) -> io::Result<()> {
        let mut left = FLUSH_MAX;
        while let Some(piece) = self.pieces.front().filter(|_| left > 0) {
            let rest = piece.get(self.front..).unwrap_or_default();
            if rest.is_empty() {
                self.pieces.pop_front();
                self.front = 0;
                continue;
            }
            match stream.write(&rest[..rest.len().min(left)]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => {
                    self.front += n;
                    self.len -= n;
                    left = left.saturating_sub(n);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        if self.len == 0 {
            self.pieces.clear();
            self.front = 0;
        }
        self.tls_pending = match stream.flush() {
            Err(e) if e.kind() == ErrorKind::WouldBlock => true,
            other => other.map(|()| false)?,
        };
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
        for (i, piece) in sent.chunks(30_000).enumerate() {
            if i % 2 == 0 {
                out.push(piece)
            } else {
                out.push_owned(piece.to_vec())
            }
            sink.1 = 20_000;
            out.flush(&mut sink).unwrap();
        }
        assert_eq!(out.len(), 60_000);
        assert_eq!((out.pushed(), out.written()), (200_000, 140_000));
        sink.1 = 100_000;
        out.flush(&mut sink).unwrap();
        assert!(out.is_empty());
        assert_eq!(sink.0, sent);
    }

    #[test]
    fn one_call_writes_a_bounded_part_of_a_long_message() {
        let mut out = Outbox::new();
        out.push_owned(vec![7; 3 * FLUSH_MAX]);
        let mut sink = Narrow(Vec::new(), usize::MAX);
        for left in [2 * FLUSH_MAX, FLUSH_MAX, 0] {
            out.flush(&mut sink).unwrap();
            assert_eq!(out.len(), left);
        }
        assert_eq!(sink.0.len(), 3 * FLUSH_MAX);
    }
}
