//! The types of atoms (RFC 7047 section 3.2, `<atomic-type>`).

use crate::error::Error;
use serde_json::Value as Json;

/// The type of an atom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicType {
    /// 64-bit signed integer.
    Integer,
    /// Double precision number.
    Real,
    /// True or false.
    Boolean,
    /// Text.
    String,
    /// UUID, usually of a row.
    Uuid,
}

impl AtomicType {
    /// Its name in a schema.
    pub fn name(self) -> &'static str {
        match self {
            AtomicType::Integer => "integer",
            AtomicType::Real => "real",
            AtomicType::Boolean => "boolean",
            AtomicType::String => "string",
            AtomicType::Uuid => "uuid",
        }
    }

    pub(crate) fn from_json(json: &Json) -> Result<Self, Error> {
        let Some(name) = json.as_str() else {
            return Err(Error::syntax(json, "atomic-type expected"));
        };
        let all = [Self::Integer, Self::Real, Self::Boolean, Self::String, Self::Uuid];
        all.into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| Error::syntax(json, format!("\"{name}\" is not an atomic-type")))
    }
}
