//! Reads JSON objects member by member, with the error texts of Open vSwitch.
//!
//! [`Members`] records which members were read, so that [`Members::finish`] can refuse objects with other members. Only
//! the first error is returned.

use crate::error::Error;
use crate::json::{as_integer, is_id};
use serde_json::{Map, Value as Json};

/// The kinds of JSON value that a member may have, as a set of bits.
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

    /// Either of two kinds.
    pub const fn or(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    /// Whether a value is of one of these kinds.
    fn admits(self, json: &Json) -> bool {
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
    /// The object; `None` if the JSON is not an object.
    object: Option<&'a Map<String, Json>>,
    whole: &'a Json,
    /// Name of the object in error messages.
    name: String,
    /// The members that were read.
    used: Vec<&'static str>,
    /// The first error.
    error: Option<Error>,
}

impl<'a> Members<'a> {
    /// Starts to read `json`. `name`: its name in error messages.
    pub fn new(json: &'a Json, name: impl Into<String>) -> Self {
        let object = json.as_object();
        let mut it = Members { object, whole: json, name: name.into(), used: Vec::new(), error: None };
        if object.is_none() {
            it.raise("Object expected.");
        }
        it
    }

    /// A member that must be present.
    pub fn required(&mut self, name: &'static str, kinds: Kinds) -> Option<&'a Json> {
        let object = self.object?;
        if !object.contains_key(name) {
            self.raise(&format!("Required '{name}' member is missing."));
        }
        self.optional(name, kinds)
    }

    /// A member that may be missing.
    pub fn optional(&mut self, name: &'static str, kinds: Kinds) -> Option<&'a Json> {
        let value = self.object?.get(name)?;
        if !kinds.admits(value) {
            self.raise(&format!("Type mismatch for member '{name}'."));
            return None;
        }
        if !self.used.contains(&name) {
            self.used.push(name);
        }
        Some(value)
    }

    /// The complete object, to be quoted in errors.
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

    /// Returns the recorded error, if there is one.
    pub fn check(&self) -> Result<(), Error> {
        self.error.clone().map_or(Ok(()), Err)
    }

    /// Returns the recorded error, or an error if the object has members that were not read.
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
}
