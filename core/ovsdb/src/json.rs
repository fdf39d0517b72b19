//! Reads JSON objects member by member, with the errors of the database protocol.
//!
//! [`Members`] records which members were read, so that [`Members::finish`] can refuse others. The first
//! error is reported.

use crate::{Error, Json, Uuid};
use serde_json::Map;
use std::fmt::Write;

/// The kinds of JSON values that a member may have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// `true` or `false`.
    pub const BOOLEAN: Kinds = Kinds(1);
    /// A number with an integer value.
    pub const INTEGER: Kinds = Kinds(2);
    /// Any number.
    pub const NUMBER: Kinds = Kinds(4 | 2);
    /// A string.
    pub const STRING: Kinds = Kinds(8);
    /// A string that is an `<id>`.
    pub const ID: Kinds = Kinds(16);
    /// An array.
    pub const ARRAY: Kinds = Kinds(32);
    /// An object.
    pub const OBJECT: Kinds = Kinds(64);

    /// The union of two sets.
    pub const fn or(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    fn admit(self, json: &Json) -> bool {
        let bits = match json {
            Json::Null => 0,
            Json::Bool(_) => 1,
            Json::Number(_) if as_integer(json).is_some() => 2,
            Json::Number(_) => 4,
            Json::String(s) if is_id(s) => 8 | 16,
            Json::String(_) => 8,
            Json::Array(_) => 32,
            Json::Object(_) => 64,
        };
        self.0 & bits != 0
    }
}

/// Reads the members of an object.
pub struct Members<'a> {
    object: Option<&'a Map<String, Json>>,
    whole: &'a Json,
    name: String,
    used: Vec<&'static str>,
    error: Option<Error>,
}

impl<'a> Members<'a> {
    /// Starts to read `json`, which error messages call `name`.
    pub fn new(json: &'a Json, name: impl Into<String>) -> Self {
        let object = json.as_object();
        let mut it = Members { object, whole: json, name: name.into(), used: Vec::new(), error: None };
        if object.is_none() {
            it.raise("Object expected.");
        }
        it
    }

    /// Reads a required member.
    pub fn required(&mut self, name: &'static str, kinds: Kinds) -> Option<&'a Json> {
        let object = self.object?;
        if !object.contains_key(name) {
            self.raise(&format!("Required '{name}' member is missing."));
        }
        self.optional(name, kinds)
    }

    /// Reads an optional member.
    pub fn optional(&mut self, name: &'static str, kinds: Kinds) -> Option<&'a Json> {
        let value = self.object?.get(name)?;
        if !kinds.admit(value) {
            self.raise(&format!("Type mismatch for member '{name}'."));
            return None;
        }
        if !self.used.contains(&name) {
            self.used.push(name);
        }
        Some(value)
    }

    /// The whole object, to quote it.
    pub fn whole(&self) -> &'a Json {
        self.whole
    }

    /// Records an error, unless there is one already.
    pub fn raise(&mut self, message: &str) {
        if self.error.is_some() {
            return;
        }
        let details = format!("Parsing {} failed: {message}", self.name);
        self.error = Some(match self.object {
            Some(_) => Error::syntax(self.whole, details),
            None => Error::bare_syntax(details),
        });
    }

    /// Returns the error recorded so far.
    pub fn check(&self) -> Result<(), Error> {
        self.error.clone().map_or(Ok(()), Err)
    }

    /// Returns the error recorded so far; members that were not read are an error too.
    pub fn finish(mut self) -> Result<(), Error> {
        if let (None, Some(object)) = (&self.error, self.object) {
            let mut extra = object.keys().filter(|k| !self.used.contains(&k.as_str()));
            if let Some(first) = extra.next() {
                let more = extra.count();
                let message = match more {
                    0 => format!("Member '{first}' is present but not allowed here."),
                    _ => format!(
                        "Member '{first}' and {more} other member{} are present but not allowed here.",
                        if more > 1 { "s" } else { "" }
                    ),
                };
                self.raise(&message);
            }
        }
        self.check()
    }
}

/// Whether `text` is an `<id>`: a letter or underscore, then letters, digits, underscores.
pub fn is_id(text: &str) -> bool {
    let head = text.bytes().next().is_some_and(|c| c.is_ascii_alphabetic() || c == b'_');
    head && text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
}

/// The integer value of a number; `1.0` and `1e3` are integers, as in `ovsdb-server`.
pub fn as_integer(json: &Json) -> Option<i64> {
    json.as_i64().or_else(|| {
        let real = json.as_f64()?;
        let exact = real.fract() == 0.0 && (-9.2e18..=9.2e18).contains(&real);
        exact.then_some(real as i64)
    })
}

/// Parses a UUID in its 36-character form.
pub fn parse_uuid(text: &str) -> Option<Uuid> {
    if text.len() == 36 { Uuid::try_parse(text).ok() } else { None }
}

/// JSON text with the members of all objects sorted.
pub fn sorted_string(json: &Json) -> String {
    let mut out = String::new();
    write_sorted(json, &mut out);
    out
}

fn write_sorted(json: &Json, out: &mut String) {
    match json {
        Json::Object(object) => {
            let mut members: Vec<_> = object.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            out.push('{');
            for (i, (name, value)) in members.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push_str(&quoted(name));
                out.push(':');
                write_sorted(value, out);
            }
            out.push('}');
        }
        Json::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_sorted(item, out);
            }
            out.push(']');
        }
        // Writing into a String cannot fail.
        leaf => _ = write!(out, "{leaf}"),
    }
}

/// `text` as a JSON string.
pub fn quoted(text: &str) -> String {
    Json::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_members_are_refused_in_the_expected_words() {
        let json = json!({"op": "abort", "x": 1});
        let mut members = Members::new(&json, "ovsdb operation 1 of 1");
        assert!(members.required("op", Kinds::ID).is_some());
        let error = members.finish().unwrap_err();
        assert_eq!(
            error.details.as_deref(),
            Some("Parsing ovsdb operation 1 of 1 failed: Member 'x' is present but not allowed here.")
        );
        assert_eq!(error.syntax.as_deref(), Some(r#"{"op":"abort","x":1}"#));
    }

    #[test]
    fn integers_may_be_written_as_reals() {
        assert_eq!(as_integer(&json!(1.0)), Some(1));
        assert_eq!(as_integer(&json!(1.5)), None);
        assert_eq!(as_integer(&json!(u64::MAX)), None);
    }

    #[test]
    fn sorting_reaches_nested_objects() {
        assert_eq!(
            sorted_string(&json!({"b": [{"d": 1, "c": null}], "a": "\"" })),
            r#"{"a":"\"","b":[{"c":null,"d":1}]}"#
        );
    }
}
