//! Sorted sets and maps of atoms, and operations on them.

use super::{Atom, splice};
use crate::types::Type;
use crate::{Error, Uuid};
use std::cmp::Ordering;
use std::fmt;

/// The value of a column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Datum {
    /// A set; a scalar is a set of one.
    Set(Vec<Atom>),
    /// A map, sorted by key.
    Map(Vec<(Atom, Atom)>),
}

impl Datum {
    /// A set of one element.
    pub fn scalar(atom: impl Into<Atom>) -> Datum {
        Datum::Set(vec![atom.into()])
    }

    /// A set; duplicates are dropped.
    pub fn set<T: Into<Atom>>(atoms: impl IntoIterator<Item = T>) -> Datum {
        let mut atoms: Vec<Atom> = atoms.into_iter().map(Into::into).collect();
        atoms.sort_unstable();
        atoms.dedup();
        Datum::Set(atoms)
    }

    /// A map; of duplicate keys the first is kept.
    pub fn map<K: Into<Atom>, V: Into<Atom>>(pairs: impl IntoIterator<Item = (K, V)>) -> Datum {
        let mut pairs: Vec<(Atom, Atom)> = pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.dedup_by(|later, first| later.0 == first.0);
        Datum::Map(pairs)
    }

    /// The default value of a column.
    pub fn default_of(ty: &Type) -> Datum {
        match &ty.value {
            None if ty.min == 0 => Datum::Set(Vec::new()),
            None => Datum::Set(vec![Atom::default_of(ty.key.kind)]),
            Some(_) if ty.min == 0 => Datum::Map(Vec::new()),
            Some(value) => Datum::Map(vec![(Atom::default_of(ty.key.kind), Atom::default_of(value.kind))]),
        }
    }

    /// Whether this is the value of [`Datum::default_of`] for `ty`.
    pub fn is_default(&self, ty: &Type) -> bool {
        self.len() == ty.min as usize
            && self.keys().all(Atom::is_default)
            && self.values().all(Atom::is_default)
    }

    /// Number of elements or pairs.
    pub fn len(&self) -> usize {
        match self {
            Datum::Set(atoms) => atoms.len(),
            Datum::Map(pairs) => pairs.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements of a set or the keys of a map.
    pub fn keys(&self) -> impl Iterator<Item = &Atom> {
        let (atoms, pairs): (&[Atom], &[(Atom, Atom)]) = match self {
            Datum::Set(atoms) => (atoms, &[]),
            Datum::Map(pairs) => (&[], pairs),
        };
        atoms.iter().chain(pairs.iter().map(|(k, _)| k))
    }

    /// The values of a map; nothing for a set.
    pub fn values(&self) -> impl Iterator<Item = &Atom> {
        let pairs: &[(Atom, Atom)] = match self {
            Datum::Set(_) => &[],
            Datum::Map(pairs) => pairs,
        };
        pairs.iter().map(|(_, v)| v)
    }

    /// The first element of a set: the value of a scalar or optional column.
    pub fn first(&self) -> Option<&Atom> {
        match self {
            Datum::Set(atoms) => atoms.first(),
            Datum::Map(_) => None,
        }
    }

    /// The value of `key` in a map.
    pub fn get(&self, key: &Atom) -> Option<&Atom> {
        match self {
            Datum::Set(_) => None,
            Datum::Map(pairs) => {
                let at = pairs.binary_search_by(|(k, _)| k.cmp(key)).ok()?;
                pairs.get(at).map(|(_, v)| v)
            }
        }
    }

    /// The string value of a string key in a map.
    pub fn get_str(&self, key: &str) -> Option<&str> {
        match self {
            Datum::Set(_) => None,
            Datum::Map(pairs) => {
                let at = pairs.binary_search_by(|(k, _)| k.as_str().unwrap_or("").cmp(key)).ok()?;
                pairs.get(at).and_then(|(_, v)| v.as_str())
            }
        }
    }

    /// All UUIDs among the elements of a set or the values of a map.
    pub fn uuids(&self) -> impl Iterator<Item = Uuid> {
        self.keys().chain(self.values()).filter_map(Atom::as_uuid)
    }

    /// Whether all elements (pairs) of `self` are in `other`.
    pub fn is_subset_of(&self, other: &Datum) -> bool {
        match (self, other) {
            (Datum::Set(a), Datum::Set(b)) => a.iter().all(|x| b.binary_search(x).is_ok()),
            (Datum::Map(a), Datum::Map(b)) => a.iter().all(|x| b.binary_search(x).is_ok()),
            _ => self.is_empty(),
        }
    }

    /// Whether no element (pair) of `self` is in `other`.
    pub fn is_disjoint_from(&self, other: &Datum) -> bool {
        match (self, other) {
            (Datum::Set(a), Datum::Set(b)) => a.iter().all(|x| b.binary_search(x).is_err()),
            (Datum::Map(a), Datum::Map(b)) => a.iter().all(|x| b.binary_search(x).is_err()),
            _ => true,
        }
    }

    /// Adds the elements of `other`; existing keys keep their values.
    pub fn insert_all(&mut self, other: &Datum) {
        match (self, other) {
            (Datum::Set(a), Datum::Set(b)) => splice::insert(a, b, Ord::cmp),
            (Datum::Map(a), Datum::Map(b)) => splice::insert(a, b, |x, y| x.0.cmp(&y.0)),
            _ => {}
        }
    }

    /// Removes the elements of `other`; if `other` is a set and `self` a map, removes by key.
    pub fn remove_all(&mut self, other: &Datum) {
        match (self, other) {
            (Datum::Set(a), Datum::Set(b)) => splice::remove(a, b, Ord::cmp),
            (Datum::Map(a), Datum::Map(b)) => splice::remove(a, b, Ord::cmp),
            (Datum::Map(a), Datum::Set(b)) => splice::remove(a, b, |(key, _), other| key.cmp(other)),
            (Datum::Set(_), Datum::Map(_)) => {}
        }
    }

    /// The difference that leads from `old` to `self`: for a column of at most one element the new value,
    /// otherwise the elements that differ.
    pub fn diff_from(&self, old: &Datum, ty: &Type) -> Datum {
        if !ty.is_composite() {
            return self.clone();
        }
        match (old, self) {
            (Datum::Set(old), Datum::Set(new)) => Datum::Set(set_difference(old, new)),
            (Datum::Map(old), Datum::Map(new)) => Datum::Map(map_difference(old, new)),
            _ => self.clone(),
        }
    }

    /// The inverse of [`Datum::diff_from`].
    pub fn apply_diff(&self, diff: &Datum, ty: &Type) -> Result<Datum, Error> {
        if !ty.is_composite() {
            return Ok(diff.clone());
        }
        let result = match (self, diff) {
            (Datum::Set(old), Datum::Set(diff)) => Datum::Set(set_difference(old, diff)),
            (Datum::Map(old), Datum::Map(diff)) => Datum::Map(map_difference(old, diff)),
            _ => return Err(Error::plain("difference is of another type than its column")),
        };
        if ty.admits_len(result.len()) {
            Ok(result)
        } else {
            Err(Error::plain("difference has a size error"))
        }
    }
}

/// The elements that are in exactly one of two sorted sets. The second is usually short, so runs between its
/// elements are copied at once.
fn set_difference(a: &[Atom], b: &[Atom]) -> Vec<Atom> {
    let mut out = Vec::with_capacity(a.len() + b.len());
    let mut rest = a;
    for y in b {
        let (before, from) = rest.split_at(rest.partition_point(|x| x < y));
        out.extend_from_slice(before);
        rest = from;
        match from.split_first() {
            Some((x, after)) if x == y => rest = after,
            _ => out.push(y.clone()),
        }
    }
    out.extend_from_slice(rest);
    out
}

/// The difference of two maps. Applying it is the same operation: a pair in the difference that equals one of
/// the map removes that; a different value for a key replaces the old one.
fn map_difference(old: &[(Atom, Atom)], new: &[(Atom, Atom)]) -> Vec<(Atom, Atom)> {
    let mut out = Vec::new();
    merge(
        old,
        new,
        |x, y| x.0.cmp(&y.0),
        |pair| match pair {
            (Some(x), None) | (None, Some(x)) => out.push(x.clone()),
            (Some(x), Some(y)) if x.1 != y.1 => out.push(y.clone()),
            _ => {}
        },
    );
    out
}

/// Merges two sorted slices; `visit` gets each key once, with the elements of `a` and `b` that have it.
fn merge<'a, T>(
    a: &'a [T],
    b: &'a [T],
    order: impl Fn(&T, &T) -> Ordering,
    mut visit: impl FnMut((Option<&'a T>, Option<&'a T>)),
) {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    loop {
        let step = match (a.peek(), b.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(x), Some(y)) => order(x, y),
        };
        visit(match step {
            Ordering::Less => (a.next(), None),
            Ordering::Greater => (None, b.next()),
            Ordering::Equal => (a.next(), b.next()),
        });
    }
}

/// The notation of command lines: `[a, b]` for sets, `{k=v}` for maps, bare scalars.
impl fmt::Display for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Datum::Set(atoms) if atoms.len() == 1 => write!(f, "{}", atoms[0]),
            Datum::Set(atoms) => {
                f.write_str("[")?;
                for (i, atom) in atoms.iter().enumerate() {
                    write!(f, "{}{atom}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
            Datum::Map(pairs) => {
                f.write_str("{")?;
                for (i, (key, value)) in pairs.iter().enumerate() {
                    write!(f, "{}{key}={value}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("}")
            }
        }
    }
}
