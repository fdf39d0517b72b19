//! JSON helpers: text with sorted members, integers, identifiers, UUIDs, memory.

use serde_json::Value as Json;
use std::fmt::Write;
use uuid::Uuid;

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

/// Estimated memory of a value and of all values in it, in bytes.
pub fn memory(json: &Json) -> usize {
    size_of::<Json>() + heap_memory(json)
}

/// Estimated memory that a value has allocated, in bytes.
fn heap_memory(json: &Json) -> usize {
    match json {
        Json::Null | Json::Bool(_) | Json::Number(_) => 0,
        Json::String(text) => string_memory(text.len()),
        Json::Array(items) => array_memory(items.capacity()) + items.iter().map(heap_memory).sum::<usize>(),
        Json::Object(object) => {
            let members = object.iter().map(|(name, value)| string_memory(name.len()) + heap_memory(value));
            object_memory(object.len()) + members.sum::<usize>()
        }
    }
}

/// Overhead of an allocation in bytes: the header of the allocator, and rounding.
const ALLOCATION: usize = 32;

/// Estimated memory that a string allocates, in bytes.
pub(crate) fn string_memory(len: usize) -> usize {
    ALLOCATION + len
}

/// Estimated memory that an array allocates, in bytes, without what its elements allocate.
pub(crate) fn array_memory(capacity: usize) -> usize {
    ALLOCATION + capacity * size_of::<Json>()
}

/// Estimated memory that an object allocates, in bytes, without its names and what its values allocate. A member has a
/// `String` as name, a hash and an entry in a hash table. Capacities are powers of two, and at least four.
pub(crate) fn object_memory(members: usize) -> usize {
    let member = size_of::<String>() + size_of::<Json>() + 24;
    2 * ALLOCATION + members.max(4).next_power_of_two() * member
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn integers_may_be_written_as_reals() {
        assert_eq!(as_integer(&json!(1.0)), Some(1));
        assert_eq!(as_integer(&json!(1.5)), None);
        assert_eq!(as_integer(&json!(u64::MAX)), None);
    }

    #[test]
    fn memory_includes_nested_values() {
        let value = size_of::<Json>();
        assert_eq!(memory(&json!(1)), value);
        assert!(memory(&json!(["x".repeat(1000), [1, 2, 3]])) > 1000 + 6 * value);
        assert!(memory(&json!({"a": {"b": "x".repeat(1000)}, "c": 1})) > 1000 + 4 * value);
    }

    #[test]
    fn sorting_reaches_nested_objects() {
        assert_eq!(
            sorted_string(&json!({"b": [{"d": 1, "c": null}], "a": "\"" })),
            r#"{"a":"\"","b":[{"c":null,"d":1}]}"#
        );
    }
}
