//! Column types: `<base-type>` and `<type>` of RFC 7047 section 3.2, with their constraints.

pub use crate::atomic_type::AtomicType;

use crate::Error;
use crate::json::as_integer;
use crate::members::{Kinds, Members};
use crate::value::Real;
use crate::value::{Atom, Datum};
use serde_json::Map;
use serde_json::Value as Json;

/// The table that a UUID column refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefTo {
    /// The table's name.
    pub table: String,
    /// Its index in the schema; set when the complete schema has been parsed.
    pub index: usize,
    /// Whether references are strong. A row cannot be deleted while a strong reference to it exists; in tables that are
    /// not roots, a row is deleted with the last strong reference to it. A weak reference is removed when the row is
    /// deleted.
    pub strong: bool,
}

/// A `<base-type>`: an atomic type and its constraints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseType {
    /// Atomic type.
    pub kind: AtomicType,
    /// The only values allowed, sorted.
    pub allowed: Option<Vec<Atom>>,
    /// Smallest and largest integer.
    pub integers: (i64, i64),
    /// Smallest and largest real number.
    pub reals: (Option<Real>, Option<Real>),
    /// Minimum and maximum length of a string in characters.
    pub lengths: (u32, u32),
    /// The table to which UUIDs refer.
    pub refers_to: Option<RefTo>,
}

impl BaseType {
    /// A base type without constraints.
    pub fn of(kind: AtomicType) -> Self {
        BaseType {
            kind,
            allowed: None,
            integers: (i64::MIN, i64::MAX),
            reals: (None, None),
            lengths: (0, u32::MAX),
            refers_to: None,
        }
    }

    /// Checks `atom` against the constraints. References are checked at commit.
    pub fn check(&self, atom: &Atom) -> Result<(), Error> {
        if let Some(allowed) = self.allowed.as_ref().filter(|allowed| allowed.binary_search(atom).is_err()) {
            let list = Datum::Set(allowed.clone());
            return Err(Error::constraint(format!("{atom} is not one of the allowed values ({list})")));
        }
        match atom {
            Atom::Integer(v) => {
                let (min, max) = self.integers;
                let (low, high) = ((min != i64::MIN).then_some(min), (max != i64::MAX).then_some(max));
                check_range(v, low, high, i64::to_string)
            }
            Atom::Real(v) => {
                check_range(v, self.reals.0, self.reals.1, |r| crate::value::format_real(r.get()))
            }
            Atom::String(v) => self.check_length(v),
            Atom::Boolean(_) | Atom::Uuid(_) => Ok(()),
        }
    }

    fn check_length(&self, text: &str) -> Result<(), Error> {
        let (min, max) = self.lengths;
        if (min, max) == (0, u32::MAX) {
            return Ok(());
        }
        let len = text.chars().count();
        let complain = |what: &str, limit: u32| {
            Err(Error::constraint(format!("\"{text}\" length {len} is {what} allowed length {limit}")))
        };
        if len < min as usize {
            complain("less than minimum", min)
        } else if len > max as usize {
            complain("greater than maximum", max)
        } else {
            Ok(())
        }
    }

    fn from_json(json: &Json) -> Result<Self, Error> {
        if json.is_string() {
            return Ok(BaseType::of(AtomicType::from_json(json)?));
        }
        let mut members = Members::new(json, "ovsdb type");
        let kind = members.required("type", Kinds::STRING);
        members.check()?;
        let mut base = BaseType::of(AtomicType::from_json(kind.unwrap_or(&Json::Null))?);
        let any = Kinds::STRING.or(Kinds::NUMBER).or(Kinds::BOOLEAN).or(Kinds::ARRAY);
        if let Some(allowed) = members.optional("enum", any) {
            let ty = Type { key: BaseType::of(base.kind), value: None, min: 1, max: u32::MAX };
            base.allowed = Some(Datum::from_json(allowed, &ty, None)?.keys().cloned().collect());
        } else {
            base.read_constraints(json, &mut members)?;
        }
        members.finish()?;
        Ok(base)
    }

    fn read_constraints(&mut self, json: &Json, members: &mut Members) -> Result<(), Error> {
        match self.kind {
            AtomicType::Integer => {
                let low = members.optional("minInteger", Kinds::INTEGER).and_then(as_integer);
                let high = members.optional("maxInteger", Kinds::INTEGER).and_then(as_integer);
                self.integers = (low.unwrap_or(i64::MIN), high.unwrap_or(i64::MAX));
                ordered(json, self.integers.0 <= self.integers.1, "minInteger exceeds maxInteger")
            }
            AtomicType::Real => {
                let mut real =
                    |name| members.optional(name, Kinds::NUMBER).and_then(Json::as_f64).and_then(Real::new);
                self.reals = (real("minReal"), real("maxReal"));
                let fine = self.reals.0.zip(self.reals.1).is_none_or(|(low, high)| low <= high);
                ordered(json, fine, "minReal exceeds maxReal")
            }
            AtomicType::String => {
                let low = optional_u32(members, "minLength")?.unwrap_or(0);
                let high = optional_u32(members, "maxLength")?.unwrap_or(u32::MAX);
                self.lengths = (low, high);
                ordered(json, low <= high, "minLength exceeds maxLength")
            }
            AtomicType::Uuid => {
                let Some(table) = members.optional("refTable", Kinds::ID).and_then(Json::as_str) else {
                    return Ok(());
                };
                let strong = match members.optional("refType", Kinds::ID) {
                    None => true,
                    Some(kind) => match kind.as_str() {
                        Some("strong") => true,
                        Some("weak") => false,
                        other => {
                            let text = format!(
                                "refType must be \"strong\" or \"weak\" (not \"{}\")",
                                other.unwrap_or_default()
                            );
                            return Err(Error::syntax(json, text));
                        }
                    },
                };
                self.refers_to = Some(RefTo { table: table.to_owned(), index: 0, strong });
                Ok(())
            }
            AtomicType::Boolean => Ok(()),
        }
    }

    fn to_json(&self) -> Json {
        let mut object = Map::new();
        object.insert("type".into(), self.kind.name().into());
        if let Some(allowed) = &self.allowed {
            object.insert("enum".into(), Datum::Set(allowed.clone()).to_json());
        }
        let mut put = |name: &str, value: Option<Json>| {
            if let Some(value) = value {
                object.insert(name.into(), value);
            }
        };
        put("minInteger", (self.integers.0 != i64::MIN).then(|| self.integers.0.into()));
        put("maxInteger", (self.integers.1 != i64::MAX).then(|| self.integers.1.into()));
        put("minReal", self.reals.0.map(|r| Atom::Real(r).to_json()));
        put("maxReal", self.reals.1.map(|r| Atom::Real(r).to_json()));
        put("minLength", (self.lengths.0 != 0).then(|| self.lengths.0.into()));
        put("maxLength", (self.lengths.1 != u32::MAX).then(|| self.lengths.1.into()));
        if let Some(to) = &self.refers_to {
            put("refTable", Some(to.table.as_str().into()));
            put("refType", (!to.strong).then(|| "weak".into()));
        }
        if object.len() == 1 { self.kind.name().into() } else { Json::Object(object) }
    }
}

fn ordered(json: &Json, fine: bool, complaint: &str) -> Result<(), Error> {
    if fine { Ok(()) } else { Err(Error::syntax(json, complaint)) }
}

fn check_range<T: PartialOrd>(
    value: &T,
    low: Option<T>,
    high: Option<T>,
    text: impl Fn(&T) -> String,
) -> Result<(), Error> {
    if low.as_ref().is_none_or(|low| value >= low) && high.as_ref().is_none_or(|high| value <= high) {
        return Ok(());
    }
    let value = text(value);
    Err(Error::constraint(match (low.map(|v| text(&v)), high.map(|v| text(&v))) {
        (Some(low), Some(high)) => format!("{value} is not in the valid range {low} to {high} (inclusive)"),
        (Some(low), None) => format!("{value} is less than minimum allowed value {low}"),
        (None, high) => {
            format!("{value} is greater than maximum allowed value {}", high.unwrap_or_default())
        }
    }))
}

fn optional_u32(members: &mut Members, name: &'static str) -> Result<Option<u32>, Error> {
    let Some(json) = members.optional(name, Kinds::INTEGER) else {
        return Ok(None);
    };
    let number = as_integer(json).and_then(|v| u32::try_from(v).ok());
    number
        .map(Some)
        .ok_or_else(|| Error::syntax(json, format!("{name} out of valid range 0 to {}", u32::MAX)))
}

/// A `<type>`: base types and the number of elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// Type of elements, or of keys when there is a value type.
    pub key: BaseType,
    /// Type of values; `None`: the type is not a map.
    pub value: Option<BaseType>,
    /// Minimum number of elements: 0 or 1.
    pub min: u32,
    /// Maximum number of elements; `u32::MAX` is unlimited.
    pub max: u32,
}

impl Type {
    /// The type with exactly one element of `kind`.
    pub fn scalar(kind: AtomicType) -> Type {
        Type { key: BaseType::of(kind), value: None, min: 1, max: 1 }
    }

    /// Whether values have exactly one element; false for maps.
    pub fn is_scalar(&self) -> bool {
        self.value.is_none() && (self.min, self.max) == (1, 1)
    }

    /// Whether values have at most one element; false for maps.
    pub fn is_optional(&self) -> bool {
        self.value.is_none() && (self.min, self.max) == (0, 1)
    }

    /// Whether it is a set other than a scalar.
    pub fn is_set(&self) -> bool {
        self.value.is_none() && (self.min, self.max) != (1, 1)
    }

    /// Whether it is a map.
    pub fn is_map(&self) -> bool {
        self.value.is_some()
    }

    /// Whether values may have more than one element.
    pub fn is_composite(&self) -> bool {
        self.max > 1
    }

    /// Whether a value may have `len` elements.
    pub fn admits_len(&self, len: usize) -> bool {
        len >= self.min as usize && (self.max == u32::MAX || len <= self.max as usize)
    }

    /// The tables to which keys (true) and values (false) refer.
    pub fn references(&self) -> impl Iterator<Item = (bool, &RefTo)> {
        let key = self.key.refers_to.as_ref().map(|r| (true, r));
        let value = self.value.as_ref().and_then(|v| v.refers_to.as_ref()).map(|r| (false, r));
        key.into_iter().chain(value)
    }

    pub(crate) fn references_mut(&mut self) -> impl Iterator<Item = &mut RefTo> {
        self.key.refers_to.as_mut().into_iter().chain(self.value.as_mut().and_then(|v| v.refers_to.as_mut()))
    }

    /// The description in error messages, for example `set of up to 2 integers`.
    pub fn english(&self) -> String {
        let key = self.key.kind.name();
        if self.is_scalar() {
            return key.to_owned();
        }
        let class = if self.is_map() { "map" } else { "set" };
        let amount = match (self.min, self.max) {
            (0, u32::MAX) => " of".to_owned(),
            (min, u32::MAX) => format!(" of {min} or more"),
            (0, max) => format!(" of up to {max}"),
            (min, max) => format!(" of {min} to {max}"),
        };
        match &self.value {
            None => format!("{class}{amount} {key}s"),
            Some(value) => format!("{class}{amount} ({key}, {}) pairs", value.kind.name()),
        }
    }

    /// Reads a `<type>`.
    pub fn from_json(json: &Json) -> Result<Type, Error> {
        if json.is_string() {
            return Ok(Type { key: BaseType::from_json(json)?, value: None, min: 1, max: 1 });
        }
        if !json.is_object() {
            return Err(Error::syntax(json, "ovsdb type expected"));
        }
        let mut members = Members::new(json, "ovsdb type");
        let key = members.required("key", Kinds::STRING.or(Kinds::OBJECT));
        let value = members.optional("value", Kinds::STRING.or(Kinds::OBJECT));
        let min = members.optional("min", Kinds::INTEGER);
        let max = members.optional("max", Kinds::INTEGER.or(Kinds::STRING));
        members.finish()?;
        let ty = Type {
            key: BaseType::from_json(key.unwrap_or(&Json::Null))?,
            value: value.map(BaseType::from_json).transpose()?,
            min: bound(min)?,
            max: if max.and_then(Json::as_str) == Some("unlimited") { u32::MAX } else { bound(max)? },
        };
        let sane = ty.min <= 1 && ty.max >= 1 && ty.min <= ty.max;
        if sane { Ok(ty) } else { Err(Error::syntax(json, "ovsdb type fails constraint checks")) }
    }

    /// The `<type>` notation.
    pub fn to_json(&self) -> Json {
        let key = self.key.to_json();
        if self.is_scalar() && key.is_string() {
            return key;
        }
        let mut object = Map::new();
        object.insert("key".into(), key);
        if let Some(value) = &self.value {
            object.insert("value".into(), value.to_json());
        }
        if self.min != 1 {
            object.insert("min".into(), self.min.into());
        }
        if self.max == u32::MAX {
            object.insert("max".into(), "unlimited".into());
        } else if self.max != 1 {
            object.insert("max".into(), self.max.into());
        }
        Json::Object(object)
    }
}

/// Reads the `min` or `max` of a type; 1 if it is missing.
fn bound(json: Option<&Json>) -> Result<u32, Error> {
    let Some(json) = json else { return Ok(1) };
    let number = as_integer(json).and_then(|v| u32::try_from(v).ok());
    number.ok_or_else(|| Error::syntax(json, "bad min or max value"))
}
