//! The module of log messages about bridges, which is that of Open vSwitch.

use runtime::Module;

pub(crate) static LOG: Module = Module::new("bridge");
