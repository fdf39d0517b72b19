//! The modules of the tool's log lines.

use runtime::Module;

/// The tool's own.
pub static VSCTL: Module = Module::new("vsctl");
/// What concerns the copy of the database.
pub static OVSDB_IDL: Module = Module::new("ovsdb_idl");
