//! Everything that reads bytes or text from outside, as functions of bytes that must not fail.
//!
//! Each [`Target`] takes any bytes. It fails, by a panic, when the code under test panics, or when what was read is
//! not the same after it was written and read again. Three ways to drive the targets:
//!
//! - `cargo test -p fuzz` replays the files of `corpus/` and seeded mutations of them: a second, in every `make test`;
//! - `make fuzz` searches for inputs that reach new code (libFuzzer), minutes to hours;
//! - whatever such a search finds is put into `corpus/` under the name of what was wrong, and stays found.
//!
//! The crate is at the end of every arrow: nothing depends on it. See docs/fuzzing.md.

pub mod corpus;
pub mod mutate;
mod target;

pub use target::{TARGETS, Target};

/// The target of that name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|t| t.name == name)
}
