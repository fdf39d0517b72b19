//! The key of a connection: both endpoints, protocol and zone.

use cpu::KeyedHash64;
use packet::ipproto;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One endpoint of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Endpoint {
    /// The address, most significant half first; an IPv4 address is in the low half.
    pub(crate) address: [u64; 2],
    /// The port. For ICMP the identifier (16 bits), the type that this endpoint sends (8) and the code (8).
    pub(crate) port: u32,
}

/// The key of a connection in one of its directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    pub(crate) zone: u16,
    pub(crate) v6: bool,
    pub(crate) proto: u8,
    pub(crate) src: Endpoint,
    pub(crate) dst: Endpoint,
}

/// The fields of a connection's first packet that flows match (`ct_nw_src` and so on). Default: not tracked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuple {
    /// IP protocol; 0: unknown.
    pub proto: u8,
    /// The addresses are IPv6 addresses.
    pub v6: bool,
    /// Source address, most significant half first; an IPv4 address is in the low half.
    pub src: [u64; 2],
    /// Destination address.
    pub dst: [u64; 2],
    /// Source port, or ICMP type.
    pub tp_src: u16,
    /// Destination port, or ICMP code.
    pub tp_dst: u16,
}

pub(crate) fn is_icmp(proto: u8) -> bool {
    matches!(proto, ipproto::ICMP | ipproto::ICMPV6)
}

/// The port of an ICMP endpoint: identifier, type, code.
pub(crate) fn icmp_port(id: u16, kind: u8, code: u8) -> u32 {
    u32::from(id) << 16 | u32::from(kind) << 8 | u32::from(code)
}

/// The ICMP type of the opposite direction: of the reply for a request type, of the request for a reply type. Other types are returned
/// unchanged.
pub(crate) fn icmp_counterpart(v6: bool, kind: u8) -> u8 {
    match (v6, kind) {
        (false, 0) => 8,
        (false, 8) => 0,
        // Timestamp (RFC 792) and information requests.
        (false, 13 | 15) => kind + 1,
        (false, 14 | 16) => kind - 1,
        (true, 128) => 129,
        (true, 129) => 128,
        _ => kind,
    }
}

impl Key {
    /// The key of the other direction.
    pub(crate) fn reverse(self) -> Key {
        Key { src: self.dst, dst: self.src, ..self }
    }

    /// The IPv4 addresses: source in the upper half, destination in the lower half.
    #[inline(always)]
    pub(crate) fn address_word(&self) -> u64 {
        self.src.address[1] << 32 | self.dst.address[1]
    }

    /// The ports: source in the upper half, destination in the lower half.
    #[inline(always)]
    pub(crate) fn port_word(&self) -> u64 {
        u64::from(self.src.port) << 32 | u64::from(self.dst.port)
    }

    /// Zone, protocol and address family, at their bits in the first word of a record.
    #[inline(always)]
    pub(crate) fn meta_bits(&self) -> u64 {
        u64::from(self.zone) << 16 | u64::from(self.v6) << 2 | u64::from(self.proto) << 8
    }

    /// The hash of the key. It is the same for both directions, because the smaller endpoint is hashed first.
    #[inline]
    pub(crate) fn hash(&self, key_hash: &KeyedHash64) -> u64 {
        if !self.v6 {
            return Key::hash_ipv4(self.meta_bits(), self.address_word(), self.port_word(), key_hash);
        }
        Key::hash_ipv6(self.meta_bits(), [self.src.address, self.dst.address], self.port_word(), key_hash)
    }

    /// [`hash`](Self::hash) for IPv6, from words in the layout of a record and the addresses.
    #[inline(always)]
    pub(crate) fn hash_ipv6(
        meta_bits: u64,
        [src, dst]: [[u64; 2]; 2],
        ports: u64,
        key_hash: &KeyedHash64,
    ) -> u64 {
        let wide = |[high, low]: [u64; 2]| u128::from(high) << 64 | u128::from(low);
        let (from, to) = (wide(src), wide(dst));
        // Without a branch: the processor could not predict which endpoint is smaller.
        let later = (from > to) | ((from == to) & (ports >> 32 > ports & 0xffff_ffff));
        let turn = u64::from(later).wrapping_neg();
        let ports = ports ^ ((ports ^ ports.rotate_left(32)) & turn);
        let high = (src[0] ^ dst[0]) & turn;
        let low = (src[1] ^ dst[1]) & turn;
        key_hash.of([meta_bits, ports, src[0] ^ high, src[1] ^ low, dst[0] ^ high, dst[1] ^ low])
    }

    /// [`hash`](Self::hash) for IPv4, from words in the layout of a record.
    #[inline(always)]
    pub(crate) fn hash_ipv4(meta_bits: u64, addresses: u64, ports: u64, key_hash: &KeyedHash64) -> u64 {
        let src = addresses & !0xffff_ffff | ports >> 32;
        let dst = addresses << 32 | ports & 0xffff_ffff;
        key_hash.of([meta_bits, src.min(dst), src.max(dst)])
    }

    /// Zone.
    pub fn zone(&self) -> u16 {
        self.zone
    }

    /// IP protocol.
    pub fn proto(&self) -> u8 {
        self.proto
    }

    /// Source address.
    pub fn src(&self) -> IpAddr {
        self.address(&self.src)
    }

    /// Destination address.
    pub fn dst(&self) -> IpAddr {
        self.address(&self.dst)
    }

    /// Source and destination port.
    pub fn ports(&self) -> (u16, u16) {
        (self.src.port as u16, self.dst.port as u16)
    }

    /// ICMP identifier, type and code of packets in this direction.
    pub fn icmp(&self) -> (u16, u8, u8) {
        let port = self.src.port;
        ((port >> 16) as u16, (port >> 8) as u8, port as u8)
    }

    fn address(&self, end: &Endpoint) -> IpAddr {
        let [high, low] = end.address;
        match self.v6 {
            true => IpAddr::V6(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low))),
            false => IpAddr::V4(Ipv4Addr::from_bits(low as u32)),
        }
    }

    /// The key of a connection's original direction, from its tuple. The tuple has no ICMP identifier, so the identifier comes from the
    /// packet's key.
    pub(crate) fn of_tuple(tuple: &Tuple, packet: &Key) -> Key {
        let Tuple { proto, v6, src, dst, tp_src, tp_dst } = *tuple;
        let (a, b) = match is_icmp(proto) {
            true => {
                let (id, kind) = (packet.icmp().0, tp_src as u8);
                (icmp_port(id, kind, 0), icmp_port(id, icmp_counterpart(v6, kind), 0))
            }
            false => (tp_src.into(), tp_dst.into()),
        };
        let end = |address, port| Endpoint { address, port };
        Key { zone: packet.zone, v6, proto, src: end(src, a), dst: end(dst, b) }
    }

    /// The tuple that flows match.
    pub(crate) fn tuple(&self) -> Tuple {
        let (tp_src, tp_dst) = match is_icmp(self.proto) {
            true => (u16::from(self.icmp().1), u16::from(self.icmp().2)),
            false => self.ports(),
        };
        Tuple { proto: self.proto, v6: self.v6, src: self.src.address, dst: self.dst.address, tp_src, tp_dst }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Keys that differ in ports only, in addresses only, or in both have different hashes, and their shards and buckets are evenly
    /// distributed. Both directions of a key have the same hash.
    #[test]
    fn similar_keys_have_different_hashes() {
        let key_hash = KeyedHash64::new(3);
        for v6 in [false, true] {
            for (by_address, by_port) in [(0, 1), (1, 0), (1, 1), (256, 0), (1 << 16, 1)] {
                let end = |n: u64| Endpoint {
                    address: [0, 0x0a00_0000 + n * by_address],
                    port: (n * by_port) as u32,
                };
                let server = Endpoint { address: [0, 0x1400_0001], port: 53 };
                let key = |n| Key { zone: 1, v6, proto: 17, src: end(n), dst: server };
                let (mut entries, mut buckets) = (BTreeSet::new(), vec![0; 1 << 10]);
                for n in 1..1 << 14 {
                    let hash = key(n).hash(&key_hash);
                    assert_eq!(hash, key(n).reverse().hash(&key_hash));
                    assert!(entries.insert(hash >> 28), "two entries are equal");
                    buckets[(hash >> 28) as usize % (1 << 10)] += 1;
                }
                // Each bucket has 16 entries on average, so 50 is eight standard deviations away.
                assert!(buckets.iter().all(|n| (1..50).contains(n)), "{v6} {by_address} {by_port}");
            }
        }
    }
}
