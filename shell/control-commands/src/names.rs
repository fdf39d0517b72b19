//! Names of the ports of a datapath, for text.

use dpif::text::DpPortNames;
use flow::text::NameMap;
use switch::Backer;
use units::{OfPort, PortNo};

/// The ports of a datapath.
pub struct DatapathNames<'a>(pub &'a Backer);

impl DpPortNames for DatapathNames<'_> {
    fn name(&self, port: PortNo) -> Option<String> {
        self.0.ports.get(&port).map(|p| p.name.clone())
    }

    fn number(&self, name: &str) -> Option<PortNo> {
        self.0.ports.iter().find(|(_, p)| p.name == name).map(|(n, _)| *n)
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
