//! Sorted sets and maps of atoms, and operations on them.

use super::{Atom, splice};
use std::fmt;
use uuid::Uuid;

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

    /// A map; of pairs with the same key the first is kept.
    pub fn map<K: Into<Atom>, V: Into<Atom>>(pairs: impl IntoIterator<Item = (K, V)>) -> Datum {
        let mut pairs: Vec<(Atom, Atom)> = pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.dedup_by(|later, first| later.0 == first.0);
        Datum::Map(pairs)
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

    /// The elements of a set; nothing for a map.
    pub fn elements(&self) -> &[Atom] {
        match self {
            Datum::Set(atoms) => atoms,
            Datum::Map(_) => &[],
        }
    }

    /// The pairs of a map; nothing for a set.
    pub fn pairs(&self) -> &[(Atom, Atom)] {
        match self {
            Datum::Set(_) => &[],
            Datum::Map(pairs) => pairs,
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

    /// All UUIDs among the elements of a set, or among the keys and values of a map.
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

    /// Adds the elements or pairs of `other`; existing keys keep their values.
    pub fn insert_all(&mut self, other: &Datum) {
        match (self, other) {
            (Datum::Set(a), Datum::Set(b)) => splice::insert(a, b, Ord::cmp),
            (Datum::Map(a), Datum::Map(b)) => splice::insert(a, b, |x, y| x.0.cmp(&y.0)),
            _ => {}
        }
    }

    /// Removes the elements or pairs of `other`. If `self` is a map and `other` a set, removes the pairs with these keys.
    pub fn remove_all(&mut self, other: &Datum) {
        match (self, other) {
            (Datum::Set(a), Datum::Set(b)) => splice::remove(a, b, Ord::cmp),
            (Datum::Map(a), Datum::Map(b)) => splice::remove(a, b, Ord::cmp),
            (Datum::Map(a), Datum::Set(b)) => splice::remove(a, b, |(key, _), other| key.cmp(other)),
            (Datum::Set(_), Datum::Map(_)) => {}
        }
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
