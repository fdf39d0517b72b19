//! Settings of tunnel ports: the interface for the control half.

use crate::datapath::{Datapath, PutError};
use crate::ports::{MAX_PORT, Ports};
use std::sync::Arc;
use tunnel::Kind;
use units::PortNo;

impl Datapath {
    /// Makes `no` a tunnel port of this kind. If it is a tunnel port already, its kind changes and its
    /// sequence numbers continue.
    pub fn set_tunnel(&self, no: PortNo, kind: Kind) -> Result<(), PutError> {
        if no.0 > MAX_PORT {
            return Err(PutError::LimitReached);
        }
        self.change_ports(|ports| ports.tunnels.set(no, kind));
        Ok(())
    }

    /// Removes a tunnel port.
    pub fn del_tunnel(&self, no: PortNo) {
        if no.0 <= MAX_PORT {
            self.change_ports(|ports| ports.tunnels.remove(no));
        }
    }

    /// Sets the range of the source ports of outer UDP headers.
    pub fn set_tunnel_source_ports(&self, first: u16, last: u16) {
        self.change_ports(|ports| ports.tunnels.set_source_ports(first, last));
    }

    fn change_ports(&self, change: impl FnOnce(&mut Ports)) {
        let _one_at_a_time = self.shared.flows();
        let mut ports = Ports::clone(&self.shared.ports.load());
        change(&mut ports);
        self.shared.ports.store(Arc::new(ports));
        self.shared.changed();
    }
}
