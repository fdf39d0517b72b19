//! The modules of log messages; the names are those of Open vSwitch.

use runtime::Module;

/// Messages about bridges and their configuration.
pub(crate) static LOG: Module = Module::new("bridge");
/// Messages about devices.
pub(crate) static NETDEV: Module = Module::new("netdev");
/// Messages about the configuration of tunnels and patch ports.
pub(crate) static NETDEV_VPORT: Module = Module::new("netdev_vport");
/// Messages about tunnel ports of a datapath.
pub(crate) static TUNNEL: Module = Module::new("tunnel");
