//! Address translation: which addresses and ports a new connection gets, and what packets have written into them.
//!
//! The choice is that of Open vSwitch 3.7: an address of the range by a hash of the connection, then ports from a first
//! one on until the key of the replies is free. Two differences: a bare `nat` translates no connection that it commits,
//! and of ICMP another identifier is tried where two hosts have chosen the same one.

use crate::key::{End, Key, is_icmp};
use crate::record::Side;
use cpu::siphash;
use packet::ipproto;
use std::net::IpAddr;

/// What `nat` is asked to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nat {
    /// What is translated of a new connection; `None`: what its connection says of a known one.
    pub side: Option<Side>,
    /// First and last address; `None`, or from zero on: the address stays.
    pub addresses: Option<(IpAddr, IpAddr)>,
    /// First and last port; `None`: the port stays if it can.
    pub ports: Option<(u16, u16)>,
    /// A client has the same address in all connections.
    pub persistent: bool,
    /// The first port that is tried is drawn.
    pub random: bool,
}

/// What is written into a packet. The datapath keeps the checksums right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The addresses are those of IPv6.
    pub v6: bool,
    /// The source address, most significant half first; of IPv4 in the low half.
    pub src: Option<[u64; 2]>,
    /// The destination address.
    pub dst: Option<[u64; 2]>,
    /// What is written behind the network header.
    pub transport: Transport,
    /// The packet is an ICMP error: this is written into the packet that it quotes. Nothing else of it changes.
    pub quoted: Option<Quoted>,
}

/// What is written into a packet that an ICMP error quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// The source address.
    pub src: [u64; 2],
    /// The destination address.
    pub dst: [u64; 2],
    /// What is written behind its network header.
    pub transport: Transport,
}

/// What is written into a transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Nothing.
    Same,
    /// Ports of TCP, UDP or SCTP: source, destination.
    Ports(u16, u16),
    /// The identifier of ICMP.
    Id(u16),
}

/// What decides between addresses and ports that are all as good.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chance {
    pub(crate) secret: [u64; 2],
    /// Another number for every connection.
    pub(crate) random: u32,
}

/// Ports that are tried in one round.
const TRIES_MAX: u32 = 128;
/// Rounds get shorter by half, down to this.
const TRIES_MIN: u32 = 16;

/// Ports that are tried: from `first` on, around the range. `first` may be outside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ports {
    first: u16,
    low: u16,
    high: u16,
}

pub(crate) fn has_ports(proto: u8) -> bool {
    matches!(proto, ipproto::TCP | ipproto::UDP | ipproto::SCTP)
}

/// Addresses as numbers: as many as can be counted with 32 bits, from the first on.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => a.to_bits().into(),
        IpAddr::V6(a) => a.to_bits(),
    }
}

fn halves(address: u128) -> [u64; 2] {
    [(address >> 64) as u64, address as u64]
}

impl Nat {
    /// The key that replies to a connection are to have; `None`: all that could be are taken.
    pub(crate) fn choose(
        &self,
        key: &Key,
        chance: Chance,
        mut free: impl FnMut(&Key) -> bool,
    ) -> Option<Key> {
        let side = self.side?;
        let [address_hash, port_hash] = self.hashes(key, chance);
        let address = self.address(key, side, address_hash)?;
        let mut reply = key.reverse();
        match side {
            Side::Source => reply.dst.address = address,
            Side::Destination => reply.src.address = address,
        }
        if is_icmp(key.proto) {
            return with_free_id(reply, free);
        }
        if !has_ports(key.proto) {
            return free(&reply).then_some(reply);
        }
        let mut draw = chance.random;
        let (source, destination) =
            (self.source_ports(key, side, port_hash), self.destination_ports(side, port_hash));
        if let Some(ports) = destination {
            reply.dst.port = source.first.into();
            let with = |port: u16| Key { src: End { port: port.into(), ..reply.src }, ..reply };
            if let Some(port) = ports.search(&mut draw, |port| free(&with(port))) {
                return Some(with(port));
            }
            reply = with(ports.first);
        }
        let with = |port: u16| Key { dst: End { port: port.into(), ..reply.dst }, ..reply };
        source.search(&mut draw, |port| free(&with(port))).map(with)
    }

    /// What the address and the first port are chosen by.
    fn hashes(&self, key: &Key, chance: Chance) -> [u32; 2] {
        let (low, high) = self.addresses.map_or((0, 0), |(a, b)| (number(a), number(b)));
        let ports = self.ports.map_or(0, |(a, b)| u64::from(a) << 16 | u64::from(b));
        let what = u64::from(key.v6) << 32 | u64::from(key.proto) << 16 | u64::from(key.zone);
        let range = [halves(low), halves(high), [ports, what]];
        let hash = |secret: [u64; 2], ends: [[u64; 2]; 3]| {
            siphash(secret, [ends, range].as_flattened().as_flattened()) as u32
        };
        let ports = [key.port_word(), 0];
        let whole = hash(chance.secret, [key.src.address, key.dst.address, ports]);
        // Without the secret: a client keeps its address over a restart.
        let client = hash([0; 2], [key.src.address, [0; 2], [0; 2]]);
        let address = if self.persistent { client } else { whole };
        [address, if self.random { chance.random } else { whole }]
    }

    /// The address that takes the place of the translated one. `None`: the range is of the other family.
    fn address(&self, key: &Key, side: Side, hash: u32) -> Option<[u64; 2]> {
        let own = match side {
            Side::Source => key.src.address,
            Side::Destination => key.dst.address,
        };
        let Some((first, last)) = self.addresses.filter(|(first, _)| number(*first) != 0) else {
            return Some(own);
        };
        if first.is_ipv6() != key.v6 {
            return None;
        }
        let more = number(last).saturating_sub(number(first)).min(0xffff_fffe) as u64;
        Some(halves(number(first) + u128::from(u64::from(hash) % (more + 1))))
    }

    /// Source ports to try. Where none are given they are of the same kind as that of the sender.
    fn source_ports(&self, key: &Key, side: Side, hash: u32) -> Ports {
        if let (Side::Source, Some((low, high))) = (side, self.ports) {
            return Ports::from(low, high, hash);
        }
        let first = key.src.port as u16;
        let (low, high) = match first {
            0..512 => (1, 511),
            512..1024 => (600, 1023),
            _ => (1024, u16::MAX),
        };
        Ports { first, low, high }
    }

    /// Destination ports to try, if it is not to be the one that the sender chose.
    fn destination_ports(&self, side: Side, hash: u32) -> Option<Ports> {
        self.ports.filter(|_| side == Side::Destination).map(|(low, high)| Ports::from(low, high, hash))
    }
}

impl Ports {
    fn from(low: u16, high: u16, hash: u32) -> Ports {
        let high = high.max(low);
        let first = low + (hash % (u32::from(high - low) + 1)) as u16;
        Ports { first, low, high }
    }

    /// The first that is free. Of many ports it tries some from the first on, then fewer from one that is drawn, and so on:
    /// a range that is nearly full costs no more than that.
    fn search(self, draw: &mut u32, mut free: impl FnMut(u16) -> bool) -> Option<u16> {
        let count = u32::from(self.high - self.low) + 1;
        let mut tries = count.min(TRIES_MAX);
        let mut port = self.first;
        loop {
            for _ in 0..tries {
                if free(port) {
                    return Some(port);
                }
                let inside = (self.low..self.high).contains(&port);
                port = if inside { port + 1 } else { self.low };
            }
            if tries >= count || tries < TRIES_MIN {
                return None;
            }
            tries /= 2;
            *draw = siphash([0; 2], &[u64::from(*draw)]) as u32;
            port = self.low + (*draw % count) as u16;
        }
    }
}

/// The key of an ICMP reply with the identifier that it has, or another that is free.
fn with_free_id(reply: Key, mut free: impl FnMut(&Key) -> bool) -> Option<Key> {
    let own = (reply.dst.port >> 16) as u16;
    let with = |id: u16| {
        let end = |end: End| End { port: end.port & 0xffff | u32::from(id) << 16, ..end };
        Key { src: end(reply.src), dst: end(reply.dst), ..reply }
    };
    (0..TRIES_MAX as u16).map(|n| with(own.wrapping_add(n))).find(|key| free(key))
}

impl Translation {
    /// Of a packet of a connection that has these keys. `reply`: its direction; `related`: it is an ICMP error about a
    /// packet of the other direction.
    pub(crate) fn new([original, back]: &[Key; 2], side: Side, reply: bool, related: bool) -> Translation {
        let (from, to) = if reply { (back, original.reverse()) } else { (original, back.reverse()) };
        // The addresses of replies are translated on the other side.
        let source = (side == Side::Source) != reply;
        let (src, dst) = (source.then_some(to.src.address), (!source).then_some(to.dst.address));
        let (transport, quoted) = match related {
            false => (Transport::of(from, &to), None),
            true => {
                let (quoted, inside) = (from.reverse(), to.reverse());
                let transport = Transport::of(&quoted, &inside);
                let (src, dst) = (inside.src.address, inside.dst.address);
                (Transport::Same, Some(Quoted { src, dst, transport }))
            }
        };
        Translation { v6: original.v6, src, dst, transport, quoted }
    }
}

impl Transport {
    /// What makes the ports of one key those of another.
    fn of(from: &Key, to: &Key) -> Transport {
        match from.port_word() == to.port_word() {
            true => Transport::Same,
            false if is_icmp(to.proto) => Transport::Id(to.icmp().0),
            false => Transport::Ports(to.src.port as u16, to.dst.port as u16),
        }
    }
}

#[cfg(test)]
#[path = "nat_tests.rs"]
mod tests;
