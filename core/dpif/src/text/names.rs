//! Names of ports.

use units::PortNo;

/// The names of a datapath's ports.
pub trait DpPortNames {
    /// The name of a port; `None`: its number is printed.
    fn name(&self, port: PortNo) -> Option<String>;
    /// The port with this name.
    fn number(&self, name: &str) -> Option<PortNo>;
    /// Returns whether the port receives Geneve packets. The keys of such packets are printed with `geneve(..)` even if they
    /// have no options.
    fn is_geneve(&self, _port: PortNo) -> bool {
        false
    }
}

/// No names: ports are printed and parsed as numbers.
pub struct NoNames;

impl DpPortNames for NoNames {
    fn name(&self, _: PortNo) -> Option<String> {
        None
    }

    fn number(&self, _: &str) -> Option<PortNo> {
        None
    }
}

/// The name of a port, or its number if it has no name.
pub(super) fn port_text(port: PortNo, names: &dyn DpPortNames) -> String {
    names.name(port).unwrap_or_else(|| port.0.to_string())
}
