//! Answers of any length, made piece by piece while the client reads them, so that they never lie in memory as a whole.

use crate::format::Format;
use ovsdb::Json;
use ovsdb::json::quoted;
use std::fmt;

/// How much of an answer is made ahead of what the client has read.
pub(crate) const AHEAD: usize = 64 << 10;

/// Text of an answer, in pieces of whole lines.
pub struct LongText(Box<dyn FnMut(&mut String) -> bool>);

impl LongText {
    /// `next` adds the next piece, some kilobytes, and returns whether there may be more.
    pub fn new(next: impl FnMut(&mut String) -> bool + 'static) -> LongText {
        LongText(Box::new(next))
    }

    /// What comes before the text.
    pub(crate) fn head(id: &Json, format: Format) -> String {
        let open = match format {
            Format::Text => "\"",
            Format::Json => "{\"reply\":\"",
        };
        format!("{{\"error\":null,\"id\":{id},\"result\":{open}")
    }

    /// What comes after it.
    pub(crate) fn tail(format: Format) -> &'static str {
        match format {
            Format::Text => "\"}",
            Format::Json => "\",\"reply-format\":\"plain\"}}",
        }
    }

    /// The next piece as it stands within a string of JSON, and whether there may be more.
    pub(crate) fn piece(&mut self) -> (String, bool) {
        let mut text = String::new();
        let more = (self.0)(&mut text);
        let whole = quoted(&text);
        (whole.get(1..whole.len() - 1).unwrap_or_default().to_owned(), more)
    }
}

impl fmt::Debug for LongText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LongText")
    }
}
