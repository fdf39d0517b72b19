//! The modules of the tool's log lines.

use runtime::Module;

/// The module of the tool itself.
pub static VSCTL: Module = Module::new("vsctl");
/// The module of the copy of the database.
pub static OVSDB_IDL: Module = Module::new("ovsdb_idl");
