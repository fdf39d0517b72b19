//! Address translation: chooses the addresses and ports of a new connection, and the edits of its packets.
//!
//! The choice is the same as in Open vSwitch 3.7: a hash of the connection selects an address of the range, then ports are tried until the
//! reply key is free. There are two differences: a `nat` without arguments does not translate a connection that it commits, and for ICMP another
//! identifier is tried if two hosts use the same one.

use crate::key::{Endpoint, Key, is_icmp};
use crate::record::Side;
use cpu::siphash;
use packet::ipproto;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

/// The parameters of `nat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nat {
    /// The side of a new connection that is translated. `None`: only apply the translation of an existing connection.
    pub side: Option<Side>,
    /// First and last address. `None`, or a range that starts with zero: the address is not translated.
    pub addresses: Option<(IpAddr, IpAddr)>,
    /// First and last port. `None`: the port stays the same if the reply key with this port is free.
    pub ports: Option<(u16, u16)>,
    /// A client gets the same address for all its connections.
    pub persistent: bool,
    /// The first port to try is random.
    pub random: bool,
}

/// Address and port edits of a packet. The datapath updates the checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The addresses are IPv6 addresses.
    pub v6: bool,
    /// New source address, most significant half first; an IPv4 address is in the low half. `None`: unchanged.
    pub src: Option<[u64; 2]>,
    /// New destination address. `None`: unchanged.
    pub dst: Option<[u64; 2]>,
    /// Edits of the transport header.
    pub transport: Transport,
    /// If the packet is an ICMP error: edits of the packet that it quotes. The ICMP header of the error does not change, except for its
    /// checksum.
    pub quoted: Option<Quoted>,
}

/// Edits of a packet that an ICMP error quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// New source address.
    pub src: [u64; 2],
    /// New destination address.
    pub dst: [u64; 2],
    /// Edits of the transport header.
    pub transport: Transport,
}

/// Edits of a transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// No edit.
    Same,
    /// New ports of TCP, UDP or SCTP: source, destination.
    Ports(u16, u16),
    /// New ICMP identifier.
    Id(u16),
}

/// Secret and counter from which the choice between equally suitable addresses and ports is computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RandomSource<'a> {
    pub(crate) secret: [u64; 2],
    /// Number of random numbers that were drawn.
    pub(crate) draws: &'a AtomicU64,
}

impl RandomSource<'_> {
    /// A pseudo-random number, another one at each call.
    fn draw(&self) -> u32 {
        siphash(self.secret, &[self.draws.fetch_add(1, Ordering::Relaxed)]) as u32
    }
}

/// Number of ports tried in the first round.
const TRIES_MAX: u32 = 128;
/// Each round tries half as many ports as the previous one. A round that tries fewer ports than this is the last one.
const LAST_ROUND_BELOW: u32 = 16;

/// Ports to try: from `first` on, wrapping around in the range `low` to `high`. `first` may be outside the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ports {
    first: u16,
    low: u16,
    high: u16,
}

pub(crate) fn has_ports(proto: u8) -> bool {
    matches!(proto, ipproto::TCP | ipproto::UDP | ipproto::SCTP)
}

/// The bits of an address as a number.
pub(crate) fn address_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => a.to_bits().into(),
        IpAddr::V6(a) => a.to_bits(),
    }
}

pub(crate) fn halves(address: u128) -> [u64; 2] {
    [(address >> 64) as u64, address as u64]
}

/// The translation that is tried first for an IPv4 connection, if it is the same for all connections with the action.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FixedNat {
    side: Side,
    address: u32,
    /// The destination port, if it is translated.
    port: Option<u16>,
}

impl FixedNat {
    /// The reply key of a packet with these addresses and ports, in the layout of a record.
    #[inline(always)]
    pub(crate) fn reply(&self, addresses: u64, ports: u64) -> (u64, u64) {
        let (back, back_ports, address) =
            (addresses.rotate_left(32), ports.rotate_left(32), u64::from(self.address));
        match (self.side, self.port) {
            (Side::Source, _) => (back & !0xffff_ffff | address, back_ports),
            (Side::Destination, None) => (back & 0xffff_ffff | address << 32, back_ports),
            (Side::Destination, Some(port)) => {
                (back & 0xffff_ffff | address << 32, back_ports & 0xffff_ffff | u64::from(port) << 32)
            }
        }
    }
}

impl Nat {
    /// Returns the translation that is tried first for IPv4 connections, if it does not depend on their addresses and ports.
    pub(crate) fn fixed(&self) -> Option<FixedNat> {
        let (side, (IpAddr::V4(first), IpAddr::V4(last))) = (self.side?, self.addresses?) else {
            return None;
        };
        let port = match (side, self.ports) {
            (_, None) => None,
            (Side::Destination, Some((low, high))) if low >= high => Some(low),
            _ => return None,
        };
        let is_one = first == last && !first.is_unspecified();
        is_one.then_some(FixedNat { side, address: first.to_bits(), port })
    }

    /// Chooses the reply key of a connection. `free`: returns whether a reply key is free. `None`: all candidates are taken, the
    /// range is of the other address family, or the action translates no side.
    pub(crate) fn choose(
        &self,
        key: &Key,
        random: RandomSource<'_>,
        mut free: impl FnMut(&Key) -> bool,
    ) -> Option<Key> {
        let side = self.side?;
        let [address_hash, port_hash] = self.hashes(key, random);
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
        let mut draw = || random.draw();
        let (source, destination) =
            (self.source_ports(key, side, port_hash), self.destination_ports(side, port_hash));
        if let Some(ports) = destination {
            reply.dst.port = source.first.into();
            let with = |port: u16| Key { src: Endpoint { port: port.into(), ..reply.src }, ..reply };
            if let Some(port) = ports.search(&mut draw, |port| free(&with(port))) {
                return Some(with(port));
            }
            reply = with(ports.first);
        }
        let with = |port: u16| Key { dst: Endpoint { port: port.into(), ..reply.dst }, ..reply };
        source.search(&mut draw, |port| free(&with(port))).map(with)
    }

    /// The hashes that select the address and the first port; 0 if the action leaves no choice.
    fn hashes(&self, key: &Key, random: RandomSource<'_>) -> [u32; 2] {
        let one_address = self.addresses.is_none_or(|(first, last)| first == last);
        if one_address && self.ports.is_none() {
            return [0; 2];
        }
        let (low, high) = self.addresses.map_or((0, 0), |(a, b)| (address_bits(a), address_bits(b)));
        let ports = self.ports.map_or(0, |(a, b)| u64::from(a) << 16 | u64::from(b));
        let family_proto_zone = u64::from(key.v6) << 32 | u64::from(key.proto) << 16 | u64::from(key.zone);
        let range = [halves(low), halves(high), [ports, family_proto_zone]];
        let hash = |secret: [u64; 2], ends: [[u64; 2]; 3]| {
            siphash(secret, [ends, range].as_flattened().as_flattened()) as u32
        };
        let ports = [key.port_word(), 0];
        let whole = hash(random.secret, [key.src.address, key.dst.address, ports]);
        let address = match self.persistent {
            // Hashed without the secret, so that a client keeps its address after a restart of the switch.
            true => hash([0; 2], [key.src.address, [0; 2], [0; 2]]),
            false => whole,
        };
        [address, if self.random { random.draw() } else { whole }]
    }

    /// The address after translation. `None`: the range is of the other address family.
    fn address(&self, key: &Key, side: Side, hash: u32) -> Option<[u64; 2]> {
        let own = match side {
            Side::Source => key.src.address,
            Side::Destination => key.dst.address,
        };
        let Some((first, last)) = self.addresses.filter(|(first, _)| address_bits(*first) != 0) else {
            return Some(own);
        };
        if first.is_ipv6() != key.v6 {
            return None;
        }
        // At most 2³² - 1 addresses are used, because the hash has 32 bits.
        let others = address_bits(last).saturating_sub(address_bits(first)).min(0xffff_fffe) as u64;
        Some(halves(address_bits(first) + u128::from(u64::from(hash) % (others + 1))))
    }

    /// Source ports to try. If none are configured, they are in the same class as the sender's port, as in Open vSwitch: 1 to 511 for a port
    /// below 512, 600 to 1023 for one below 1024, otherwise 1024 and above.
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

    /// Destination ports to try. `None`: the destination port is not translated.
    fn destination_ports(&self, side: Side, hash: u32) -> Option<Ports> {
        self.ports.filter(|_| side == Side::Destination).map(|(low, high)| Ports::from(low, high, hash))
    }
}

impl Ports {
    /// The ports of a range; `hash` selects the first one to try.
    fn from(low: u16, high: u16, hash: u32) -> Ports {
        let high = high.max(low);
        let first = low + (hash % (u32::from(high - low) + 1)) as u16;
        Ports { first, low, high }
    }

    /// Returns the first free port. In a large range the first round tries 128 ports, beginning with `first`. Each further round tries half
    /// as many, beginning with a random port. So the cost is bounded even if the range is nearly full.
    fn search(self, draw: &mut impl FnMut() -> u32, mut free: impl FnMut(u16) -> bool) -> Option<u16> {
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
            if tries >= count || tries < LAST_ROUND_BELOW {
                return None;
            }
            tries /= 2;
            port = self.low + (draw() % count) as u16;
        }
    }
}

/// The key of an ICMP reply with the identifier of the request, or with the next of 127 identifiers that is free.
fn with_free_id(reply: Key, mut free: impl FnMut(&Key) -> bool) -> Option<Key> {
    let own = (reply.dst.port >> 16) as u16;
    let with = |id: u16| {
        let end = |end: Endpoint| Endpoint { port: end.port & 0xffff | u32::from(id) << 16, ..end };
        Key { src: end(reply.src), dst: end(reply.dst), ..reply }
    };
    (0..TRIES_MAX as u16).map(|n| with(own.wrapping_add(n))).find(|key| free(key))
}

impl Translation {
    /// The edits of a packet of a connection with these keys. `side`: the translated side of the original direction. `reply`: the packet is
    /// a reply. `related`: the packet is an ICMP error about a packet of the other direction.
    pub(crate) fn new(
        [original, reply_key]: &[Key; 2],
        side: Side,
        reply: bool,
        related: bool,
    ) -> Translation {
        let (from, to) =
            if reply { (reply_key, original.reverse()) } else { (original, reply_key.reverse()) };
        // Replies are translated on the opposite side.
        let source = (side == Side::Source) != reply;
        let (src, dst) = (source.then_some(to.src.address), (!source).then_some(to.dst.address));
        let (transport, quoted) = match related {
            false => (Transport::of(from, &to), None),
            true => {
                // The quoted packet went in the other direction.
                let (quoted_from, quoted_to) = (from.reverse(), to.reverse());
                let transport = Transport::of(&quoted_from, &quoted_to);
                let (src, dst) = (quoted_to.src.address, quoted_to.dst.address);
                (Transport::Same, Some(Quoted { src, dst, transport }))
            }
        };
        Translation { v6: original.v6, src, dst, transport, quoted }
    }
}

impl Transport {
    /// The edits that replace the ports of key `from` by those of key `to`.
    fn of(from: &Key, to: &Key) -> Transport {
        match from.port_word() == to.port_word() {
            true => Transport::Same,
            false if is_icmp(to.proto) => Transport::Id(to.icmp().0),
            false => Transport::Ports(to.src.port as u16, to.dst.port as u16),
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "nat_tests.rs"]
mod tests;
