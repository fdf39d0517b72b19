//! The datapath's tunnel ports.
//!
//! A tunnel port has no device. Its number in `tnl_pop` tells which kind of header to remove. `tnl_push` uses the
//! port's counter if the header contains a sequence number.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tunnel::Kind;
use units::PortNo;

/// Default range (first and last) of the source ports of outer UDP headers.
pub const TUNNEL_SOURCE_PORTS: (u16, u16) = (32_768, 61_000);

/// A tunnel port.
#[derive(Debug)]
pub(crate) struct TunnelPort {
    pub(crate) kind: Kind,
    /// The sequence number of the next packet, for tunnels that number packets.
    seq: AtomicU32,
}

impl TunnelPort {
    /// Returns the sequence number for a packet.
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

    /// Returns whether this is the number of a tunnel port.
    #[inline(always)]
    pub(crate) fn contain(&self, no: u32) -> bool {
        self.by_no.get(no as usize).is_some_and(Option::is_some)
    }

    fn slot_mut(&mut self, no: PortNo) -> &mut Option<Arc<TunnelPort>> {
        let at = no.0 as usize;
        if self.by_no.len() <= at {
            self.by_no.resize(at + 1, None);
        }
        &mut self.by_no[at]
    }

    /// Makes `no` a tunnel port of this kind. If it is a tunnel port already, its sequence numbers continue.
    pub(crate) fn set(&mut self, no: PortNo, kind: Kind) {
        let seq = self.get(no.0).map_or(0, |old| old.seq.load(Ordering::Relaxed));
        *self.slot_mut(no) = Some(Arc::new(TunnelPort { kind, seq: AtomicU32::new(seq) }));
    }

    pub(crate) fn remove(&mut self, no: PortNo) {
        *self.slot_mut(no) = None;
    }

    pub(crate) fn set_source_ports(&mut self, first: u16, last: u16) {
        self.source_ports = (first.min(last), first.max(last));
    }

    /// The range of source ports of outer UDP headers.
    #[inline]
    pub(crate) fn source_ports(&self) -> SourcePorts {
        let (first, last) = self.source_ports;
        SourcePorts { first, count: last - first }
    }
}

/// A range of source ports.
#[derive(Clone, Copy)]
pub(crate) struct SourcePorts {
    first: u16,
    count: u16,
}

impl SourcePorts {
    /// Returns the source port for packets with this hash. All ports of the range are equally likely, except the last:
    /// as in Open vSwitch, it is selected only if the range has no other port.
    #[inline(always)]
    pub(crate) fn port(self, hash: u32) -> u16 {
        self.first + ((u64::from(hash) * u64::from(self.count)) >> 32) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_ports_are_in_their_range() {
        let mut ports = TunnelPorts::default();
        assert_eq!((ports.source_ports().port(0), ports.source_ports().port(u32::MAX)), (32_768, 60_999));
        ports.source_ports = (7, 7);
        assert_eq!(ports.source_ports().port(u32::MAX), 7);
        ports.source_ports = (1, u16::MAX);
        assert_eq!(ports.source_ports().port(u32::MAX), u16::MAX - 1);
    }
}
