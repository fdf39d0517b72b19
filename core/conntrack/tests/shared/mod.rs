//! Packets of UDP for tests and examples.

use flow::compose::compose;
use flow::{Flow, Mac};

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// A packet of UDP over IPv4, from address and port to address and port.
pub fn udp((nw_src, tp_src): (u32, u16), (nw_dst, tp_dst): (u32, u16)) -> Flow {
    Flow {
        dl_dst: Mac([2; 6]),
        dl_type: 0x0800,
        nw_proto: 17,
        nw_ttl: 64,
        nw_src,
        nw_dst,
        tp_src,
        tp_dst,
        ..Flow::ZERO
    }
}

/// The bytes of a packet without payload, from the network header on.
pub fn l3(flow: &Flow) -> Vec<u8> {
    compose(flow, &[]).split_off(ETHERNET)
}
