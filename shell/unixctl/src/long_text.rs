//! Answers of any length. They are generated piece by piece while the client reads them, so that the complete answer is never in
//! memory.

use crate::format::Format;
use ovsdb::Json;
use ovsdb::json::quoted;
use std::fmt;

/// While this many bytes or more wait to be sent, no further piece of an answer is generated.
pub(crate) const AHEAD_MAX: usize = 64 << 10;

/// Generator of the text of an answer. A piece consists of complete lines.
pub struct LongText(Box<dyn FnMut(&mut String) -> bool>);

impl LongText {
    /// Creates a generator. `next` appends the next piece (some kilobytes) to the string, and returns whether there may be more.
    pub fn new(next: impl FnMut(&mut String) -> bool + 'static) -> LongText {
        LongText(Box::new(next))
    }

    /// The beginning of the reply message, before the text.
    pub(crate) fn head(id: &Json, format: Format) -> String {
        let open = match format {
            Format::Text => "\"",
            Format::Json => "{\"reply\":\"",
        };
        format!("{{\"error\":null,\"id\":{id},\"result\":{open}")
    }

    /// The end of the reply message, after the text.
    pub(crate) fn tail(format: Format) -> &'static str {
        match format {
            Format::Text => "\"}",
            Format::Json => "\",\"reply-format\":\"plain\"}}",
        }
    }

    /// The next piece, escaped for a JSON string, and whether there may be more.
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
