//! Reply formats, and the `set-options` command that selects one.

use ovsdb::Json;
use ovsdb::json::{quoted, sorted_string};
use std::borrow::Cow;

/// The reply format of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Text for users.
    #[default]
    Text,
    /// JSON for programs.
    Json,
}

impl Format {
    /// The format of this name; letter case is ignored.
    pub fn from_name(name: &str) -> Option<Format> {
        match name {
            _ if name.eq_ignore_ascii_case("text") => Some(Format::Text),
            _ if name.eq_ignore_ascii_case("json") => Some(Format::Json),
            _ => None,
        }
    }

    /// Parses the arguments of `set-options`; the error is the text of the reply.
    pub(crate) fn with_options(self, args: &[String]) -> Result<Format, String> {
        let mut format = self;
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let Some(option) = arg.strip_prefix("--").filter(|o| !o.is_empty()) else { continue };
            let (name, value) = match option.split_once('=') {
                Some((n, v)) => (n, Some(v)),
                None => (option, None),
            };
            if name.is_empty() || !"format".starts_with(name) {
                return Err(format!("unrecognized option '{arg}'"));
            }
            let value = value.or_else(|| args.next().map(String::as_str));
            let value = value.ok_or("option '--format' requires an argument")?;
            format = Format::from_name(value).ok_or(format!("option format has invalid value {value}"))?;
        }
        Ok(format)
    }
}

/// The reply to a command that succeeded.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Text. For a client that has chosen JSON, the text is put into a JSON object.
    Text(String),
    /// JSON, for a client that has chosen JSON (`Request::format`).
    Json(Json),
}

impl Reply {
    /// Encodes the reply as the text of a JSON value.
    pub(crate) fn encode(&self, format: Format) -> String {
        match (self, format) {
            (Reply::Text(text), Format::Text) => quoted(&with_newline(text)),
            (Reply::Text(text), Format::Json) => {
                format!("{{\"reply\":{},\"reply-format\":\"plain\"}}", quoted(text))
            }
            (Reply::Json(json), Format::Json) => sorted_string(json),
            (Reply::Json(json), Format::Text) => quoted(&sorted_string(json)),
        }
    }
}

/// Adds a newline to a text that does not end with one, because clients of Open vSwitch before 3.5 print the text unchanged.
pub(crate) fn with_newline(text: &str) -> Cow<'_, str> {
    match text.is_empty() || text.ends_with('\n') {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!("{text}\n")),
    }
}

impl From<String> for Reply {
    fn from(text: String) -> Reply {
        Reply::Text(text)
    }
}

impl From<&str> for Reply {
    fn from(text: &str) -> Reply {
        Reply::Text(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_choose_the_format() {
        let set =
            |args: &[&str]| Format::Text.with_options(&args.iter().map(|a| (*a).into()).collect::<Vec<_>>());
        assert_eq!(set(&["--format", "json"]), Ok(Format::Json));
        assert_eq!(set(&["--format=JSON"]), Ok(Format::Json));
        assert_eq!(set(&["--format", "xml"]), Err("option format has invalid value xml".into()));
        assert_eq!(set(&["--bogus", "x"]), Err("unrecognized option '--bogus'".into()));
        assert!(set(&["--format"]).is_err());
    }

    #[test]
    fn text_is_wrapped_for_programs() {
        let reply = Reply::from("a\n");
        assert_eq!(reply.encode(Format::Text), r#""a\n""#);
        assert_eq!(reply.encode(Format::Json), r#"{"reply":"a\n","reply-format":"plain"}"#);
    }
}
