//! The module of log messages about poll threads, which is that of Open vSwitch.

use runtime::Module;

pub(crate) static LOG: Module = Module::new("dpif_netdev");
