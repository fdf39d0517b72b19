//! Flow hash: a hash of ingress port, recirculation id and 5-tuple, which identifies packets that must keep their
//! order.
//!
//! If two flows have the same hash, packets of one may wait for the upcall of the other. This has no other effect,
//! because every parked packet is looked up again after the answer. A packet without a 5-tuple is identified by its
//! Ethernet addresses and type; a fragment has no ports, as in a flow key.

use crate::header_offsets::HeaderOffsets;
use crate::packet::Meta;
use cpu::KeyedHash64;
use packet::ether::ethertype;

/// Computes the hash. `secret`: the datapath's secret for this hash.
pub(crate) fn flow_hash(bytes: &[u8], meta: &Meta, secret: &KeyedHash64) -> u64 {
    let offsets = HeaderOffsets::of(bytes, meta.packet_type);
    let l3 = usize::from(offsets.l3);
    let words = |at: usize, n: usize| bytes.get(at..at + n).unwrap_or_default();
    let addresses = match offsets.dl_type {
        ethertype::IPV4 => words(l3 + 12, 8),
        ethertype::IPV6 => words(l3 + 8, 32),
        _ => words(0, 12),
    };
    let port_and_pass = u64::from(meta.in_port) << 32 | u64::from(meta.recirc_id);
    let ports = offsets.l4.map_or(0, |l4| number(words(usize::from(l4), 4)));
    let types_and_ports = ports << 32 | u64::from(offsets.dl_type) << 8 | u64::from(offsets.proto);
    secret.of([port_and_pass, types_and_ports].into_iter().chain(addresses.chunks(8).map(number)))
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, &b| n << 8 | u64::from(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::Flow;
    use flow::compose::compose;

    fn of(flow: &Flow, in_port: u32) -> u64 {
        flow_hash(&compose(flow, b"payload"), &Meta::received(in_port), &KeyedHash64::new(7))
    }

    #[test]
    fn the_five_tuple_and_the_port_tell_packets_apart_and_nothing_else_does() {
        let v4 =
            Flow { dl_type: 0x800, nw_proto: 17, nw_src: 1, nw_dst: 2, tp_src: 3, tp_dst: 4, ..Flow::ZERO };
        let v6 = Flow { dl_type: 0x86dd, nw_proto: 6, ipv6_src: [1; 16], tp_src: 3, ..Flow::ZERO };
        for flow in [v4, v6] {
            let same = Flow { nw_tos: 0x20, nw_ttl: 9, tcp_flags: 2, ..flow };
            assert_eq!(of(&flow, 1), of(&same, 1));
            let mut others = vec![of(&flow, 1), of(&flow, 2)];
            others.push(of(&Flow { tp_src: 9, ..flow }, 1));
            others.push(of(&Flow { tp_dst: 9, ..flow }, 1));
            others.push(of(&Flow { nw_proto: 132, ..flow }, 1));
            others.push(of(&Flow { nw_src: 9, ipv6_src: [9; 16], ..flow }, 1));
            others.push(of(&Flow { nw_dst: 9, ipv6_dst: [9; 16], ..flow }, 1));
            let n = others.len();
            others.sort_unstable();
            others.dedup();
            assert_eq!(others.len(), n);
        }
    }

    #[test]
    fn what_is_no_ip_packet_has_a_number_too() {
        for bytes in [&[0u8; 14][..], &[0xff; 14], &[8; 15], &[0; 60]] {
            flow_hash(bytes, &Meta::received(1), &KeyedHash64::new(7));
        }
    }
}
