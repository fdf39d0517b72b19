//! Parses JSON in arguments, and schemas in files that arguments name.

use super::context::Fail;
use ovsdb::{Json, Schema};
use std::path::Path;

/// JSON from the command line.
pub fn json(text: &str) -> Result<Json, Fail> {
    text.parse().map_err(|e| Fail::Message(format!("\"{text}\": {e}")))
}

/// The schema in a file.
pub fn schema(path: &Path) -> Result<Schema, Fail> {
    let name = path.display();
    let unreadable =
        |why: String| format!("failed to read schema: \"{name}\" could not be read as JSON ({why})");
    let text = std::fs::read_to_string(path)
        .map_err(|e| unreadable(format!("error opening \"{name}\": {}", runtime::error_text(&e))))?;
    let json: Json = text.parse().map_err(|e| unreadable(format!("{e}")))?;
    Ok(Schema::from_json(&json).map_err(|e| format!("failed to parse \"{name}\" as ovsdb schema ({e})"))?)
}
