//! The error object of RFC 7047 section 3.1 (`{"error": ..., "details": ..., "syntax": ...}`).
//!
//! Tags and details are an interface: scripts compare them, so their texts are those of Open vSwitch's `ovsdb-server`.

use crate::json::sorted_string;
use serde_json::Map;
use serde_json::Value as Json;
use std::borrow::Cow;
use std::fmt;

/// An error as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The `error` member, for example `constraint violation`.
    pub tag: Cow<'static, str>,
    /// The `details` member.
    pub details: Option<String>,
    /// The `syntax` member: the offending JSON, members sorted.
    pub syntax: Option<String>,
    /// The `io-error` member: the operating system's text.
    pub io: Option<String>,
}

impl Error {
    /// An error with tag and details.
    pub fn new(tag: &'static str, details: impl Into<String>) -> Self {
        Error { tag: Cow::Borrowed(tag), details: Some(details.into()), syntax: None, io: None }
    }

    /// An error without a specific tag.
    pub fn plain(details: impl Into<String>) -> Self {
        Error::new("ovsdb error", details)
    }

    /// A `syntax error` that quotes the offending JSON.
    pub fn syntax(json: &Json, details: impl Into<String>) -> Self {
        Error::quoting("syntax error", json, details)
    }

    /// A `syntax error` that does not quote the JSON.
    pub fn bare_syntax(details: impl Into<String>) -> Self {
        Error::new("syntax error", details)
    }

    /// An error with this tag that quotes the offending JSON.
    pub fn quoting(tag: &'static str, json: &Json, details: impl Into<String>) -> Self {
        Error { syntax: Some(sorted_string(json)), ..Error::new(tag, details) }
    }

    /// An `I/O error`: a transaction could not be stored.
    pub fn io(details: impl Into<String>, cause: impl Into<String>) -> Self {
        Error { io: Some(cause.into()), ..Error::new("I/O error", details) }
    }

    /// A `constraint violation`.
    pub fn constraint(details: impl Into<String>) -> Self {
        Error::new("constraint violation", details)
    }

    /// The error object sent to the client.
    pub fn to_json(&self) -> Json {
        let mut object = Map::new();
        object.insert("error".into(), Json::String(self.tag.to_string()));
        let rest = [("details", &self.details), ("syntax", &self.syntax), ("io-error", &self.io)];
        for (name, text) in rest {
            if let Some(text) = text {
                object.insert(name.into(), Json::String(text.clone()));
            }
        }
        Json::Object(object)
    }

    /// Decodes a server's error object; `None` if `json` is not one.
    pub fn from_json(json: &Json) -> Option<Self> {
        let text = |name: &str| json.get(name).and_then(Json::as_str).map(str::to_owned);
        Some(Error {
            tag: Cow::Owned(text("error")?),
            details: text("details"),
            syntax: text("syntax"),
            io: text("io-error"),
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(syntax) = &self.syntax {
            write!(f, "syntax \"{syntax}\": ")?;
        }
        f.write_str(&self.tag)?;
        if let Some(details) = &self.details {
            write!(f, ": {details}")?;
        }
        if let Some(io) = &self.io {
            write!(f, " ({io})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
