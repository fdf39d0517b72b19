//! One message on its way to its destinations.

use super::format::Record;
use super::level::Level;
use super::sink::Sinks;
use std::sync::Arc;

/// What a line costs in memory besides its message: this struct and its place in the queue.
const OVERHEAD: usize = 128;

/// A message with all that its destinations need, as of when it was logged.
#[derive(Debug)]
pub(super) struct Line {
    pub module: &'static str,
    pub level: Level,
    pub message: String,
    pub wall_ms: u64,
    pub uptime_ms: u64,
    pub number: u32,
    pub thread: Option<Arc<str>>,
    /// Whether console, syslog and file want it.
    pub to: [bool; 3],
    pub sinks: Arc<Sinks>,
}

impl Line {
    /// Bytes of memory, about.
    pub fn size(&self) -> usize {
        OVERHEAD + self.message.capacity()
    }

    /// Formats and writes it on the calling thread, which may block as long as the destinations do.
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
