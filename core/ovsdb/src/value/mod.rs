//! Values of columns: [`Atom`], and [`Datum`], a sorted set or map of atoms.
//!
//! A scalar is a set of one element, an optional value a set of at most one. Sets and maps have no duplicate
//! keys and are sorted, so equality is slice equality and set operations are merges (RFC 7047 section 5.1).

mod atom;
mod datum;
mod notation;
mod splice;
mod symbols;
pub(crate) mod text;
mod typed;

pub(crate) use atom::format_real;
pub use atom::{Atom, Real};
pub use datum::Datum;
pub use symbols::{Symbol, Symbols};

#[cfg(test)]
mod tests;
