//! Names of ports.

use units::PortNo;

/// The names of a datapath's ports.
pub trait DpPortNames {
    /// The name to print; `None` prints the number.
    fn name(&self, port: PortNo) -> Option<String>;
    /// The port of a name.
    fn number(&self, name: &str) -> Option<PortNo>;
    /// Returns whether the port receives Geneve packets. Their keys are printed with options even if they have none.
    fn is_geneve(&self, _port: PortNo) -> bool {
        false
    }
}

/// Ports have numbers only.
pub struct NoNames;

impl DpPortNames for NoNames {
    fn name(&self, _: PortNo) -> Option<String> {
        None
    }

    fn number(&self, _: &str) -> Option<PortNo> {
        None
    }
}

/// A port by its name, or else its number.
pub(super) fn port_text(port: PortNo, names: &dyn DpPortNames) -> String {
    names.name(port).unwrap_or_else(|| port.0.to_string())
}
