//! Splits a byte stream into JSON values.
//!
//! OVSDB sends JSON objects without framing. The splitter tracks only nesting and strings, so received data may end
//! anywhere in a value, and each byte is visited once. The splitter buffers the text of at most one incomplete value, and
//! refuses a value that exceeds a limit before it is parsed.

use serde_json::Value as Json;

/// Maximum nesting depth, as in Open vSwitch.
const MAX_DEPTH: usize = 1000;

/// Stack size in bytes of threads that parse messages of clients, because parsing is recursive. In a debug build the
/// deepest value needs half of this.
pub const STACK: usize = 8 << 20;

/// Limits for the size of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Length of its text in bytes.
    pub bytes: usize,
    /// Total number of array elements, member names and member values.
    pub values: usize,
}

impl Limits {
    /// At most this many bytes, without a limit for the number of values: for trusted peers.
    pub const fn of_bytes(bytes: usize) -> Limits {
        Limits { bytes, values: usize::MAX }
    }
}

/// Reason why a stream cannot be read further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The text of a value is longer than this limit in bytes.
    #[error("message longer than {0} bytes")]
    TooLong(usize),
    /// A value contains more elements, member names and member values than this limit.
    #[error("message of more than {0} JSON values")]
    TooMany(usize),
    /// The tree of a value would take more than this many bytes.
    #[error("message or operation that takes more than {0} bytes when parsed")]
    TooLarge(usize),
    /// A value is nested too deeply.
    #[error("input exceeds maximum nesting depth {MAX_DEPTH}")]
    TooDeep,
    /// A byte that does not start an object or array.
    #[error("byte {0:#04x} where a JSON object or array must begin")]
    Stray(u8),
    /// The value is not JSON.
    #[error("not valid JSON: {0}")]
    Syntax(String),
}

/// The JSON escape of a zero byte.
const NUL: &[u8] = b"\\u0000";

/// Whether a string or member name in the value has a zero byte. Recursion ends at `MAX_DEPTH`.
fn has_nul(value: &Json) -> bool {
    match value {
        Json::String(s) => s.contains('\0'),
        Json::Array(a) => a.iter().any(has_nul),
        Json::Object(o) => o.iter().any(|(k, v)| k.contains('\0') || has_nul(v)),
        _ => false,
    }
}

/// Parses a value that [`Splitter::next_text`] returned.
pub fn parse(text: &[u8]) -> Result<Json, StreamError> {
    let mut parser = serde_json::Deserializer::from_slice(text);
    // The splitter has checked the depth.
    parser.disable_recursion_limit();
    let mut values = parser.into_iter::<Json>();
    let value = match values.next() {
        Some(value) => value.map_err(|e| StreamError::Syntax(e.to_string()))?,
        None => return Err(StreamError::Syntax("no value".to_owned())),
    };
    if values.next().is_some() {
        return Err(StreamError::Syntax("trailing characters".to_owned()));
    }
    // Clients in C cannot represent a string with a zero byte. `\u0000` in the text may also be an escaped backslash and
    // "u0000", so the parsed value is checked.
    let suspect = text.windows(NUL.len()).any(|w| w == NUL);
    if suspect && has_nul(&value) {
        return Err(StreamError::Syntax("null bytes not supported in quoted strings".to_owned()));
    }
    Ok(value)
}

/// Splits a byte stream incrementally; see the module documentation.
pub struct Splitter {
    buffer: Vec<u8>,
    /// Offset in `buffer` of the incomplete value.
    start: usize,
    /// Offset in `buffer` of the first byte not visited yet.
    scan_pos: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Number of values inside the incomplete value: each follows one of `[`, `{`, `,` and `:`.
    values: usize,
    limits: Limits,
}

impl Splitter {
    /// A splitter for values within these limits.
    pub fn new(limits: Limits) -> Splitter {
        Splitter {
            buffer: Vec::new(),
            start: 0,
            scan_pos: 0,
            depth: 0,
            in_string: false,
            escaped: false,
            values: 0,
            limits,
        }
    }

    /// Appends received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            (self.start, self.scan_pos) = (0, self.scan_pos - self.start);
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Number of buffered bytes: those after the value that was returned last.
    pub fn len(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Whether nothing is buffered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next complete value, if there is one. After an error the stream is unusable.
    pub fn next_value(&mut self) -> Result<Option<Json>, StreamError> {
        self.next_text()?.map(|text| parse(&text)).transpose()
    }

    /// The text of the next complete value. After an error the stream is unusable.
    pub fn next_text(&mut self) -> Result<Option<Vec<u8>>, StreamError> {
        while let Some(&byte) = self.buffer.get(self.scan_pos) {
            self.scan_pos += 1;
            if self.depth == 0 && byte.is_ascii_whitespace() {
                self.start = self.scan_pos;
                continue;
            }
            let is_complete = self.visit_byte(byte)?;
            let len = self.scan_pos - self.start;
            if len > self.limits.bytes {
                return Err(StreamError::TooLong(self.limits.bytes));
            }
            if self.values > self.limits.values {
                return Err(StreamError::TooMany(self.limits.values));
            }
            if is_complete {
                return Ok(Some(self.take_text()));
            }
        }
        Ok(None)
    }

    /// Removes and returns the text up to the current position. Does not copy the text if it begins the buffer and is at
    /// least half of it.
    fn take_text(&mut self) -> Vec<u8> {
        self.values = 0;
        let (start, end) = (self.start, self.scan_pos);
        if start > 0 || end < self.buffer.len() / 2 {
            self.start = end;
            return self.buffer.get(start..end).unwrap_or_default().to_vec();
        }
        let rest = self.buffer.split_off(end);
        (self.start, self.scan_pos) = (0, 0);
        std::mem::replace(&mut self.buffer, rest)
    }

    /// Processes a byte; returns whether it completes a value.
    fn visit_byte(&mut self, byte: u8) -> Result<bool, StreamError> {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return Ok(false);
        }
        match byte {
            b'{' | b'[' => {
                self.values += 1;
                self.depth += 1;
                if self.depth > MAX_DEPTH { Err(StreamError::TooDeep) } else { Ok(false) }
            }
            _ if self.depth == 0 => Err(StreamError::Stray(byte)),
            b'}' | b']' => {
                self.depth -= 1;
                Ok(self.depth == 0)
            }
            b',' | b':' => {
                self.values += 1;
                Ok(false)
            }
            b'"' => {
                self.in_string = true;
                Ok(false)
            }
            _ => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn splitter(bytes: usize) -> Splitter {
        Splitter::new(Limits::of_bytes(bytes))
    }

    /// Returns all values of a text that arrives in these pieces, and the error that ended it.
    fn values<'a>(
        pieces: impl IntoIterator<Item = &'a [u8]>,
        limits: Limits,
    ) -> (Vec<Json>, Option<StreamError>) {
        let mut splitter = Splitter::new(limits);
        let mut values = Vec::new();
        for piece in pieces {
            splitter.push(piece);
            loop {
                match splitter.next_value() {
                    Ok(Some(value)) => values.push(value),
                    Ok(None) => break,
                    Err(error) => return (values, Some(error)),
                }
            }
        }
        (values, None)
    }

    #[test]
    fn values_back_to_back_in_any_pieces() {
        let text = br#"{"a":"}\"{"}[1,[2]] {"b":{}}"#;
        for size in 1..text.len() {
            let (values, error) = values(text.chunks(size), Limits::of_bytes(100));
            assert_eq!(values, [json!({"a": "}\"{"}), json!([1, [2]]), json!({"b": {}})]);
            assert_eq!(error, None);
        }
    }

    #[test]
    fn zero_bytes_are_refused() {
        let next = |text: &str| {
            let mut splitter = splitter(100);
            splitter.push(text.as_bytes());
            splitter.next_value()
        };
        assert!(next(r#"["a\u0000b"]"#).is_err() && next(r#"{"\u0000":1}"#).is_err());
        assert_eq!(next(r#"["\\u0000"]"#), Ok(Some(json!(["\\u0000"]))));
    }

    /// A value of the maximum depth can be parsed, searched, written and dropped with half of [`STACK`].
    #[test]
    fn depth_needs_little_stack() {
        let work = || {
            for (open, close) in [("[", "]"), ("{\"a\\u0000b\":", "}"), ("{\"a\":[", "]}")] {
                let levels = MAX_DEPTH / open.matches(['[', '{']).count();
                let text = |levels| format!("{}0{}", open.repeat(levels), close.repeat(levels));
                let mut splitter = splitter(1 << 20);
                splitter.push(text(levels).as_bytes());
                match splitter.next_value() {
                    Ok(Some(value)) => {
                        assert_eq!(crate::json::sorted_string(&value), text(levels));
                        assert_eq!(value.clone(), value);
                    }
                    other => assert!(open.contains("u0000"), "{other:?}"),
                }
                splitter.push(text(levels + 1).as_bytes());
                assert_eq!(splitter.next_value(), Err(StreamError::TooDeep));
            }
        };
        std::thread::Builder::new().stack_size(STACK / 2).spawn(work).unwrap().join().unwrap();
        assert_eq!(StreamError::TooDeep.to_string(), "input exceeds maximum nesting depth 1000");
    }

    #[test]
    fn limits_hold() {
        let error = |bytes: &[u8], limits| values([bytes], limits).1;
        assert_eq!(error(br#"["0123456789"]"#, Limits::of_bytes(10)), Some(StreamError::TooLong(10)));
        assert_eq!(error(br#"["0123456789"]"#, Limits::of_bytes(13)), Some(StreamError::TooLong(13)));
        assert_eq!(error(br#"["0123456789"]"#, Limits::of_bytes(14)), None);
        assert_eq!(error(&[b'['; 1001], Limits::of_bytes(2000)), Some(StreamError::TooDeep));
        assert_eq!(error(b"]", Limits::of_bytes(1000)), Some(StreamError::Stray(b']')));
        let three = Limits { bytes: 1000, values: 3 };
        assert_eq!(error(br#"{"a":[1]}["a,b:c",{}]"#, three), None);
        assert_eq!(error(b"[1,2,3,4]", three), Some(StreamError::TooMany(3)));
        assert_eq!(error(br#"{"a":[{"b""#, Limits { values: 4, ..three }), None);
        assert_eq!(error(br#"{"a":[{"b":"#, Limits { values: 4, ..three }), Some(StreamError::TooMany(4)));
    }

    #[test]
    fn many_values_in_few_bytes_are_refused_before_they_are_parsed() {
        let limits = Limits { bytes: 64 << 20, values: 1 << 20 };
        let mut splitter = Splitter::new(limits);
        let text = format!("[{}0]", "0,".repeat(30_000_000));
        let read = text.as_bytes().chunks(65_536).position(|piece| {
            splitter.push(piece);
            splitter.next_text().is_err()
        });
        // The value is refused after 2 MiB.
        assert_eq!(read, Some(32));
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut splitter = splitter(64);
            splitter.push(&bytes);
            while let Ok(Some(_)) = splitter.next_value() {}
        }

        /// However a text is split into pieces, the result is that of `serde_json` for the complete text.
        #[test]
        fn agrees_with_serde_json(
            texts in proptest::collection::vec(r#"[\[\]{}:,"\\a0 ]{1,12}|\[[0-9,]{1,9}\]|\{"[a-z\\"]{1,4}":"[,:\]]{0,3}"\}"#, 1..6),
            cuts in proptest::collection::vec(1..20usize, 1..12),
        ) {
            let text = texts.concat().into_bytes();
            let mut pieces = Vec::new();
            let mut rest = &text[..];
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break; }
                let (piece, more) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece);
                rest = more;
            }
            let limits = Limits::of_bytes(1000);
            let whole = values([&text[..]], limits);
            prop_assert_eq!(&values(pieces, limits), &whole);
            let mut known = Vec::new();
            for value in serde_json::Deserializer::from_slice(&text).into_iter::<Json>() {
                match value {
                    Ok(value) if value.is_object() || value.is_array() => known.push(value),
                    _ => break,
                }
            }
            prop_assert!(whole.0.starts_with(&known), "{:?} {:?}", whole.0, known);
        }
    }
}
