//! The writer thread of the log. Other threads queue their lines, so that PMD threads and handlers do not wait for a disk
//! or a terminal.
//!
//! Without the writer thread, every thread writes its own lines: in tools, before `start_writer`, and in dummy mode, where
//! a line must be in the file when the command that caused it is answered.
//!
//! If the queue is full, threads that must not wait ([`never_wait`]) drop the line. Other threads wait up to [`WAIT_MAX`]
//! for space; if there is still none, they drop lines without waiting until the writer has written a line. Dropped lines
//! are counted, and their number is logged.

use super::line::Line;
use super::queue::Queue;
use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// How long a thread waits for the writer: for space in the queue, or until all lines are written.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// While the queue does not become empty, the number of dropped lines is logged once in each interval.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// Interval at which a panicking thread tries to lock the queue.
const RETRY: Duration = Duration::from_millis(1);

static WRITER: Writer = Writer::new();
/// Whether the writer thread of `WRITER` runs.
static RUNS: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The thread may wait for the writer.
    static MAY_WAIT: Cell<bool> = const { Cell::new(true) };
    /// The thread is the writer thread.
    static IS_WRITER: Cell<bool> = const { Cell::new(false) };
}

/// A queue and its condition variables.
#[derive(Debug)]
struct Writer {
    queue: Mutex<Queue>,
    /// Signals that a line was queued.
    line_queued: Condvar,
    /// Signals that a line was written.
    line_written: Condvar,
}

/// Starts the writer thread. The thread first calls `begin`. It calls `report` with the number of dropped lines.
pub(super) fn start(
    begin: impl FnOnce() + Send + 'static,
    report: impl Fn(u64) + Send + 'static,
) -> io::Result<()> {
    let run = move || {
        begin();
        IS_WRITER.set(true);
        WRITER.run(report);
    };
    std::thread::Builder::new().name("log".to_owned()).spawn(run)?;
    RUNS.store(true, Ordering::Release);
    Ok(())
}

/// Marks the calling thread as one that must not wait, because it forwards packets or other threads depend on it. If the
/// queue is full, its lines are dropped.
pub fn never_wait() {
    MAY_WAIT.set(false);
}

/// Waits until all lines that were logged before are written; at most one second, and not at all if the writer is stuck.
pub fn flush() {
    if is_in_use() {
        WRITER.flush();
    }
}

/// Queues a line for the writer thread; writes it at once if there is no such thread.
pub(super) fn submit(line: Line) {
    if is_in_use() { WRITER.push(line, MAY_WAIT.get()) } else { line.write() }
}

/// Like `flush`, for a panicking thread, which may hold any lock: tries to lock again and again instead of waiting.
pub(super) fn flush_in_panic(time: Duration) {
    if is_in_use() {
        WRITER.poll_until_flushed(Instant::now() + time);
    }
}

fn is_in_use() -> bool {
    RUNS.load(Ordering::Acquire) && !IS_WRITER.get()
}

impl Writer {
    const fn new() -> Writer {
        Writer { queue: Mutex::new(Queue::new()), line_queued: Condvar::new(), line_written: Condvar::new() }
    }

    /// Locks the queue. After a panic of another thread the queue is consistent, because no change of the queue can panic
    /// halfway.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: Line, may_wait: bool) {
        let mut queue = self.lock();
        if may_wait {
            queue = self.wait_while(queue, |q| !q.has_space(&line));
        }
        queue.push(line);
        if queue.asleep {
            self.line_queued.notify_one();
        }
    }

    fn flush(&self) {
        let queue = self.lock();
        let end = queue.accepted;
        drop(self.wait_while(queue, |q| q.written < end));
    }

    /// Waits while `holds` returns true. After `WAIT_MAX` the writer counts as stuck.
    fn wait_while<'a>(
        &self,
        mut queue: MutexGuard<'a, Queue>,
        holds: impl Fn(&Queue) -> bool,
    ) -> MutexGuard<'a, Queue> {
        queue.waiting += 1;
        let (mut queue, timeout) = self
            .line_written
            .wait_timeout_while(queue, WAIT_MAX, |q| holds(q) && !q.stuck)
            .unwrap_or_else(PoisonError::into_inner);
        queue.waiting -= 1;
        queue.stuck |= timeout.timed_out();
        queue
    }

    fn poll_until_flushed(&self, deadline: Instant) {
        let mut end = None;
        while Instant::now() < deadline {
            let queue = match self.queue.try_lock() {
                Ok(queue) => Some(queue),
                Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            };
            if let Some(queue) = queue
                && queue.written >= *end.get_or_insert(queue.accepted)
            {
                return;
            }
            std::thread::sleep(RETRY);
        }
    }

    /// The loop of the writer thread.
    fn run(&self, report: impl Fn(u64)) {
        let mut reported = Instant::now();
        let mut queue = self.lock();
        loop {
            if queue.dropped != 0 && (queue.is_empty() || reported.elapsed() >= REPORT_EVERY) {
                reported = Instant::now();
                let dropped = std::mem::take(&mut queue.dropped);
                drop(queue);
                report(dropped);
                queue = self.lock();
            }
            crate::ordered_panic::panic_if_ordered();
            let Some(line) = queue.pop() else {
                queue.asleep = true;
                queue = self.line_queued.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.asleep = false;
                continue;
            };
            drop(queue);
            line.write();
            let size = line.size();
            drop(line);
            queue = self.lock();
            queue.finish(size);
            if queue.waiting != 0 {
                self.line_written.notify_all();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::level::Level;
    use super::super::queue::BYTES_MAX;
    use super::super::sink::Sinks;
    use super::*;
    use std::fs::File;
    use std::io::{BufRead, BufReader};
    use std::path::Path;
    use std::sync::Arc;

    /// A writer whose file is a pipe: it blocks when 64 KB are unread.
    fn piped() -> (&'static Writer, Arc<Sinks>, BufReader<File>) {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let mut sinks = Sinks::new();
        sinks.install_file(Path::new("pipe"), File::from(write));
        let writer: &Writer = Box::leak(Box::new(Writer::new()));
        std::thread::spawn(|| {
            IS_WRITER.set(true);
            writer.run(|_| ());
        });
        (writer, Arc::new(sinks), BufReader::new(File::from(read)))
    }

    fn line(sinks: &Arc<Sinks>, message: String) -> Line {
        let to = [false, false, true];
        let sinks = Arc::clone(sinks);
        let (module, level) = ("test", Level::Info);
        Line { module, level, message, wall_ms: 0, uptime_ms: 0, number: 1, thread: None, to, sinks }
    }

    #[test]
    fn lines_are_written_in_order_before_a_flush_returns() {
        let (writer, sinks, mut read) = piped();
        for i in 0..100 {
            writer.push(line(&sinks, format!("line {i}")), true);
        }
        writer.flush();
        assert_eq!(writer.lock().written, 100);
        for i in 0..100 {
            let mut text = String::new();
            read.read_line(&mut text).unwrap();
            assert!(text.ends_with(&format!("|INFO|line {i}\n")), "{text}");
        }
    }

    #[test]
    fn a_destination_that_blocks_stops_no_thread_and_takes_bounded_memory() {
        let (writer, sinks, mut read) = piped();
        let pushed = 3 * BYTES_MAX / 10_000;
        let began = Instant::now();
        for _ in 0..pushed {
            writer.push(line(&sinks, "x".repeat(10_000)), false);
        }
        // A thread that may wait waits only once; then the writer counts as stuck.
        for _ in 0..100 {
            writer.push(line(&sinks, "y".repeat(10_000)), true);
        }
        writer.flush();
        assert!(began.elapsed() < 20 * WAIT_MAX, "{:?}", began.elapsed());
        let accepted = {
            let queue = writer.lock();
            assert!(queue.stuck && queue.dropped as usize == pushed + 100 - queue.accepted as usize);
            assert!((queue.accepted - queue.written) as usize * 10_000 <= BYTES_MAX);
            queue.accepted
        };
        // The destination works again: all accepted lines arrive, and the writer is not stuck any more.
        let mut text = String::new();
        for _ in 0..accepted {
            text.clear();
            read.read_line(&mut text).unwrap();
            // The writer may have made space for some of the later lines before the pipe was full.
            assert!(text.ends_with("xxx\n") || text.ends_with("yyy\n"));
        }
        writer.push(line(&sinks, "after".to_owned()), false);
        text.clear();
        read.read_line(&mut text).unwrap();
        assert!(text.ends_with("|INFO|after\n"), "{text}");
        writer.flush();
        assert!(!writer.lock().stuck);
    }

    #[test]
    fn a_panicking_thread_waits_for_no_lock() {
        let (writer, sinks, _read) = piped();
        writer.push(line(&sinks, "one".to_owned()), true);
        writer.poll_until_flushed(Instant::now() + WAIT_MAX);
        let held = writer.lock();
        assert_eq!(held.written, 1);
        writer.poll_until_flushed(Instant::now() + 5 * RETRY);
    }
}
