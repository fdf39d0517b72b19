//! Finds the tunnel port of a received packet by its outer header.
//!
//! A bridge may have 10,000 tunnel ports, and only a few of them match a packet. So ports are indexed by key and remote address.
//! Key and remote address are each either fixed or set by flows, so four look-ups find all candidates.

use crate::BridgeId;
use bridge::TunnelConfig;
use bridge::tunnel::{self, Address, Choice};
use flow::{Flow, Tunnel};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use units::{OfPort, PortNo};

/// A tunnel port with its configuration, by which received packets are assigned to it.
#[derive(Clone, Debug)]
pub struct TunnelPort {
    /// The datapath port; all tunnels of one kind share it.
    pub number: PortNo,
    /// The bridge and the OpenFlow port.
    pub at: (BridgeId, OfPort),
    /// The configuration, which determines the packets that the port receives.
    pub config: Arc<TunnelConfig>,
}

/// Datapath port, key and remote address; `None`: set by flows.
type IndexKey = (PortNo, Option<u64>, Option<Address>);

/// All tunnel ports.
#[derive(Clone, Debug, Default)]
pub struct TunnelPorts(Arc<Index>);

#[derive(Clone, Debug, Default)]
struct Index {
    ports: HashMap<IndexKey, Vec<TunnelPort>>,
    /// The fixed remote addresses of the tunnel ports of each datapath port.
    remotes: BTreeSet<(PortNo, u128)>,
    /// The fixed keys of the tunnel ports whose remote address is set by flows.
    keys: BTreeSet<(PortNo, u128)>,
    /// Datapath ports that have a tunnel port for any key and any remote address.
    catchall: BTreeSet<PortNo>,
    /// Datapath ports whose packets can have options.
    with_options: BTreeSet<PortNo>,
}

/// The fixed value of a setting; `None` if flows set it.
fn fixed<T: Copy + Default>(choice: Choice<T>) -> Option<T> {
    (!matches!(choice, Choice::Flow)).then(|| choice.value())
}

impl TunnelPorts {
    /// Adds a port.
    pub fn push(&mut self, port: TunnelPort) {
        let (number, key, remote) = (port.number, fixed(port.config.in_key), fixed(port.config.remote));
        let index = Arc::make_mut(&mut self.0);
        match (key, remote) {
            (_, Some(remote)) => drop(index.remotes.insert((number, u128::from_be_bytes(remote)))),
            (Some(key), None) => drop(index.keys.insert((number, key.into()))),
            (None, None) => drop(index.catchall.insert(number)),
        }
        if port.config.has_options() {
            index.with_options.insert(number);
        }
        index.ports.entry((number, key, remote)).or_default().push(port);
    }

    /// Returns whether there are no tunnel ports.
    pub fn is_empty(&self) -> bool {
        self.0.ports.is_empty()
    }

    /// Returns whether packets from this datapath port can have options.
    pub(crate) fn can_have_options(&self, number: PortNo) -> bool {
        self.0.with_options.contains(&number)
    }

    /// The tunnel port that receives this packet.
    pub(crate) fn find(&self, flow: &Flow) -> Option<(BridgeId, OfPort)> {
        let (number, outer) = (PortNo(flow.in_port), &flow.tunnel);
        let (key, remote) = (Some(outer.tun_id), Some(tunnel::source(outer)));
        let ports = [(key, remote), (key, None), (None, remote), (None, None)];
        let there = ports.into_iter().filter_map(|(key, remote)| self.0.ports.get(&(number, key, remote)));
        let fit = |t: &TunnelPort| Some((t.config.match_rank(outer, flow.packet_type)?, t.at));
        there.flatten().filter_map(fit).min_by_key(|(rank, _)| *rank).map(|(_, at)| at)
    }

    /// The mask of the outer header for a megaflow that drops a packet for which there is no tunnel port. Of the source address
    /// and of the key, the mask has only the leading bits that distinguish them from those of all tunnel ports. So a few
    /// megaflows are enough to drop the packets of a million forged sources. These megaflows do not overlap.
    pub(crate) fn mask_without_port(&self, flow: &Flow) -> Tunnel {
        let (number, outer, index) = (PortNo(flow.in_port), &flow.tunnel, &*self.0);
        let source = u128::from_be_bytes(tunnel::source(outer));
        let mut source_bits = distinguishing_bits(&index.remotes, number, source);
        let mut key_bits = match distinguishing_bits(&index.keys, number, outer.tun_id.into()) {
            0 => 0,
            bits => bits.saturating_sub(KEY_OFFSET),
        };
        // If a tunnel port accepts this source or this key but not the packet, the mask has all bits of
        // source and key.
        let is_known = index.remotes.contains(&(number, source))
            || index.keys.contains(&(number, outer.tun_id.into()))
            || index.catchall.contains(&number);
        if is_known {
            (source_bits, key_bits) = (u128::BITS, u64::BITS);
        }
        let over_ipv4 = outer.ip_dst != 0;
        let (v4_bits, v6_bits) = if over_ipv4 {
            (source_bits.saturating_sub(V4_OFFSET), u128::BITS)
        } else {
            (u32::BITS, source_bits)
        };
        Tunnel {
            tun_id: u64::MAX.checked_shl(u64::BITS - key_bits).unwrap_or(0),
            ip_src: u32::MAX.checked_shl(u32::BITS - v4_bits).unwrap_or(0),
            ip_dst: u32::MAX,
            ipv6_src: u128::MAX.checked_shl(u128::BITS - v6_bits).unwrap_or(0).to_be_bytes(),
            ipv6_dst: [0xff; 16],
            ..Tunnel::default()
        }
    }
}

/// Bits before the IPv4 address in an IPv6-mapped address.
const V4_OFFSET: u32 = 96;
/// Bits before the 64-bit key in a `u128`.
const KEY_OFFSET: u32 = 64;

/// [`bits_apart`] for the values of this datapath port.
fn distinguishing_bits(values: &BTreeSet<(PortNo, u128)>, number: PortNo, value: u128) -> u32 {
    let at = (number, value);
    let near = [values.range(..at).next_back(), values.range(at..).next()];
    bits_apart(
        near.into_iter().flatten().filter(|(other, _)| *other == number).map(|(_, other)| *other),
        value,
    )
}

/// Number of leading bits that distinguish `value` from all values of a sorted set, given the nearest ones: one more than the
/// number of leading bits that it has in common with the nearest, at most 128. 0 if there are none.
pub(crate) fn bits_apart(near: impl Iterator<Item = u128>, value: u128) -> u32 {
    near.map(|other| ((other ^ value).leading_zeros() + 1).min(u128::BITS)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_port_that_fits_best_is_found_among_many() {
        let mut ports = TunnelPorts::default();
        let mut add = |ofport, options: &[(&str, &str)]| {
            let options: BTreeMap<_, _> =
                options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let (config, _) = TunnelConfig::parse("geneve", "p", &options).unwrap();
            let at = (BridgeId(1), OfPort(ofport));
            ports.push(TunnelPort { number: PortNo(6081), at, config: Arc::new(config) });
        };
        for i in 0..1000u16 {
            add(i + 10, &[("remote_ip", &format!("10.0.{}.{}", i >> 8, i & 0xff)), ("key", "5")]);
        }
        add(1, &[("remote_ip", "flow"), ("key", "flow")]);
        add(2, &[("remote_ip", "10.0.0.7"), ("key", "flow")]);
        let find = |ip_src, tun_id| {
            let tunnel = Tunnel { ip_src, ip_dst: 1, tun_id, ..Tunnel::default() };
            ports.find(&Flow { in_port: 6081, tunnel, ..Flow::ZERO }).map(|(_, port)| port.0)
        };
        assert_eq!(find(0x0a00_0007, 5), Some(17));
        assert_eq!(find(0x0a00_0007, 6), Some(2));
        assert_eq!(find(0x0a00_0008, 6), Some(1));
        let other = Flow { in_port: 4789, ..Flow::ZERO };
        assert_eq!(ports.find(&other), None);
    }

    /// Tunnel ports with these remote addresses and keys.
    fn ports_of(all: &[(&str, &str)]) -> TunnelPorts {
        let mut ports = TunnelPorts::default();
        for (n, (remote, key)) in all.iter().enumerate() {
            let options = [("remote_ip", remote), ("key", key)].map(|(k, v)| (k.to_owned(), (*v).to_owned()));
            let (config, _) = TunnelConfig::parse("vxlan", "p", &options.into()).unwrap();
            ports.push(TunnelPort {
                number: PortNo(4789),
                at: (BridgeId(1), OfPort(n as u16)),
                config: Arc::new(config),
            });
        }
        ports
    }

    fn packet(ip_src: u32, tun_id: u64) -> Flow {
        Flow {
            in_port: 4789,
            tunnel: Tunnel { ip_src, ip_dst: 1, tun_id, ..Tunnel::default() },
            ..Flow::ZERO
        }
    }

    #[test]
    fn few_megaflows_drop_packets_of_a_million_sources() {
        let mask = |all: &[(&str, &str)], ip_src, tun_id| {
            let mask = ports_of(all).mask_without_port(&packet(ip_src, tun_id));
            (mask.ip_src, mask.tun_id)
        };
        let one = [("10.0.0.1", "7")];
        assert_eq!(mask(&one, 0x8000_0000, 7), (0x8000_0000, 0));
        assert_eq!(mask(&one, 0x0a00_0000, 7), (u32::MAX, 0));
        assert_eq!(mask(&one, 0x0a00_0001, 8), (u32::MAX, u64::MAX), "another key");
        assert_eq!(mask(&[("10.0.0.1", "7"), ("flow", "8")], 0x8000_0000, 9), (0x8000_0000, u64::MAX));
        assert_eq!(mask(&[("flow", "8")], 0x8000_0000, 16), (0, u64::MAX << 4));
        assert_eq!(mask(&[("fd00::1", "8")], 0x8000_0000, 16), (0, 0), "only over IPv6");
        assert_eq!(mask(&[("flow", "flow")], 0x8000_0000, 16), (u32::MAX, u64::MAX));
    }

    #[test]
    fn no_packet_of_a_port_matches_what_drops_others() {
        let all = [
            ("10.0.0.1", "7"),
            ("10.0.0.2", "flow"),
            ("192.168.7.9", "3"),
            ("flow", "12"),
            ("flow", "0x900"),
        ];
        let ports = ports_of(&all);
        let (mut random, mut masks) = (7_u64, Vec::<(Flow, Tunnel)>::new());
        let mut next = || {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            random >> 33
        };
        let ends = [0x0a00_0001, 0x0a00_0002, 0xc0a8_0709];
        let keys = [7, 3, 12, 0x900];
        for _ in 0..5_000 {
            let near = |value: u64, bits: u64| value ^ 1 << (bits % 32);
            let (a, b, c, d) = (next(), next(), next(), next());
            let source = match a % 3 {
                0 => ends[b as usize % 3],
                1 => near(ends[b as usize % 3], c),
                _ => near(near(c, b), d),
            };
            let key =
                if d % 2 == 0 { keys[c as usize % 4] } else { near(keys[c as usize % 4], b) & 0xff_ffff };
            let flow = packet(source as u32, key);
            let hits = |(of, m): &&(Flow, Tunnel)| {
                (of.tunnel.ip_src ^ flow.tunnel.ip_src) & m.ip_src == 0
                    && (of.tunnel.tun_id ^ key) & m.tun_id == 0
            };
            let hit: Vec<_> = masks.iter().filter(hits).collect();
            match ports.find(&flow) {
                Some(_) => assert!(hit.is_empty(), "{source:x} {key:x} is dropped"),
                None => {
                    let mask = ports.mask_without_port(&flow);
                    assert!(hit.iter().all(|(_, other)| *other == mask), "they overlap");
                    if hit.is_empty() {
                        masks.push((flow, mask));
                    }
                }
            }
        }
        assert!(masks.len() < 2000, "{}", masks.len());
    }
}
