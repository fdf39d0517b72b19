//! Messages of a walk: lines of its trace or, without a trace, lines for the log. Without a received packet (when a megaflow is
//! revalidated), only [`log_error`](Walk::log_error) logs.

use crate::outcome::{Level, LogLine};
use crate::trace::{Cursor, LineKind, Trace};
use crate::walk::Walk;
use flow::Flow;
use openflow::action::Action;
use std::fmt::Arguments;

/// Adds a line to the trace, if a trace is requested and not full.
macro_rules! report {
    ($walk:expr, $kind:ident, $($text:tt)*) => {
        if let Some(trace) = $walk.out.trace.as_mut().filter(|trace| !trace.is_full()) {
            trace.report($crate::trace::LineKind::$kind, format!($($text)*));
        }
    };
}
pub(crate) use report;

/// Maximum number of log lines per translation. It bounds the memory of the lines; the log limits the rate.
const LOG_LINES_MAX: usize = 100;

/// The trace, if it is requested and not full.
pub(crate) fn unfilled_trace(trace: &mut Option<Trace>) -> Option<&mut Trace> {
    trace.as_mut().filter(|trace| !trace.is_full())
}

impl Walk<'_> {
    /// Adds a line to the trace, below which the next lines are placed; returns the previous position for
    /// [`unnest`](Self::unnest).
    pub(crate) fn nest(&mut self, kind: LineKind, text: impl FnOnce() -> String) -> Option<Cursor> {
        let trace = self.out.trace.as_mut()?;
        let back = trace.cursor();
        if trace.is_full() {
            return Some(back);
        }
        let inside = trace.report(kind, text());
        trace.go(inside);
        Some(back)
    }

    /// Places the next lines at a previous position.
    pub(crate) fn unnest(&mut self, back: Option<Cursor>) {
        if let (Some(trace), Some(back)) = (&mut self.out.trace, back) {
            trace.go(back);
        }
    }

    /// Adds the trace line of the current bridge; the next lines are placed below it.
    pub(crate) fn enter_bridge(&mut self) -> Option<Cursor> {
        let name = &self.bridge.name;
        self.nest(LineKind::Bridge, || format!("bridge(\"{name}\")"))
    }

    pub(crate) fn report_actions(&mut self, kind: LineKind, title: &str, actions: &[Action]) {
        if let (Some(trace), Some(text)) = (unfilled_trace(&mut self.out.trace), self.input.trace_format) {
            let list = text.actions(self.bridge, actions);
            trace.report(kind, if title.is_empty() { list } else { format!("{title}: {list}") });
        }
    }

    fn trace_or_log(&mut self, kind: LineKind, level: Level, text: Arguments<'_>) {
        self.trace_or_log_about(self.committed.base, kind, level, text);
    }

    fn trace_or_log_about(&mut self, flow: Flow, kind: LineKind, level: Level, text: Arguments<'_>) {
        if let Some(trace) = &mut self.out.trace {
            trace.report(kind, text.to_string());
        } else if self.received.packet.is_some() && self.out.log.len() <= LOG_LINES_MAX {
            let name = &self.bridge.name;
            let text = match level {
                Level::Debug => format!("bridge {name}: {text}"),
                // The log appends the flow.
                Level::Warn | Level::Info => format!("{text} on bridge {name} while processing "),
            };
            self.push_log(LogLine { level, text, flow });
        }
    }

    /// Adds a line for the log. At the limit, adds a line that says that further lines are left out; beyond it, adds nothing.
    fn push_log(&mut self, line: LogLine) {
        let left = LOG_LINES_MAX.checked_sub(self.out.log.len());
        self.out.log.extend(match left {
            None => None,
            Some(0) => {
                let text =
                    format!("further messages on bridge {} suppressed while processing ", self.bridge.name);
                Some(LogLine { text, ..line })
            }
            Some(_) => Some(line),
        });
    }

    /// Reports an error about this flow: in the trace if there is one, otherwise in the log if a received packet is translated.
    pub(crate) fn error_about(&mut self, flow: Flow, text: Arguments<'_>) {
        self.trace_or_log_about(flow, LineKind::Error, Level::Warn, text);
    }

    /// Reports an error: in the trace if there is one, otherwise in the log if a received packet is translated.
    pub(crate) fn error(&mut self, text: Arguments<'_>) {
        self.trace_or_log(LineKind::Error, Level::Warn, text);
    }

    /// Reports an error in the log only, as Open vSwitch does: a trace does not contain it.
    pub(crate) fn log_error(&mut self, text: Arguments<'_>) {
        self.push_log(LogLine { level: Level::Warn, text: text.to_string(), flow: self.committed.base });
    }

    /// Reports that an action has no effect: as a warning in the trace, at level info in the log.
    pub(crate) fn no_effect(&mut self, text: Arguments<'_>) {
        self.trace_or_log(LineKind::Warn, Level::Info, text);
    }

    /// Reports debugging information, like [`error`](Self::error).
    pub(crate) fn debug(&mut self, text: Arguments<'_>) {
        self.debug_as(LineKind::Detail, text);
    }

    /// Reports debugging information; the trace line is of this kind.
    pub(crate) fn debug_as(&mut self, kind: LineKind, text: Arguments<'_>) {
        self.trace_or_log(kind, Level::Debug, text);
    }
}
