//! Operations on values that depend on the type of the column: default values and differences.

use super::{Atom, Datum};
use crate::error::Error;
use crate::types::Type;
use std::cmp::Ordering;

impl Datum {
    /// The value of a column that was not set.
    pub fn default_of(ty: &Type) -> Datum {
        match &ty.value {
            None if ty.min == 0 => Datum::Set(Vec::new()),
            None => Datum::Set(vec![Atom::default_of(ty.key.kind)]),
            Some(_) if ty.min == 0 => Datum::Map(Vec::new()),
            Some(value) => Datum::Map(vec![(Atom::default_of(ty.key.kind), Atom::default_of(value.kind))]),
        }
    }

    /// Whether this is the value that [`Datum::default_of`] returns for `ty`.
    pub fn is_default(&self, ty: &Type) -> bool {
        self.len() == ty.min as usize
            && self.keys().all(Atom::is_default)
            && self.values().all(Atom::is_default)
    }

    /// The difference that changes `old` to `self`; see [`Datum::apply_diff`]. For a column with at most one element this
    /// is the new value; otherwise the elements that are in only one of the two values, and for changed values of a map
    /// the new pairs.
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

    /// Applies a difference of [`Datum::diff_from`] to the old value.
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

/// The elements that are in exactly one of two sorted sets. The second set is usually short: all elements of the first
/// set that lie between two elements of the second are copied at once.
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

/// The difference of two maps. Applying a difference to a map is the same operation: if the difference contains a pair of
/// the map, the pair is removed; if it contains another value for a key, that value replaces the old one.
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

/// Walks two sorted slices together. Calls `visit` once for each key, with the element of each slice that has the key.
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
