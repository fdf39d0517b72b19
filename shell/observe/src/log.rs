//! The log module of this crate.

pub(crate) static LOG: runtime::Module = runtime::Module::new("observe");
