//! One atomic value.

use crate::atomic_type::AtomicType;
use crate::json::{parse_uuid, quoted};
use serde_json::Number;
use serde_json::Value as Json;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use uuid::Uuid;

/// A finite real number with a total order; negative zero equals zero.
#[derive(Clone, Copy, Debug)]
pub struct Real(f64);

impl Real {
    /// Wraps `value` unless it is infinite or not a number.
    pub fn new(value: f64) -> Option<Real> {
        value.is_finite().then_some(Real(if value == 0.0 { 0.0 } else { value }))
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl PartialEq for Real {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Real {}

impl PartialOrd for Real {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Real {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// An atomic value. The order of different types is arbitrary, as all atoms of a column have one type.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Atom {
    /// A 64-bit signed integer.
    Integer(i64),
    /// A real number.
    Real(Real),
    /// True or false.
    Boolean(bool),
    /// A string.
    String(Arc<str>),
    /// The UUID of a row, or any other UUID.
    Uuid(Uuid),
}

impl Clone for Atom {
    // UUIDs are copied inline: each change of a Bridge row copies its column `ports`, which may have 10,000
    // UUIDs.
    #[inline]
    fn clone(&self) -> Atom {
        match self {
            Atom::Uuid(v) => Atom::Uuid(*v),
            other => other.clone_without_uuid(),
        }
    }
}

impl Atom {
    #[inline(never)]
    fn clone_without_uuid(&self) -> Atom {
        match self {
            Atom::Integer(v) => Atom::Integer(*v),
            Atom::Real(v) => Atom::Real(*v),
            Atom::Boolean(v) => Atom::Boolean(*v),
            Atom::String(v) => Atom::String(Arc::clone(v)),
            Atom::Uuid(v) => Atom::Uuid(*v),
        }
    }

    /// The default value of a column of this type.
    pub fn default_of(kind: AtomicType) -> Atom {
        match kind {
            AtomicType::Integer => Atom::Integer(0),
            AtomicType::Real => Atom::Real(Real(0.0)),
            AtomicType::Boolean => Atom::Boolean(false),
            AtomicType::String => Atom::String(Arc::from("")),
            AtomicType::Uuid => Atom::Uuid(Uuid::nil()),
        }
    }

    /// Whether this is the value of [`Atom::default_of`].
    pub fn is_default(&self) -> bool {
        match self {
            Atom::Integer(v) => *v == 0,
            Atom::Real(v) => v.0 == 0.0,
            Atom::Boolean(v) => !v,
            Atom::String(v) => v.is_empty(),
            Atom::Uuid(v) => v.is_nil(),
        }
    }

    /// The `<atom>` notation of RFC 7047.
    pub fn to_json(&self) -> Json {
        match self {
            Atom::Integer(v) => Json::from(*v),
            // Integral values are printed without a point, as `ovsdb-server` does.
            Atom::Real(v) if v.0.fract() == 0.0 && v.0.abs() < 1e15 => Json::from(v.0 as i64),
            Atom::Real(v) => Number::from_f64(v.0).map_or(Json::Null, Json::Number),
            Atom::Boolean(v) => Json::Bool(*v),
            Atom::String(v) => Json::String(v.to_string()),
            Atom::Uuid(v) => Json::Array(vec!["uuid".into(), v.to_string().into()]),
        }
    }

    /// The string, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Atom::String(v) => Some(v),
            _ => None,
        }
    }

    /// The integer, if this is one.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Atom::Integer(v) => Some(*v),
            _ => None,
        }
    }

    /// The boolean, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Atom::Boolean(v) => Some(*v),
            _ => None,
        }
    }

    /// The UUID, if this is one.
    pub fn as_uuid(&self) -> Option<Uuid> {
        match self {
            Atom::Uuid(v) => Some(*v),
            _ => None,
        }
    }
}

impl From<i64> for Atom {
    fn from(value: i64) -> Atom {
        Atom::Integer(value)
    }
}

impl From<bool> for Atom {
    fn from(value: bool) -> Atom {
        Atom::Boolean(value)
    }
}

impl From<&str> for Atom {
    fn from(value: &str) -> Atom {
        Atom::String(Arc::from(value))
    }
}

impl From<String> for Atom {
    fn from(value: String) -> Atom {
        Atom::String(Arc::from(value))
    }
}

impl From<Uuid> for Atom {
    fn from(value: Uuid) -> Atom {
        Atom::Uuid(value)
    }
}

/// The notation of command lines and error messages: strings are quoted unless they are plain words that
/// cannot be mistaken for another type.
impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Atom::Integer(v) => write!(f, "{v}"),
            Atom::Real(v) => f.write_str(&format_real(v.0)),
            Atom::Boolean(v) => write!(f, "{v}"),
            Atom::String(v) if is_plain_word(v) => f.write_str(v),
            Atom::String(v) => f.write_str(&quoted(v)),
            Atom::Uuid(v) => write!(f, "{v}"),
        }
    }
}

/// Whether a string can be printed without quotation marks.
fn is_plain_word(text: &str) -> bool {
    let head = text.bytes().next().is_some_and(|c| c.is_ascii_alphabetic() || c == b'_');
    head && text.bytes().all(|c| c.is_ascii_alphanumeric() || b"_-.".contains(&c))
        && text != "true"
        && text != "false"
        && parse_uuid(text).is_none()
}

/// Formats a number like `%.15g` in C.
pub(crate) fn format_real(value: f64) -> String {
    const DIGITS: i32 = 15;
    let scientific = format!("{:.*e}", DIGITS as usize - 1, value);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..DIGITS).contains(&exponent) {
        trim(&format!("{:.*}", (DIGITS - 1 - exponent) as usize, value))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trim(mantissa), exponent.abs())
    }
}
