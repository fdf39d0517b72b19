//! The text of errors.

/// The system's text for an error, without Rust's `(os error N)` suffix.
pub fn error_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(at) => text.get(..at).unwrap_or_default().to_string(),
        None => text,
    }
}
