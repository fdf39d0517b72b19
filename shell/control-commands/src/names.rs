//! Names of the ports of a datapath, to parse and print datapath flows.

use dpif::text::DpPortNames;
use flow::text::NameMap;
use switch::Backer;
use units::{OfPort, PortNo};

fn is_geneve(backer: &Backer, port: PortNo) -> bool {
    backer.ports.get(&port).is_some_and(|p| p.tunnels > 0 && p.kind == "geneve")
}

/// The port names of a datapath.
pub struct DatapathNames<'a>(pub &'a Backer);

impl DpPortNames for DatapathNames<'_> {
    fn name(&self, port: PortNo) -> Option<String> {
        self.0.ports.get(&port).map(|p| p.name.clone())
    }

    fn number(&self, name: &str) -> Option<PortNo> {
        self.0.ports.iter().find(|(_, p)| p.name == name).map(|(n, _)| *n)
    }

    fn is_geneve(&self, port: PortNo) -> bool {
        is_geneve(self.0, port)
    }
}

/// The ports of a datapath, by number only: no port has a name.
pub struct DatapathNumbers<'a>(pub &'a Backer);

impl DpPortNames for DatapathNumbers<'_> {
    fn name(&self, _: PortNo) -> Option<String> {
        None
    }

    fn number(&self, _: &str) -> Option<PortNo> {
        None
    }

    fn is_geneve(&self, port: PortNo) -> bool {
        is_geneve(self.0, port)
    }
}

/// In a filter of `dpctl/dump-flows`, `in_port` is a datapath port number.
impl NameMap for DatapathNames<'_> {
    fn port_name(&self, port: OfPort) -> Option<String> {
        DpPortNames::name(self, PortNo(port.0.into()))
    }

    fn port_number(&self, name: &str) -> Option<OfPort> {
        let port = DpPortNames::number(self, name)?;
        u16::try_from(port.0).ok().map(OfPort)
    }
}
