//! Age of bytes that wait for a peer that does not read, and when the peer is disconnected.

use std::collections::VecDeque;
use transport::Outbox;
use units::Millis;

/// A peer that leaves bytes unread for this long is disconnected, unless it is probed at longer intervals. Tools on
/// the management socket are probed at this interval; controllers by default every 5 s.
const AGE_MAX: Millis = Millis::from_secs(60);
/// With more bytes waiting than this, a peer has only [`BUSY_AGE_MAX`]. Requests of a peer are left unread at a
/// sixteenth of it, so only unsolicited messages (port status, flow removed) can exceed it.
const BUSY_LEN: usize = 8 << 20;
/// See [`BUSY_LEN`]: a peer that reads at all takes 8 MiB in much less.
const BUSY_AGE_MAX: Millis = Millis::from_secs(5);
/// Limit at any age: about 2 million flow-removed messages, more than one change of a table sends.
const LEN_MAX: usize = 256 << 20;
/// Bytes queued within this time of each other share one mark.
const GRAIN: Millis = Millis(250);

/// Records when bytes were queued.
#[derive(Debug, Default)]
pub(crate) struct Unsent {
    /// Position in the stream of all queued bytes where a group of bytes ends, and when the group was queued.
    marks: VecDeque<(u64, Millis)>,
}

impl Unsent {
    /// Records what was queued and written since the last call.
    pub(crate) fn note(&mut self, outbox: &Outbox, now: Millis) {
        let (pushed, written) = (outbox.pushed(), outbox.written());
        while self.marks.front().is_some_and(|(end, _)| *end <= written) {
            self.marks.pop_front();
        }
        match self.marks.back_mut() {
            Some((end, at)) if now.since(*at) < GRAIN => *end = pushed,
            last => {
                if last.map_or(written, |(end, _)| *end) < pushed {
                    self.marks.push_back((pushed, now));
                }
            }
        }
    }

    /// When the oldest waiting byte was queued.
    fn oldest(&self) -> Option<Millis> {
        self.marks.front().map(|(_, at)| *at)
    }

    /// The reason to disconnect the peer, if there is one. `patience`: how long bytes may wait.
    pub(crate) fn verdict(&self, len: usize, patience: Option<Millis>, now: Millis) -> Option<String> {
        let age = now.since(self.oldest()?);
        let too_old = patience.is_some_and(|limit| age >= limit) || len > BUSY_LEN && age >= BUSY_AGE_MAX;
        (too_old || len > LEN_MAX).then(|| format!("{len} bytes unsent, the oldest for {} s", age.0 / 1000))
    }

    /// When the verdict may change.
    pub(crate) fn deadline(&self, len: usize, patience: Option<Millis>) -> Option<Millis> {
        let busy = (len > BUSY_LEN).then_some(BUSY_AGE_MAX);
        Some(self.oldest()? + busy.into_iter().chain(patience).min()?)
    }
}

/// How long bytes may wait for a peer that is probed at this interval. For a peer that is never probed there is no
/// limit while few bytes wait.
pub(crate) fn patience(probe: Option<Millis>) -> Option<Millis> {
    probe.map(|p| p.max(AGE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, ErrorKind, Write};

    /// A writer that takes this many bytes per call.
    struct Narrow(usize);

    impl Write for Narrow {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            let n = self.0.min(buf.len());
            self.0 -= n;
            if n == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(n) }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_age_is_that_of_the_oldest_byte() {
        let (mut outbox, mut unsent) = (Outbox::new(), Unsent::default());
        let limit = Some(Millis(10_000));
        for second in 0..20 {
            let now = Millis(second * 1000);
            outbox.push(&[0; 100]);
            // A peer that reads one byte a second does not reduce the age.
            outbox.flush(&mut Narrow(1)).unwrap();
            unsent.note(&outbox, now);
            assert_eq!(unsent.verdict(outbox.len(), limit, now).is_some(), second >= 10, "{second}");
        }
        outbox.flush(&mut Narrow(outbox.len() - 50)).unwrap();
        unsent.note(&outbox, Millis(19_000));
        assert_eq!(unsent.oldest(), Some(Millis(19_000)));
        outbox.flush(&mut Narrow(50)).unwrap();
        unsent.note(&outbox, Millis(99_000));
        assert_eq!((unsent.oldest(), unsent.deadline(0, limit)), (None, None));
    }

    #[test]
    fn with_megabytes_waiting_the_limit_is_shorter() {
        let (mut outbox, mut unsent) = (Outbox::new(), Unsent::default());
        outbox.push_owned(vec![0; BUSY_LEN + 1]);
        unsent.note(&outbox, Millis(0));
        assert_eq!(unsent.verdict(outbox.len(), None, Millis(4_999)), None);
        assert!(unsent.verdict(outbox.len(), None, Millis(5_000)).is_some());
        assert_eq!(unsent.deadline(outbox.len(), None), Some(Millis(5_000)));
    }
}
