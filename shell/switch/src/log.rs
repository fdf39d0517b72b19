//! The modules of log messages, which are those of Open vSwitch.

use runtime::Module;

/// Bridges and their configuration.
pub(crate) static LOG: Module = Module::new("bridge");
/// Devices.
pub(crate) static NETDEV: Module = Module::new("netdev");
/// Tunnels and patch ports.
pub(crate) static NETDEV_VPORT: Module = Module::new("netdev_vport");
/// Ports for tunnels.
pub(crate) static TUNNEL: Module = Module::new("tunnel");
