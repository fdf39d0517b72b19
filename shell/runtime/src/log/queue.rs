//! The queue of log lines for the writer thread. Its memory is limited; lines beyond the limit are dropped and counted.

use super::line::Line;
use std::collections::VecDeque;

/// Maximum memory of lines that are not written yet: enough for the longest trace (1 MB) and thousands of
/// ordinary lines.
pub(super) const BYTES_MAX: usize = 4 << 20;

/// The writer's queue. The writer protects it by a lock.
#[derive(Debug)]
pub(super) struct Queue {
    lines: VecDeque<Line>,
    /// Memory of the queued lines and of the line that is being written, in bytes.
    bytes: usize,
    /// Number of lines that were queued.
    pub accepted: u64,
    /// Number of lines that were written.
    pub written: u64,
    /// Number of lines dropped since drops were last reported.
    pub dropped: u64,
    /// No line was written for `WAIT_MAX`. Until the next line is written, no thread waits for the writer.
    pub stuck: bool,
    /// The writer sleeps, and must be woken for a new line.
    pub asleep: bool,
    /// Number of threads that wait for free memory, or for lines to be written.
    pub waiting: usize,
}

impl Queue {
    pub const fn new() -> Queue {
        Queue {
            lines: VecDeque::new(),
            bytes: 0,
            accepted: 0,
            written: 0,
            dropped: 0,
            stuck: false,
            asleep: false,
            waiting: 0,
        }
    }

    /// Returns whether the line fits; an empty queue accepts a line of any length.
    pub fn has_space(&self, line: &Line) -> bool {
        self.bytes == 0 || self.bytes + line.size() <= BYTES_MAX
    }

    /// Appends a line, or counts it as dropped.
    pub fn push(&mut self, line: Line) {
        if !self.has_space(&line) {
            self.dropped += 1;
            return;
        }
        self.bytes += line.size();
        self.accepted += 1;
        self.lines.push_back(line);
    }

    /// Removes and returns the oldest line. Its memory counts as used until `finish` is called.
    pub fn pop(&mut self) -> Option<Line> {
        self.lines.pop_front()
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Must be called when a line of this size has been written.
    pub fn finish(&mut self, size: usize) {
        self.bytes -= size;
        self.written += 1;
        self.stuck = false;
    }
}
