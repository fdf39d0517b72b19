//! Cuts a byte stream into JSON values.
//!
//! OVSDB sends JSON objects back to back without framing. The splitter follows nesting and
//! strings only, keeps at most one unfinished value, and refuses values that are larger or
//! deeper than its limits, so that a peer cannot make it use more memory than agreed.

use crate::Json;

/// Nesting that any real message stays far below; parsing is recursive, so there is a limit.
const MAX_DEPTH: usize = 100;

/// Why a stream cannot be read on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// A value is larger than the limit, in bytes.
    #[error("message longer than {0} bytes")]
    TooLong(usize),
    /// A value is nested too deeply.
    #[error("message nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
    /// Something that is no object or array.
    #[error("byte {0:#04x} where a JSON object or array must begin")]
    Stray(u8),
    /// The value is not JSON.
    #[error("not valid JSON: {0}")]
    Syntax(String),
}

/// How a zero byte is written in a string.
const NUL: &[u8] = b"\\u0000";

/// A string in it, or the name of a member, has a zero byte. Recursion ends at `MAX_DEPTH`.
fn has_nul(value: &Json) -> bool {
    match value {
        Json::String(s) => s.contains('\0'),
        Json::Array(a) => a.iter().any(has_nul),
        Json::Object(o) => o.iter().any(|(k, v)| k.contains('\0') || has_nul(v)),
        _ => false,
    }
}

/// An incremental splitter.
pub struct Splitter {
    buffer: Vec<u8>,
    /// Bytes of `buffer` that have been looked at.
    seen: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
    max_len: usize,
}

impl Splitter {
    /// A splitter for values of at most `max_len` bytes.
    pub fn new(max_len: usize) -> Splitter {
        Splitter { buffer: Vec::new(), seen: 0, depth: 0, in_string: false, escaped: false, max_len }
    }

    /// Adds what was received.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole value, if there is one. After an error the stream is of no use.
    pub fn next_value(&mut self) -> Result<Option<Json>, StreamError> {
        while let Some(&byte) = self.buffer.get(self.seen) {
            if self.depth == 0 && byte.is_ascii_whitespace() {
                let blank = self.buffer.iter().take_while(|b| b.is_ascii_whitespace()).count();
                self.buffer.drain(..blank);
                continue;
            }
            self.seen += 1;
            if self.step(byte)? {
                let text = &self.buffer[..self.seen];
                let parsed = serde_json::from_slice(text).map_err(|e| StreamError::Syntax(e.to_string()));
                // Clients in C cannot hold such a string. What looks like one may be an escaped backslash.
                let suspect = text.windows(NUL.len()).any(|w| w == NUL);
                self.buffer.drain(..self.seen);
                self.seen = 0;
                let value = parsed?;
                if suspect && has_nul(&value) {
                    return Err(StreamError::Syntax("null bytes not supported in quoted strings".to_owned()));
                }
                return Ok(Some(value));
            }
            if self.seen > self.max_len {
                return Err(StreamError::TooLong(self.max_len));
            }
        }
        Ok(None)
    }

    /// Follows one byte; true when it ends a value.
    fn step(&mut self, byte: u8) -> Result<bool, StreamError> {
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
                self.depth += 1;
                if self.depth > MAX_DEPTH { Err(StreamError::TooDeep) } else { Ok(false) }
            }
            _ if self.depth == 0 => Err(StreamError::Stray(byte)),
            b'}' | b']' => {
                self.depth -= 1;
                Ok(self.depth == 0)
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

    #[test]
    fn values_back_to_back_in_any_pieces() {
        let text = br#"{"a":"}\"{"}[1,[2]] {"b":{}}"#;
        for size in 1..text.len() {
            let mut splitter = Splitter::new(100);
            let mut values = Vec::new();
            for piece in text.chunks(size) {
                splitter.push(piece);
                while let Some(value) = splitter.next_value().unwrap() {
                    values.push(value);
                }
            }
            assert_eq!(values, [json!({"a": "}\"{"}), json!([1, [2]]), json!({"b": {}})]);
        }
    }

    #[test]
    fn zero_bytes_are_refused() {
        let next = |text: &str| {
            let mut splitter = Splitter::new(100);
            splitter.push(text.as_bytes());
            splitter.next_value()
        };
        assert!(next(r#"["a\u0000b"]"#).is_err() && next(r#"{"\u0000":1}"#).is_err());
        assert_eq!(next(r#"["\\u0000"]"#), Ok(Some(json!(["\\u0000"]))));
    }

    #[test]
    fn limits_hold() {
        let mut splitter = Splitter::new(10);
        splitter.push(br#"["0123456789"]"#);
        assert_eq!(splitter.next_value(), Err(StreamError::TooLong(10)));
        let mut splitter = Splitter::new(1000);
        splitter.push(&[b'['; 200]);
        assert_eq!(splitter.next_value(), Err(StreamError::TooDeep));
        let mut splitter = Splitter::new(1000);
        splitter.push(b"]");
        assert_eq!(splitter.next_value(), Err(StreamError::Stray(b']')));
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut splitter = Splitter::new(64);
            splitter.push(&bytes);
            while let Ok(Some(_)) = splitter.next_value() {}
        }
    }
}
