//! Age of unwritten output, and the rule that disconnects a peer which does not read.

use std::collections::VecDeque;
use transport::Outbox;
use units::Millis;

/// A peer is disconnected when its output has waited for this long, or for its probe interval if that is longer. The probe interval
/// of tools on the management socket is also 60 s, that of controllers by default 5 s.
const AGE_MAX: Millis = Millis::from_secs(60);
/// If more bytes than this wait, their age is limited to [`BUSY_AGE_MAX`]. Requests of a peer are no longer executed when a sixteenth of
/// this length waits, so only unsolicited messages (port status, flow removed) can exceed it.
const BUSY_LEN: usize = 8 << 20;
/// Age limit if more than [`BUSY_LEN`] bytes wait: a peer that reads at all reads 8 MiB in much less time.
const BUSY_AGE_MAX: Millis = Millis::from_secs(5);
/// Limit of waiting bytes at any age. It is the length of about 2 million flow-removed messages, more than a change of a table sends.
const LEN_MAX: usize = 256 << 20;
/// Bytes that are queued within this time after a mark share the mark, so that the list of marks stays short.
const MARK_INTERVAL: Millis = Millis(250);

/// Records when bytes were queued.
#[derive(Debug, Default)]
pub(crate) struct UnsentAges {
    /// For each group of bytes: the offset of its end in the stream of all queued bytes, and the time when the group was queued.
    marks: VecDeque<(u64, Millis)>,
}

impl UnsentAges {
    /// Records the bytes that were queued and written since the last call.
    pub(crate) fn record(&mut self, outbox: &Outbox, now: Millis) {
        let (pushed, written) = (outbox.pushed(), outbox.written());
        while self.marks.front().is_some_and(|(end, _)| *end <= written) {
            self.marks.pop_front();
        }
        match self.marks.back_mut() {
            Some((end, at)) if now.since(*at) < MARK_INTERVAL => *end = pushed,
            last => {
                if last.map_or(written, |(end, _)| *end) < pushed {
                    self.marks.push_back((pushed, now));
                }
            }
        }
    }

    /// The time when the oldest waiting byte was queued.
    fn oldest(&self) -> Option<Millis> {
        self.marks.front().map(|(_, at)| *at)
    }

    /// The reason to disconnect the peer, if there is one. `age_limit`: how long bytes may wait.
    pub(crate) fn disconnect_reason(
        &self,
        len: usize,
        age_limit: Option<Millis>,
        now: Millis,
    ) -> Option<String> {
        let age = now.since(self.oldest()?);
        let too_old = age_limit.is_some_and(|limit| age >= limit) || len > BUSY_LEN && age >= BUSY_AGE_MAX;
        (too_old || len > LEN_MAX).then(|| format!("{len} bytes unsent, the oldest for {} s", age.0 / 1000))
    }

    /// The next time when [`disconnect_reason`](Self::disconnect_reason) may return a reason without further output.
    pub(crate) fn deadline(&self, len: usize, age_limit: Option<Millis>) -> Option<Millis> {
        let busy = (len > BUSY_LEN).then_some(BUSY_AGE_MAX);
        Some(self.oldest()? + busy.into_iter().chain(age_limit).min()?)
    }
}

/// How long bytes may wait for a peer that is probed at the interval `probe`. `None`: a peer that is never probed has no such limit
/// while at most [`BUSY_LEN`] bytes wait.
pub(crate) fn age_limit(probe: Option<Millis>) -> Option<Millis> {
    probe.map(|p| p.max(AGE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, ErrorKind, Write};

    /// A writer that accepts this many bytes in all.
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
        let (mut outbox, mut unsent) = (Outbox::new(), UnsentAges::default());
        let limit = Some(Millis(10_000));
        for second in 0..20 {
            let now = Millis(second * 1000);
            outbox.push(&[0; 100]);
            // A peer that reads one byte a second does not reduce the age.
            outbox.flush(&mut Narrow(1)).unwrap();
            unsent.record(&outbox, now);
            assert_eq!(
                unsent.disconnect_reason(outbox.len(), limit, now).is_some(),
                second >= 10,
                "{second}"
            );
        }
        outbox.flush(&mut Narrow(outbox.len() - 50)).unwrap();
        unsent.record(&outbox, Millis(19_000));
        assert_eq!(unsent.oldest(), Some(Millis(19_000)));
        outbox.flush(&mut Narrow(50)).unwrap();
        unsent.record(&outbox, Millis(99_000));
        assert_eq!((unsent.oldest(), unsent.deadline(0, limit)), (None, None));
    }

    #[test]
    fn with_megabytes_waiting_the_limit_is_shorter() {
        let (mut outbox, mut unsent) = (Outbox::new(), UnsentAges::default());
        outbox.push_owned(vec![0; BUSY_LEN + 1]);
        unsent.record(&outbox, Millis(0));
        assert_eq!(unsent.disconnect_reason(outbox.len(), None, Millis(4_999)), None);
        assert!(unsent.disconnect_reason(outbox.len(), None, Millis(5_000)).is_some());
        assert_eq!(unsent.deadline(outbox.len(), None), Some(Millis(5_000)));
    }
}
