//! Prints values as JSON text directly, without a tree of JSON values. This makes notifications to many clients or
//! about many rows faster. The text is the same as with `to_json`.

use super::{Atom, Datum};
use uuid::Uuid;

/// Appends a JSON string.
pub(crate) fn push_string(out: &mut String, text: &str) {
    if text.bytes().any(|b| b < b' ' || b == b'"' || b == b'\\') {
        out.push_str(&serde_json::Value::from(text).to_string());
        return;
    }
    out.push('"');
    out.push_str(text);
    out.push('"');
}

/// Appends a UUID as a JSON string.
pub(crate) fn push_uuid(out: &mut String, uuid: Uuid) {
    out.push('"');
    out.push_str(uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()));
    out.push('"');
}

impl Atom {
    fn push_text(&self, out: &mut String) {
        match self {
            Atom::String(text) => push_string(out, text),
            Atom::Uuid(uuid) => {
                out.push_str("[\"uuid\",");
                push_uuid(out, *uuid);
                out.push(']');
            }
            Atom::Boolean(true) => out.push_str("true"),
            Atom::Boolean(false) => out.push_str("false"),
            Atom::Integer(_) | Atom::Real(_) => out.push_str(&self.to_json().to_string()),
        }
    }
}

impl Datum {
    /// Appends the text of [`Datum::to_json`].
    pub(crate) fn push_text(&self, out: &mut String) {
        match self {
            Datum::Set(atoms) if atoms.len() == 1 => atoms[0].push_text(out),
            Datum::Set(atoms) => {
                out.push_str("[\"set\",");
                push_list(out, ['[', ']'], atoms, |out, atom| atom.push_text(out));
                out.push(']');
            }
            Datum::Map(pairs) => {
                out.push_str("[\"map\",");
                push_list(out, ['[', ']'], pairs, |out, (key, value)| {
                    out.push('[');
                    key.push_text(out);
                    out.push(',');
                    value.push_text(out);
                    out.push(']');
                });
                out.push(']');
            }
        }
    }
}

/// Appends items separated by commas.
pub(crate) fn push_list<T>(
    out: &mut String,
    [open, close]: [char; 2],
    items: impl IntoIterator<Item = T>,
    mut push: impl FnMut(&mut String, T),
) {
    out.push(open);
    for (number, item) in items.into_iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        push(out, item);
    }
    out.push(close);
}
