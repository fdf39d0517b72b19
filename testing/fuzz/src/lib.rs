//! Fuzz targets for all code that parses bytes or text from outside.
//!
//! Each [`Target`] takes any bytes. It fails, by a panic, when the code under test panics, or when a parsed value is
//! not equal after it was written and parsed again. There are three ways to run the targets:
//!
//! - `cargo test -p fuzz` replays the files of `corpus/` and mutations of them from fixed seeds: one second,
//!   part of `make test`;
//! - `make fuzz` searches for inputs that reach new code (libFuzzer), minutes to hours;
//! - inputs found by such a search are stored in `corpus/` under a name that describes the fault, and are replayed
//!   from then on.
//!
//! No other crate depends on this one. See docs/fuzzing.md.

pub mod corpus;
pub mod mutate;
mod target;

pub use target::{TARGETS, Target};

/// The target with this name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|t| t.name == name)
}
