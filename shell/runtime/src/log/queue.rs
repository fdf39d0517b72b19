//! Log lines that wait for the writer thread: bounded by memory, with the lines counted that found no room.

use super::line::Line;
use std::collections::VecDeque;

/// Memory of the lines that are not written yet: a trace of the greatest length (1 MB), and thousands of common lines.
pub(super) const BYTES_MAX: usize = 4 << 20;

/// The writer's queue. Its owner holds it behind a lock.
#[derive(Debug)]
pub(super) struct Queue {
    lines: VecDeque<Line>,
    /// Memory of lines that wait and of the one that is being written.
    bytes: usize,
    /// Lines that were accepted, and lines of those that are written.
    pub accepted: u64,
    pub written: u64,
    /// Lines without room since this was last reported.
    pub dropped: u64,
    /// No line was written for as long as a thread would wait: no thread waits until one is.
    pub stuck: bool,
    /// The writer sleeps, and has to be woken for a line.
    pub asleep: bool,
    /// Threads that wait for room, or for lines to be written.
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

    /// An empty queue takes a line of any length.
    pub fn has_room(&self, line: &Line) -> bool {
        self.bytes == 0 || self.bytes + line.size() <= BYTES_MAX
    }

    /// Appends a line, or counts it as dropped.
    pub fn push(&mut self, line: Line) {
        if !self.has_room(&line) {
            self.dropped += 1;
            return;
        }
        self.bytes += line.size();
        self.accepted += 1;
        self.lines.push_back(line);
    }

    /// The oldest line. It takes memory until `finish`.
    pub fn pop(&mut self) -> Option<Line> {
        self.lines.pop_front()
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// A line of this size was written.
    pub fn finish(&mut self, size: usize) {
        self.bytes -= size;
        self.written += 1;
        self.stuck = false;
    }
}
