//! Values of columns: [`Atom`], and [`Datum`], a sorted set or map of atoms.
//!
//! A scalar is a set with one member, an optional value a set with none or one. Sets and
//! maps hold no key twice and are kept sorted, so equality is slice equality and all set
//! algebra is a merge (RFC 7047 section 5.1).

mod atom;
mod datum;
mod notation;
mod splice;
mod symbols;
pub(crate) mod text;

pub(crate) use atom::general;
pub use atom::{Atom, Real};
pub use datum::Datum;
pub use symbols::{Symbol, Symbols};

#[cfg(test)]
mod tests;
