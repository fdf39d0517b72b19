//! One message with its destinations.

use super::format::Record;
use super::level::Level;
use super::sink::Sinks;
use std::sync::Arc;

/// Memory of a line in addition to its message, in bytes: this struct in the queue.
const OVERHEAD: usize = 128;

/// A message, with its destinations and attributes at the time when it was logged.
#[derive(Debug)]
pub(super) struct Line {
    pub module: &'static str,
    pub level: Level,
    pub message: String,
    pub wall_ms: u64,
    pub uptime_ms: u64,
    pub number: u32,
    pub thread: Option<Arc<str>>,
    /// Whether the line is written to console, syslog and file.
    pub to: [bool; 3],
    pub sinks: Arc<Sinks>,
}

impl Line {
    /// Approximate memory of the line, in bytes.
    pub fn size(&self) -> usize {
        OVERHEAD + self.message.capacity()
    }

    /// Formats and writes the line on the calling thread. Blocks if a destination blocks.
    pub fn write(&self) {
        let sinks = &self.sinks;
        let record = Record {
            module: self.module,
            level: self.level,
            message: &self.message,
            wall_ms: self.wall_ms,
            uptime_ms: self.uptime_ms,
            number: self.number,
            progname: &sinks.progname,
            thread: self.thread.as_deref().unwrap_or_default(),
            facility: if sinks.facility == 0 { 16 << 3 } else { sinks.facility },
        };
        let [console, syslog, file] = self.to;
        if console {
            sinks.write_console(&record);
        }
        if syslog {
            sinks.write_syslog(&record);
        }
        if file {
            sinks.write_file(&record);
        }
    }
}
