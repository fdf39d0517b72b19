//! Values in the JSON notation of RFC 7047 section 5.1: `<atom>`, `["set", ...]`, `["map", ...]`.

use super::{Atom, Datum, Real, Symbols};
use crate::Error;
use crate::json::{array_memory, as_integer, is_id, parse_uuid, string_memory};
use crate::types::{AtomicType, BaseType, Type};
use serde_json::Value as Json;
use std::sync::Arc;

/// How strictly a value is checked against its type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strictness {
    /// Check the number of elements and all constraints.
    Full,
    /// Check atomic types only, for the difference of two values.
    TypesOnly,
}

impl Atom {
    /// Reads an `<atom>` of the given type and checks its constraints.
    pub fn from_json(json: &Json, base: &BaseType, symbols: Option<&mut Symbols>) -> Result<Atom, Error> {
        let atom = parse_atom(json, base, symbols)?;
        base.check(&atom)?;
        Ok(atom)
    }

    /// Estimated memory that the value of [`Atom::to_json`] allocates, in bytes.
    fn json_heap_memory(&self) -> usize {
        match self {
            Atom::Integer(_) | Atom::Real(_) | Atom::Boolean(_) => 0,
            Atom::String(text) => string_memory(text.len()),
            Atom::Uuid(_) => array_memory(2) + string_memory("uuid".len()) + string_memory(36),
        }
    }
}

impl Datum {
    /// Reads a `<value>` of the given type and checks its constraints.
    pub fn from_json(json: &Json, ty: &Type, symbols: Option<&mut Symbols>) -> Result<Datum, Error> {
        parse_datum(json, ty, symbols, Strictness::Full)
    }

    /// Reads the difference of two values. A difference may have any number of elements.
    pub fn diff_from_json(json: &Json, ty: &Type) -> Result<Datum, Error> {
        parse_datum(json, ty, None, Strictness::TypesOnly)
    }

    /// The `<value>` notation.
    pub fn to_json(&self) -> Json {
        match self {
            Datum::Set(atoms) if atoms.len() == 1 => atoms[0].to_json(),
            Datum::Set(atoms) => tagged("set", Json::Array(atoms.iter().map(Atom::to_json).collect())),
            Datum::Map(pairs) => {
                let pair = |(k, v): &(Atom, Atom)| Json::Array(vec![k.to_json(), v.to_json()]);
                tagged("map", Json::Array(pairs.iter().map(pair).collect()))
            }
        }
    }
}

impl Datum {
    /// Estimated memory that the value of [`Datum::to_json`] allocates, in bytes. This must count the same values as
    /// [`memory`](crate::json::memory) of the result.
    pub(crate) fn json_heap_memory(&self) -> usize {
        let tagged = || array_memory(2) + string_memory("set".len()) + array_memory(self.len());
        let atoms = self.keys().chain(self.values()).map(Atom::json_heap_memory).sum::<usize>();
        match self {
            Datum::Set(elements) if elements.len() == 1 => atoms,
            Datum::Set(_) => tagged() + atoms,
            Datum::Map(pairs) => tagged() + pairs.len() * array_memory(2) + atoms,
        }
    }
}

fn tagged(tag: &str, inner: Json) -> Json {
    Json::Array(vec![tag.into(), inner])
}

fn parse_datum(
    json: &Json,
    ty: &Type,
    mut symbols: Option<&mut Symbols>,
    strictness: Strictness,
) -> Result<Datum, Error> {
    let tag = json.as_array().and_then(|a| a.first()).and_then(Json::as_str);
    let mut atom = |json: &Json, base: &BaseType| -> Result<Atom, Error> {
        let atom = parse_atom(json, base, symbols.as_deref_mut())?;
        if strictness == Strictness::Full {
            base.check(&atom)?;
        }
        Ok(atom)
    };
    if let Some(value_type) = &ty.value {
        let inner = unwrap_array(json, "map")?;
        check_len(json, inner.len(), ty, "map", strictness)?;
        let mut pairs = Vec::with_capacity(inner.len());
        for element in inner {
            let [key, value] = pair_of(element)?;
            pairs.push((atom(key, &ty.key)?, atom(value, value_type)?));
        }
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        match pairs.windows(2).any(|w| w[0].0 == w[1].0) {
            true => Err(Error::plain("map contains duplicate key")),
            false => Ok(Datum::Map(pairs)),
        }
    } else if tag == Some("set") {
        let inner = unwrap_array(json, "set")?;
        check_len(json, inner.len(), ty, "set", strictness)?;
        let mut atoms = inner.iter().map(|e| atom(e, &ty.key)).collect::<Result<Vec<_>, _>>()?;
        atoms.sort_unstable();
        match atoms.windows(2).any(|w| w[0] == w[1]) {
            true => Err(Error::plain("set contains duplicate")),
            false => Ok(Datum::Set(atoms)),
        }
    } else {
        Ok(Datum::Set(vec![atom(json, &ty.key)?]))
    }
}

fn check_len(json: &Json, len: usize, ty: &Type, class: &str, strictness: Strictness) -> Result<(), Error> {
    if strictness == Strictness::TypesOnly || ty.admits_len(len) {
        return Ok(());
    }
    Err(Error::syntax(
        json,
        if (ty.min, ty.max) == (1, 1) {
            format!("{class} must have exactly one member but {len} are present")
        } else {
            format!("{class} must have {} to {} members but {len} are present", ty.min, ty.max)
        },
    ))
}

fn unwrap_array<'a>(json: &'a Json, tag: &str) -> Result<&'a Vec<Json>, Error> {
    match json.as_array().map(Vec::as_slice) {
        Some([name, Json::Array(inner)]) if name.as_str() == Some(tag) => Ok(inner),
        _ => Err(Error::syntax(json, format!("expected [\"{tag}\", <array>]"))),
    }
}

fn unwrap_string<'a>(json: &'a Json, tag: &str) -> Result<&'a str, Error> {
    match json.as_array().map(Vec::as_slice) {
        Some([name, Json::String(inner)]) if name.as_str() == Some(tag) => Ok(inner),
        _ => Err(Error::syntax(json, format!("expected [\"{tag}\", <string>]"))),
    }
}

fn pair_of(json: &Json) -> Result<[&Json; 2], Error> {
    match json.as_array().map(Vec::as_slice) {
        Some([key, value]) => Ok([key, value]),
        _ => Err(Error::syntax(json, "expected 2-element array")),
    }
}

fn parse_atom(json: &Json, base: &BaseType, symbols: Option<&mut Symbols>) -> Result<Atom, Error> {
    let atom = match base.kind {
        AtomicType::Integer => as_integer(json).map(Atom::Integer),
        AtomicType::Real => json.as_f64().and_then(Real::new).map(Atom::Real),
        AtomicType::Boolean => json.as_bool().map(Atom::Boolean),
        AtomicType::String => json.as_str().map(|s| Atom::String(Arc::from(s))),
        AtomicType::Uuid => return parse_uuid_atom(json, symbols),
    };
    atom.ok_or_else(|| Error::syntax(json, format!("expected {}", base.kind.name())))
}

fn parse_uuid_atom(json: &Json, symbols: Option<&mut Symbols>) -> Result<Atom, Error> {
    let not_uuid = match unwrap_string(json, "uuid") {
        Ok(text) => {
            return parse_uuid(text)
                .map(Atom::Uuid)
                .ok_or_else(|| Error::syntax(json, format!("\"{text}\" is not a valid UUID")));
        }
        Err(error) => error,
    };
    let (Some(symbols), Ok(name)) = (symbols, unwrap_string(json, "named-uuid")) else {
        return Err(not_uuid);
    };
    if !is_id(name) {
        return Err(Error::syntax(json, "named-uuid string is not a valid <id>"));
    }
    Ok(Atom::Uuid(symbols.get_or_create(name).uuid))
}
