//! Fuzz targets for all code that parses bytes or text from outside.
//!
//! Each [`Target`] accepts any bytes. It panics if the code under test panics or breaks a rule, for example if a parsed value is
//! not equal after it was written and parsed again. There are two ways to run the targets:
//!
//! - `cargo test -p fuzz` replays the files of `corpus/`, and mutations of them from fixed seeds. It takes about a second and is
//!   part of `make test`.
//! - `make fuzz` searches for inputs that reach new code with libFuzzer, for minutes to hours. Inputs that make a target fail are
//!   then stored in `corpus/` under a name that describes the fault, and replayed from then on.
//!
//! No other crate depends on this one. See docs/fuzzing.md.

pub mod corpus;
pub mod mutate;
mod target;

pub use target::{TARGETS, Target};

/// Returns the target with this name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|t| t.name == name)
}
