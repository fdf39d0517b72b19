//! Splits a list into items: `name`, `name=value`, `name(inside)`.

use super::error::TextError;
use flow::text::parse_integer;

/// Maximum nesting depth of lists.
pub(super) const DEPTH_MAX: usize = 10;

/// One item of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item<'a> {
    pub(super) name: &'a str,
    /// The text after `=`.
    pub(super) value: Option<&'a str>,
    /// The text between the parentheses.
    pub(super) inside: Option<&'a str>,
    /// The complete text of the item.
    pub(super) text: &'a str,
    /// The item and the rest of its list, for error messages.
    pub(super) rest: &'a str,
}

impl<'a> Item<'a> {
    pub(super) fn error(&self) -> TextError {
        TextError::Syntax(self.rest.to_owned())
    }

    /// The text in parentheses, which are required.
    pub(super) fn list(&self) -> Result<&'a str, TextError> {
        self.inside.ok_or_else(|| self.error())
    }

    /// The number after `=`.
    pub(super) fn number<T: TryFrom<u128>>(&self) -> Result<T, TextError> {
        self.value.and_then(number).ok_or_else(|| self.error())
    }

    /// The number in parentheses.
    pub(super) fn argument<T: TryFrom<u128>>(&self) -> Result<T, TextError> {
        self.inside.and_then(number).ok_or_else(|| self.error())
    }
}

pub(super) fn number<T: TryFrom<u128>>(text: &str) -> Option<T> {
    parse_integer(text.trim_start(), 16).and_then(|v| T::try_from(v).ok())
}

/// Parses a value and a mask; a missing mask is `full`.
pub(super) fn masked<T: TryFrom<u128> + Copy>(text: &str, full: T) -> Option<(T, T)> {
    match text.split_once('/') {
        Some((value, mask)) => Some((number(value)?, number(mask)?)),
        None => Some((number(text)?, full)),
    }
}

/// Characters that separate items.
const SEPARATORS: &[char] = &[',', ' ', '\t', '\r', '\n'];

/// Splits a list into items. Fails if parentheses and braces are not balanced.
pub(super) fn items(text: &str) -> Result<Vec<Item<'_>>, TextError> {
    let mut out = Vec::new();
    let mut rest = text.trim_start_matches(SEPARATORS);
    while !rest.is_empty() {
        let len = item_len(rest).ok_or_else(|| TextError::Syntax(rest.to_owned()))?;
        let (item, after) = rest.split_at(len);
        out.push(split(item, rest));
        rest = after.trim_start_matches(SEPARATORS);
    }
    Ok(out)
}

fn item_len(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut value_begins = false;
    for (at, c) in text.char_indices() {
        // White space may precede a value.
        let skipped = value_begins && c.is_ascii_whitespace();
        value_begins = c == '=' || skipped;
        match c {
            _ if skipped => {}
            '(' | '{' => depth += 1,
            ')' | '}' => depth = depth.checked_sub(1)?,
            c if depth == 0 && SEPARATORS.contains(&c) => return Some(at),
            _ => {}
        }
    }
    (depth == 0).then_some(text.len())
}

fn split<'a>(text: &'a str, list: &'a str) -> Item<'a> {
    let at = text.find(['=', '(']).unwrap_or(text.len());
    let (name, rest) = text.split_at(at);
    let value = rest.strip_prefix('=');
    let inside = rest.strip_prefix('(').and_then(|r| r.strip_suffix(')'));
    let name = if rest.starts_with('(') && inside.is_none() { text } else { name };
    Item { name, value, inside, text, rest: list }
}
