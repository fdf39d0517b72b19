//! Parses the value of a setting as its entry specifies. An invalid value counts as absent.

use crate::setting::{OutOfRange, Setting, Value};
use std::collections::BTreeMap;

/// The error in a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The value is not valid; the default is used.
    Invalid,
    /// The value is outside the range; this number is used.
    OutOfRange(i64),
}

/// Parses an integer, decimal or hexadecimal with `0x`, ignoring surrounding blanks.
fn number(text: &str) -> Option<i64> {
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) if !hex.starts_with(['+', '-']) => i64::from_str_radix(hex, 16).ok(),
        Some(_) => None,
        None => text.parse().ok(),
    }
}

impl Setting {
    /// The text of the setting, if it is set.
    pub fn get<'a>(&self, map: &'a BTreeMap<String, String>) -> Option<&'a str> {
        map.get(self.key).map(String::as_str)
    }

    /// Whether the text of the setting differs in two maps.
    pub fn differs(&self, a: &BTreeMap<String, String>, b: &BTreeMap<String, String>) -> bool {
        self.get(a) != self.get(b)
    }

    /// Applies the setting's range and default to a number from an integer column or from text.
    pub fn effective_number(&self, given: Option<i64>) -> Option<i64> {
        let Value::Int { min, max, default, outside } = self.value else { return None };
        match (given, outside) {
            (Some(n), _) if (min..=max).contains(&n) => Some(n),
            (Some(0), OutOfRange::NearestOrDefault) => default,
            (Some(n), OutOfRange::Nearest | OutOfRange::NearestOrDefault) => Some(n.clamp(min, max)),
            (Some(n), OutOfRange::Refused) => Some(n),
            _ => default,
        }
    }

    /// The number, or the default if the entry has one.
    pub fn opt_number(&self, map: &BTreeMap<String, String>) -> Option<i64> {
        self.effective_number(self.get(map).and_then(number))
    }

    /// The number of a setting that has a default.
    pub fn number(&self, map: &BTreeMap<String, String>) -> i64 {
        self.opt_number(map).unwrap_or_default()
    }

    /// The flag, parsed as in Open vSwitch: with a default of true, only `false` gives false, and vice versa.
    pub fn flag_of(&self, map: &BTreeMap<String, String>) -> bool {
        self.opt_flag(map).unwrap_or(self.value == Value::Bool(true))
    }

    /// The flag, if set.
    pub fn opt_flag(&self, map: &BTreeMap<String, String>) -> Option<bool> {
        let default = self.value == Value::Bool(true);
        let other = if default { "false" } else { "true" };
        self.get(map).map(|text| default ^ text.eq_ignore_ascii_case(other))
    }

    /// The text of a `Choice` or `Text` setting, or its default; empty if it has none.
    pub fn word<'a>(&self, map: &'a BTreeMap<String, String>) -> &'a str {
        match self.value {
            Value::Choice(_, default) | Value::Text { default, .. } => self.get(map).unwrap_or(default),
            _ => self.get(map).unwrap_or_default(),
        }
    }

    /// The error in a text, if any.
    pub fn fault(&self, text: &str) -> Option<Fault> {
        let wrong = match self.value {
            Value::Bool(_) => !["true", "false"].iter().any(|w| text.eq_ignore_ascii_case(w)),
            Value::Choice(words, _) => !words.iter().any(|w| text.eq_ignore_ascii_case(w)),
            Value::Int { min, max, outside, .. } => match number(text) {
                Some(n) if (min..=max).contains(&n) => false,
                Some(0) if outside == OutOfRange::NearestOrDefault => false,
                Some(n) if matches!(outside, OutOfRange::Nearest | OutOfRange::NearestOrDefault) => {
                    return Some(Fault::OutOfRange(n.clamp(min, max)));
                }
                n => n.is_none() || outside != OutOfRange::Refused,
            },
            Value::Text { .. } | Value::Rows(_) => false,
        };
        wrong.then_some(Fault::Invalid)
    }

    /// The largest valid number.
    pub const fn max(&self) -> i64 {
        match self.value {
            Value::Int { max, .. } => max,
            _ => i64::MAX,
        }
    }

    /// The valid values in words.
    pub fn range(&self) -> String {
        match self.value {
            Value::Bool(_) => "true or false".to_owned(),
            Value::Choice(words, _) => words.join(", "),
            Value::Int { min: i64::MIN, max: i64::MAX, .. } => "a whole number".to_owned(),
            Value::Int { min, max: i64::MAX, .. } => format!("{min} or more"),
            Value::Int { min, max, .. } => format!("{min} to {max}"),
            Value::Text { form: "", .. } => "text".to_owned(),
            Value::Text { form, .. } => form.to_owned(),
            Value::Rows(table) => format!("rows of {table}"),
        }
    }

    /// The default in words; empty if there is none.
    pub fn default_text(&self) -> String {
        match self.value {
            Value::Bool(default) => default.to_string(),
            Value::Choice(_, default) | Value::Text { default, .. } => default.to_owned(),
            Value::Int { default, .. } => default.map_or_else(String::new, |n| n.to_string()),
            Value::Rows(_) => String::new(),
        }
    }

    /// `boolean`, `integer`, `word`, `text` or `rows`.
    pub const fn type_name(&self) -> &'static str {
        match self.value {
            Value::Bool(_) => "boolean",
            Value::Int { .. } => "integer",
            Value::Choice(..) => "word",
            Value::Text { .. } => "text",
            Value::Rows(_) => "rows",
        }
    }
}
