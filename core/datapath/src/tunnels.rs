//! The datapath's tunnel ports.
//!
//! A tunnel port has no device. The port number in `tnl_pop` tells which kind of header to remove; `tnl_push`
//! uses the port's counter where the header contains a sequence number.

use crate::Datapath;
use crate::datapath::PutError;
use crate::ports::{MAX_PORT, Ports};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tunnel::Kind;
use units::PortNo;

/// Default range of the source ports of outer UDP headers.
pub const TUNNEL_SOURCE_PORTS: (u16, u16) = (32_768, 61_000);

/// A tunnel port.
#[derive(Debug)]
pub(crate) struct TunnelPort {
    pub(crate) kind: Kind,
    /// The sequence number of the next packet, for tunnels that number packets.
    seq: AtomicU32,
}

impl TunnelPort {
    /// Returns the sequence number of a packet.
    pub(crate) fn next_seq(&self) -> u32 {
        self.seq.fetch_add(1, Ordering::Relaxed)
    }
}

/// All tunnel ports.
#[derive(Clone, Debug)]
pub(crate) struct TunnelPorts {
    by_no: Vec<Option<Arc<TunnelPort>>>,
    /// First and last source port of outer UDP headers.
    source_ports: (u16, u16),
}

impl Default for TunnelPorts {
    fn default() -> TunnelPorts {
        TunnelPorts { by_no: Vec::new(), source_ports: TUNNEL_SOURCE_PORTS }
    }
}

impl TunnelPorts {
    pub(crate) fn get(&self, no: u32) -> Option<&Arc<TunnelPort>> {
        self.by_no.get(no as usize)?.as_ref()
    }

    fn place(&mut self, no: PortNo) -> &mut Option<Arc<TunnelPort>> {
        let at = no.0 as usize;
        if self.by_no.len() <= at {
            self.by_no.resize(at + 1, None);
        }
        &mut self.by_no[at]
    }

    /// The source port for packets with this hash. All ports of the range are equally likely.
    #[inline]
    pub(crate) fn source_port(&self, hash: u32) -> u16 {
        let (first, last) = self.source_ports;
        first + ((u64::from(hash) * u64::from(last - first)) >> 32) as u16
    }
}

impl Datapath {
    /// Makes `no` a tunnel port of this kind. If it is a tunnel port already, its kind changes and its
    /// sequence numbers continue.
    pub fn set_tunnel(&self, no: PortNo, kind: Kind) -> Result<(), PutError> {
        if no.0 > MAX_PORT {
            return Err(PutError::NoRoom);
        }
        self.change_ports(|ports| {
            let seq = ports.tunnels.get(no.0).map_or(1, |old| old.seq.load(Ordering::Relaxed));
            let port = TunnelPort { kind, seq: AtomicU32::new(seq) };
            *ports.tunnels.place(no) = Some(Arc::new(port));
        });
        Ok(())
    }

    /// Removes a tunnel port.
    pub fn del_tunnel(&self, no: PortNo) {
        if no.0 <= MAX_PORT {
            self.change_ports(|ports| *ports.tunnels.place(no) = None);
        }
    }

    /// Sets the range of the source ports of outer UDP headers.
    pub fn set_tunnel_source_ports(&self, first: u16, last: u16) {
        self.change_ports(|ports| ports.tunnels.source_ports = (first.min(last), first.max(last)));
    }

    fn change_ports(&self, change: impl FnOnce(&mut Ports)) {
        let _one_at_a_time = self.shared.flows();
        let mut ports = Ports::clone(&self.shared.ports.load());
        change(&mut ports);
        self.shared.ports.store(Arc::new(ports));
        self.shared.changed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_ports_are_in_their_range() {
        let mut ports = TunnelPorts::default();
        assert_eq!((ports.source_port(0), ports.source_port(u32::MAX)), (32_768, 60_999));
        ports.source_ports = (7, 7);
        assert_eq!(ports.source_port(u32::MAX), 7);
        ports.source_ports = (1, u16::MAX);
        assert_eq!(ports.source_port(u32::MAX), u16::MAX - 1);
    }
}
