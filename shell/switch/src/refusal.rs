//! Why an interface could not be added.

/// Why an interface could not be added.
pub(crate) struct Refusal {
    /// The text for column `error` of the interface's row.
    pub why: String,
    /// Whether the reason has been logged already.
    pub logged: bool,
}

impl From<String> for Refusal {
    fn from(why: String) -> Refusal {
        Refusal { why, logged: false }
    }
}

impl From<&str> for Refusal {
    fn from(why: &str) -> Refusal {
        why.to_owned().into()
    }
}
