//! The log module of messages about PMD threads; its name is that of Open vSwitch.

use runtime::Module;

pub(crate) static LOG: Module = Module::new("dpif_netdev");
